"""The embedded host: asyncio and one SQLite file, nothing to install, nothing to start."""

from detent.host.embedded.host import EmbeddedHost

__all__ = ["EmbeddedHost"]
