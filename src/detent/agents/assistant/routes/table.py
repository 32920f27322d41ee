"""All addresses of the assistant."""

from detent.agents.assistant.routes import chat, concern, memory

ROUTES = (*chat.ROUTES, *memory.ROUTES, *concern.ROUTES)
