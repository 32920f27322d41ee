"""The addresses of the assistant: chat, memory, and its stream of events."""
