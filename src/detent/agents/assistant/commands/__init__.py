"""The command of the assistant: `detent chat`."""
