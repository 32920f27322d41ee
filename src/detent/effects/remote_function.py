"""The effect of a function in somebody else's program: that program makes the call, the journal's holder asks it to.

Each program listens on a socket in `callers` of the home. One JSON object per line each way, in two phases:

    holder   {"protocol": 1, "call": RUN_ID, "contract": {…}}      or {"protocol": 1, "probe": RUN_ID, "contract": {…}}
    program  {"ready": 1}                                          or {"absent": 1}: nobody here waits for that run
    holder   {"go": 1}
    program  {"result": …}, {"failed": …}, {"partial": …} or {"unknown": …}

Before the go nothing has happened, whatever becomes of either side. After it only the answer says what did; a program
that is gone by then leaves a doubt.
"""

import asyncio
import contextlib
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from detent.core import progress
from detent.core.contract import Contract
from detent.core.effect_type import (
    Declared,
    Effect,
    EffectFailed,
    Outcome,
    OutcomeUnknown,
    PartialFailure,
    StillRunning,
)
from detent.core.question import Question
from detent.errors import Refused

PROTOCOL = 1
CALLER_MARK = "caller:"
FOLDER = "callers"
LINE_MAX = 64 * 1024 * 1024
GONE = "tool_failure.caller_gone"  # the error of a call that nobody was there to make

Reply = dict[str, Any]


class CallPlace(NamedTuple):
    """Where a call is made: tool and run, the program that began it, and how long a request may be in flight."""

    tool: str
    run_id: str
    program: str
    settle_s: float

    def encode(self) -> str:
        """The source of its run."""
        return f"{CALLER_MARK}{self.tool} {self.run_id} {self.program} {self.settle_s:g}"


def parse_place(source: str) -> CallPlace:
    """The place that a source names."""
    try:
        tool, run_id, program, settle_s = source.removeprefix(CALLER_MARK).split(" ")
        place = CallPlace(tool, run_id, program, float(settle_s))
    except ValueError:
        raise Refused(f"{source!r} names no call of a program") from None
    if not program.isalnum() or "/" in run_id:  # they become names of files
        raise Refused(f"{source!r} names no call of a program")
    return place


class CallingProgram(Protocol):
    """A program with guarded functions, as the holder of the journal sees it."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Where it listens."""

    def accept(self, run_id: str, contract: Contract) -> "asyncio.Future[Reply] | None":
        """Take a call: what comes of it once `go` is said, None where nobody here waits for that run."""

    def go(self, run_id: str, contract: Contract) -> None:
        """Make the call that was taken."""

    def recall(self, run_id: str, contract: Contract) -> "asyncio.Future[Reply] | None":
        """What came of a call that was made here, or will; None where it was not made here."""


PRESENT: dict[str, CallingProgram] = {}  # those of this very process, by name


def make_caller_effect(home: Path, source: str) -> Effect:
    """The effect of a guarded function, for the run of one call."""
    place = parse_place(source)
    door = _CallDoor(home / FOLDER, place)
    # No time limit of its own: a program that dies is noticed at once, and how long a function takes only it knows.
    declared = Declared("irreversible", 0.0, "global", place.settle_s)
    return Effect(place.tool, door.perform, declared, door.reconcile, may_trail=True, is_local=True)


class _CallDoor:
    """Finds the program that makes the call of one run, and asks it to."""

    def __init__(self, folder: Path, place: CallPlace) -> None:
        self._folder, self._place = folder, place

    async def perform(self, contract: Contract) -> Outcome:
        """Have the call made by a program that waits for it; one that people said yes to waits until there is one."""
        about = progress.attempt.get()
        run_id = self._place.run_id
        if about is None or about.run_id == run_id:  # a fork is nobody's call
            for program in self._list_programs():
                try:
                    exchange = await _begin(self._folder, program, "call", run_id, contract)
                except _Absent:
                    continue
                outcome = await self._finish(exchange)
                if outcome is not None:
                    return outcome
        if not contract.approved:
            raise EffectFailed("the program that called it is gone, and nothing was called", GONE)
        waits = f"`{contract.effect}` is approved, and is called when its program asks for it again"
        return Outcome(question=Question(waits, "callback", data={"caller": self._place.program}))

    async def _finish(self, exchange: "_Exchange") -> Outcome | None:
        """What came of the call; None where whoever waited for it has left in the last moment."""
        reply = exchange.outcome
        try:
            said = await asyncio.shield(reply)
            return None if "absent" in said else _take_reply(said)
        except asyncio.CancelledError:
            raise StillRunning(f"`{self._place.tool}` goes on in its program", _LateReply(reply)) from None

    async def reconcile(self, contract: Contract) -> Outcome | None:
        """What the programs that may have made the call know of it; one that is gone can say nothing."""
        is_sure = True
        for program in self._list_programs():
            try:
                exchange = await _begin(self._folder, program, "probe", self._place.run_id, contract)
                return _take_reply(await asyncio.shield(exchange.outcome))
            except _Absent as absent:
                is_sure = is_sure and absent.is_alive
            except OutcomeUnknown:
                return None
        if is_sure:  # every one of them is there, and none was told to go
            raise EffectFailed("no program was told to make the call")
        return None

    def _list_programs(self) -> Iterator[str]:
        """The programs that wait, or once waited, for this run: whoever began it, then those that asked again."""
        yield self._place.program
        mark = f"{self._place.run_id}~"
        with contextlib.suppress(FileNotFoundError):
            for name in sorted(os.listdir(self._folder)):
                if name.startswith(mark) and name.removeprefix(mark) != self._place.program:
                    yield name.removeprefix(mark)


