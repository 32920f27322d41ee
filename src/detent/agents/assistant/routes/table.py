"""All addresses of the assistant."""

from detent.agents.assistant.routes import chat, memory

ROUTES = (*chat.ROUTES, *memory.ROUTES)
