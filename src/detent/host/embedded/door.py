"""The door: verbs handed over a private Unix socket to the process that holds the journal.

One JSON object per line each way. Only the same user can open it: the home is 0700, the socket 0600, and the peer's
user id is checked.
"""

import asyncio
import os
import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from detent.core.machine import Machine
from detent.core.run import Run
from detent.errors import (
    DefinitionError,
    DetentError,
    EventRefused,
    JournalError,
    NotWaiting,
    Refused,
    ReplayError,
    Unknown,
)

if TYPE_CHECKING:
    from detent.host.embedded.host import EmbeddedHost

LINE_MAX = 64 * 1024 * 1024
NAME = "door"
_KINDS = (DefinitionError, Refused, NotWaiting, Unknown, ReplayError, JournalError, DetentError)
ERRORS: dict[str, type[DetentError]] = {kind.__name__: kind for kind in _KINDS}
VERBS = frozenset(
    {
        "start",
        "signal",
        "answer",
        "cancel",
        "show",
        "hold",
        "release",
        "fork",
        "migrate",
        "settled",
        "recover",
        "prune",
        "probe",
        "repair_claims",
    }
)


class DoorClosed(ConnectionError):
    """The other process went away."""


class Door:
    """Serves verbs of one host to other processes."""

    def __init__(self, host: "EmbeddedHost", home: Path) -> None:
        self._host = host
        self._home = home
        self._server: asyncio.AbstractServer | None = None
        self._callers: set[asyncio.Task[Any]] = set()
        self._folder = -1

    async def open(self) -> None:
        """Begin to listen."""
        self._folder, path = _address(self._home)
        (self._home / NAME).unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(self._serve, path, limit=LINE_MAX)
        finally:
            os.umask(before)

    async def close(self) -> None:
        """Stop listening and hang up, so that whoever waits can take over; to be done before the lock is let go."""
        if self._server is not None:
            (self._home / NAME).unlink(missing_ok=True)
            self._server.close()
            self._server = None
            for caller in self._callers:
                caller.cancel()
            if self._callers:
                await asyncio.wait(self._callers)
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        caller: Any = asyncio.current_task()
        self._callers.add(caller)
        try:
            if _peer(writer) not in (os.getuid(), None):
                return
            while line := await reader.readline():
                reply = await self._reply(line)
                if self._host.is_closing:
                    # What a host says while it closes is not the last word. Left without a reply until we hang up,
                    # the caller asks the next holder, and what was done here already is not done there again.
                    await asyncio.get_running_loop().create_future()
                writer.write(reply + b"\n")
                await writer.drain()
        except (ConnectionError, ValueError, asyncio.LimitOverrunError, asyncio.CancelledError):
            return  # a caller that goes away or talks nonsense loses its connection, nothing else
        finally:
            self._callers.discard(caller)
            writer.close()

    async def _reply(self, line: bytes) -> bytes:
        try:
            asked = msgspec.json.decode(line)
            verb, given = asked["verb"], dict(asked["args"])
            if verb not in VERBS:
                raise Unknown(f"there is no verb `{verb}`")
            if "machine" in given:
                given["machine"] = msgspec.convert(given["machine"], Machine)
            result = await getattr(self._host, verb)(**given)
            reply = msgspec.json.encode({"result": result})
            if len(reply) >= LINE_MAX:
                raise DetentError(f"it was done, but the run is too large to show here ({len(reply):,} bytes)")
            return reply
        except EventRefused as error:
            told = {"state": error.state, "event": error.event, "accepts": error.accepts}
            return msgspec.json.encode({"error": "EventRefused", "message": str(error), **told})
        except DetentError as error:
            return msgspec.json.encode({"error": type(error).__name__, "message": str(error)})
        except (KeyError, TypeError, ValueError, msgspec.MsgspecError) as error:
            return msgspec.json.encode({"error": "Refused", "message": f"not understood: {error}"})
        except Exception as error:  # noqa: BLE001  # silence would make the caller ask again, for ever
            return msgspec.json.encode({"error": "DetentError", "message": f"{type(error).__name__}: {error}"})


class Knock:
    """The other side: one connection to the process that holds the journal."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, home: Path) -> "Knock":
        """Connect, or raise DoorClosed."""
        try:
            folder, path = _address(home)
        except OSError as error:
            raise DoorClosed(str(error)) from None
        try:
            return cls(*await asyncio.open_unix_connection(path, limit=LINE_MAX))
        except OSError as error:
            raise DoorClosed(str(error)) from None
        finally:
            os.close(folder)

    async def ask(self, verb: str, **args: Any) -> Any:
        """Have a verb done there."""
        line = msgspec.json.encode({"verb": verb, "args": args})
        if len(line) >= LINE_MAX:
            raise Refused(f"this is {len(line):,} bytes; at most {LINE_MAX:,} can be handed to another process")
        try:
            self._writer.write(line + b"\n")
            await self._writer.drain()
            line = await self._reader.readline()
        except OSError as error:
            raise DoorClosed(str(error)) from None
        if not line.endswith(b"\n"):
            raise DoorClosed("the process that held the journal is gone")
        reply = msgspec.json.decode(line)
        if "error" in reply:
            raise _error(reply)
        return reply["result"]

    def close(self) -> None:
        """Hang up."""
        self._writer.close()


def run_of(result: Any) -> Run:
    """A run as it came through the door."""
    return msgspec.convert(result, Run)


def _error(reply: dict[str, Any]) -> DetentError:
    if reply["error"] == "EventRefused":
        return EventRefused(reply["state"], reply["event"], reply["accepts"])
    return ERRORS.get(reply["error"], DetentError)(reply["message"])


def _address(home: Path) -> tuple[int, str]:
    """An open folder and the socket's path through it: the real path may be longer than a socket address can be."""
    folder = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    through = f"/proc/self/fd/{folder}/{NAME}"
    return folder, through if Path(f"/proc/self/fd/{folder}").exists() else str(home / NAME)


def _peer(writer: asyncio.StreamWriter) -> int | None:
    """The user id at the other end, where the system tells."""
    peer = writer.get_extra_info("socket")
    if not hasattr(socket, "SO_PEERCRED") or peer is None:
        return None
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", credentials)[1])