class _Absent(Exception):
    """That program does not wait for this run; `is_alive`: it says so itself."""

    def __init__(self, is_alive: bool) -> None:
        super().__init__()
        self.is_alive = is_alive


class _Exchange(NamedTuple):
    """A call that a program was told to make, and what will come of it."""

    outcome: "asyncio.Future[Reply]"


class _LateReply:
    """What comes in the end of a call that was given up."""

    def __init__(self, reply: "asyncio.Future[Reply]") -> None:
        self._reply = reply

    def __await__(self) -> Generator[Any, None, Outcome]:
        return _take_reply((yield from asyncio.shield(self._reply).__await__()))


async def _read_reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> Reply:
    """What another process says came of a call, on the connection on which it was told to make it."""
    try:
        return decode_line(await reader.readline())
    except (OSError, ValueError):
        return {"unknown": "the program that made the call is gone"}
    finally:
        writer.close()


async def _begin(folder: Path, program: str, verb: str, run_id: str, contract: Contract) -> _Exchange:
    """Reach a program and tell it to go; `_Absent` where it is not there, or does not wait for this run."""
    here = PRESENT.get(program)
    if here is not None and here.loop is asyncio.get_running_loop():
        outcome = here.accept(run_id, contract) if verb == "call" else here.recall(run_id, contract)
        if outcome is None:
            raise _Absent(is_alive=True)
        if verb == "call":
            here.go(run_id, contract)
        return _Exchange(outcome)
    try:
        with socket_path(folder, program) as path:
            reader, writer = await asyncio.open_unix_connection(path, limit=LINE_MAX)
    except OSError:
        raise _Absent(is_alive=False) from None
    is_ready = False
    try:
        said = {"protocol": PROTOCOL, verb: run_id, "contract": msgspec.to_builtins(contract)}
        writer.write(msgspec.json.encode(said) + b"\n")
        reply = decode_line(await reader.readline())
        if "ready" not in reply:
            raise _Absent(is_alive="absent" in reply)
        is_ready = True
        writer.write(b'{"go": 1}\n')  # from here on only its answer tells
        return _Exchange(asyncio.ensure_future(_read_reply(reader, writer)))
    except (OSError, ValueError):
        raise _Absent(is_alive=False) from None
    finally:
        if not is_ready:
            writer.close()


def decode_line(line: bytes) -> Reply:
    """One line of such a talk."""
    return msgspec.json.decode(line, type=dict[str, Any])


def _take_reply(reply: Reply) -> Outcome:
    """What a program says came of a call, as an effect says it."""
    if "result" in reply:
        return Outcome(reply["result"])
    for name, kind in (("failed", EffectFailed), ("partial", PartialFailure)):
        if name in reply:
            said = reply[name]
            raise kind(str(said.get("message", "")), str(said.get("type", "tool_failure")), said.get("result"))
    raise OutcomeUnknown(str(reply.get("unknown", "it said nothing that could be understood")))


@contextlib.contextmanager
def socket_path(folder: Path, name: str) -> Iterator[str]:
    """The address of a program's socket: through the folder, since the real path may be too long for one."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        through = f"/proc/self/fd/{fd}/{name}"
        yield through if Path(f"/proc/self/fd/{fd}").exists() else str(folder / name)
    finally:
        os.close(fd)
