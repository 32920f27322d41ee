"""The knock: the caller's side of the handover socket.

Before the go nothing is done, whatever becomes of either side. After it only the answer says what was done, or, where
none comes, the journal.
"""

import asyncio
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from detent.core.run import Run
from detent.errors import (
    DefinitionError,
    DetentError,
    EventRefused,
    JournalError,
    MaybeDone,
    NoAnswer,
    NotPermitted,
    NotWaiting,
    Refused,
    ReplayError,
    Unknown,
)
from detent.host.embedded.handover_socket import LINE_MAX, PROTOCOL, address
from detent.host.embedded.lock import holder

ANSWER_S = 5.0  # within which a holder that is alive says something
PAUSE_S = 0.02
WAITING = frozenset({"settled", "show"})  # for the answer to these one may wait for ever
HARMLESS = WAITING | {"recover"}  # and these change nothing that a person has decided
WITHDRAWN, PERHAPS = "withdrawn", "perhaps"  # what is known of a verb that was given up on
_KINDS = (DefinitionError, Refused, NotPermitted, NotWaiting, Unknown, ReplayError, JournalError, DetentError)
ERRORS: dict[str, type[DetentError]] = {kind.__name__: kind for kind in _KINDS}
GO = msgspec.json.encode({"go": PROTOCOL}) + b"\n"
PING = msgspec.json.encode({"ping": PROTOCOL}) + b"\n"


class DoorClosed(ConnectionError):
    """The other process went away."""


class DoorBlocked(ConnectionError):
    """The other process is there, but too many wait to be heard by it."""


class Errand:
    """A verb to be done by whoever holds the journal, through as many holders as it takes."""

    def __init__(
        self,
        home: Path,
        verb: str,
        args: dict[str, Any],
        on_silence: Callable[[], None],
        proof: dict[str, Any] | None = None,
    ) -> None:
        self.home, self.verb, self.args, self.proof = home, verb, args, proof or {}
        self.on_silence = on_silence  # called when a holder falls silent over a verb for which we wait on
        self.has_gone = False  # whether one of them was given the go
        self.heard_at = asyncio.get_running_loop().time()

    async def run(self) -> dict[str, Any]:
        """What the holder says to it; DoorClosed when that one is gone, and the next is to be asked."""
        try:
            knock = await Knock.open(self.home)
            try:
                return await knock.ask(self)
            finally:
                knock.close()
        except DoorBlocked:
            raise self.no_answer() from None
        except DoorClosed:
            if asyncio.get_running_loop().time() > self.heard_at + ANSWER_S:
                raise self.no_answer() from None
            await asyncio.sleep(PAUSE_S)
            raise

    @property
    def offer(self) -> dict[str, Any]:
        """What is offered to a holder."""
        said: dict[str, Any] = {"verb": self.verb, "args": self.args}
        return said | {"proof": self.proof} if self.proof else said

    @property
    def fate(self) -> str:
        """What is known of it when it is given up on; nothing where there is nothing to know."""
        return "" if self.verb in HARMLESS else PERHAPS if self.has_gone else WITHDRAWN

    def no_answer(self) -> NoAnswer:
        """The error of a holder that is silent over it."""
        return no_answer(self.home, self.fate, str(self.args.get("new_id") or self.args.get("run_id") or ""))


