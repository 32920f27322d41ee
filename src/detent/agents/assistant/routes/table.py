"""All addresses of the assistant."""

from detent.agents.assistant.routes import chat, cognitive_object, memory, tool

ROUTES = (*chat.ROUTES, *memory.ROUTES, *cognitive_object.ROUTES, *tool.ROUTES)
