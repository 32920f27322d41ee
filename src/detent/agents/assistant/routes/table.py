"""All addresses of the assistant."""

from detent.agents.assistant.routes import chat, cognitive_object, memory, offered_tool

ROUTES = (*chat.ROUTES, *memory.ROUTES, *cognitive_object.ROUTES, *offered_tool.ROUTES)