class Knock:
    """One connection to the process that holds the journal."""

    def __init__(self, home: Path, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._home, self._reader, self._writer = home, reader, writer

    @classmethod
    async def open(cls, home: Path) -> "Knock":
        """Connect, or raise DoorClosed; DoorBlocked where there is no room in the queue, and none comes to be."""
        loop = asyncio.get_running_loop()
        until = loop.time() + ANSWER_S
        while True:
            try:
                return cls(home, *await asyncio.open_unix_connection(sock=_connect(home), limit=LINE_MAX))
            except BlockingIOError as error:
                if loop.time() > until:
                    raise DoorBlocked(str(error)) from None
                await asyncio.sleep(PAUSE_S)
            except OSError as error:
                raise DoorClosed(str(error)) from None

    async def ask(self, errand: Errand) -> dict[str, Any]:
        """Have a verb done there, for what the holder says of it."""
        try:
            await self._offer(errand)
            errand.has_gone = True
            self._writer.write(GO)
            return _decode(await self._answer(errand))
        except OSError as error:
            raise DoorClosed(str(error)) from None

    async def _offer(self, errand: Errand) -> None:
        """Return when the holder is ready to do the verb."""
        line = msgspec.json.encode({"protocol": PROTOCOL, "offer": errand.offer})
        if len(line) >= LINE_MAX:
            raise Refused(f"this is {len(line):,} bytes; at most {LINE_MAX:,} can be handed to another process")
        try:
            async with asyncio.timeout(ANSWER_S):
                self._writer.write(line + b"\n")
                await self._writer.drain()
                reply = _decode(await self._reader.readline())
        except TimeoutError:
            raise errand.no_answer() from None
        errand.heard_at = asyncio.get_running_loop().time()
        if "leaving" in reply:
            await self._answer(errand)
            raise DoorClosed("the process that held the journal has left")
        if "ready" not in reply and "protocol" not in reply:
            raise Refused(
                f"{_name_holder(self._home)} holds the journal and is an older detent, which would act on what a person"
                " has given up on; nothing was done. End it, or use its version here too"
            )
        if "ready" not in reply:
            result_of(reply)

    async def _answer(self, errand: Errand) -> bytes:
        """The next line, however long it takes while the holder is alive."""
        reading = asyncio.ensure_future(self._reader.readline())
        is_told, pause_s = False, ANSWER_S / 10  # the first look comes early: in all, a silence is told after ANSWER_S
        try:
            while not (await asyncio.wait([reading], timeout=pause_s))[0]:
                pause_s = ANSWER_S
                if not await _is_silent(self._home, reading):
                    continue
                if errand.verb not in WAITING:
                    raise errand.no_answer()
                if not is_told:
                    errand.on_silence()
                is_told = True
            return reading.result()
        finally:
            errand.heard_at = asyncio.get_running_loop().time()
            reading.cancel()

    async def ping(self) -> None:
        """Return when the holder has answered; one of an older version does not know a ping, and says so."""
        try:
            self._writer.write(PING)
            _decode(await self._reader.readline())
        except OSError as error:
            raise DoorClosed(str(error)) from None

    def close(self) -> None:
        """Hang up; what has not been given the go is withdrawn by that."""
        self._writer.transport.abort()


def _connect(home: Path) -> socket.socket:
    """A connection to the handover socket of a home; a local one is made at once or not at all."""
    folder, path = address(home)
    peer = socket.socket(socket.AF_UNIX)
    try:
        peer.setblocking(False)
        peer.connect(path)
    except BaseException:
        peer.close()
        raise
    finally:
        os.close(folder)
    return peer


async def _is_silent(home: Path, reading: "asyncio.Future[bytes]") -> bool:
    """Whether the holder neither answers a ping nor what it was asked."""
    ping = asyncio.ensure_future(is_answering(home, ANSWER_S * 9 / 10))
    try:
        either: list[asyncio.Future[Any]] = [ping, reading]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        return not reading.done() and not ping.result()
    finally:
        ping.cancel()


async def is_answering(home: Path, limit_s: float) -> bool:
    """Whether the process that holds the journal of a home is alive to what it is told."""
    try:
        async with asyncio.timeout(limit_s):
            while True:
                try:
                    knock = await Knock.open(home)
                    try:
                        await knock.ping()
                        return True
                    finally:
                        knock.close()
                except (DoorClosed, DoorBlocked):
                    await asyncio.sleep(PAUSE_S)
    except TimeoutError:
        return False


def no_answer(home: Path, fate: str, run_id: str = "") -> NoAnswer:
    """The error of a holder that says nothing, with what is known of the verb it was to do."""
    look = f"detent show {run_id}" if run_id else "detent list"
    ends = {WITHDRAWN: "; nothing was done", PERHAPS: f" any more; it may have been done: `{look}` tells"}
    message = f"{_name_holder(home)} holds the journal in {home} and does not answer{ends.get(fate, '')}"
    kind = MaybeDone if fate == PERHAPS else NoAnswer
    return kind(message, **holder(home)._asdict(), run_id=run_id, is_change=bool(fate))


def _name_holder(home: Path) -> str:
    """The process that holds the journal, with what it runs and since when."""
    pid, command, since = holder(home)
    told = [command, f"since {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(since))}" if since else ""]
    more = ", ".join(word for word in told if word)
    return f"process {pid or '?'}" + (f" ({more})" if more else "")


def result_of(reply: dict[str, Any]) -> Any:
    """What a verb gave, or the error it raised there."""
    if "error" not in reply:
        return reply["result"]
    if reply["error"] == "EventRefused":
        raise EventRefused(reply["state"], reply["event"], reply["accepts"])
    raise ERRORS.get(reply["error"], DetentError)(reply["message"])


def run_of(result: Any) -> Run:
    """A run as it came through the socket."""
    return msgspec.convert(result, Run)


def _decode(line: bytes) -> dict[str, Any]:
    if not line.endswith(b"\n"):
        raise DoorClosed("the process that held the journal is gone")
    return msgspec.json.decode(line, type=dict[str, Any])
