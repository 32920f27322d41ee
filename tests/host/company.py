"""Other processes on a journal, and a keeper who stands between them and its door."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any


class Peer:
    """Another process, and what it says."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.is_holder = False
        self._tag = 0
        self._heard: list[dict[str, Any]] = []

    async def hear(self, **wanted: Any) -> dict[str, Any]:
        """The next thing it says that has these fields."""
        while True:
            for said in self._heard:
                if all(said.get(name) == value for name, value in wanted.items()):
                    self._heard.remove(said)
                    return said
            assert self.process.stdout is not None
            line = await self.process.stdout.readline()
            assert line, f"the process ended; heard {self._heard}"
            self._heard.append(json.loads(line))

    def order(self, verb: str, **given: Any) -> int:
        """Have it do a verb; its tag."""
        self._tag += 1
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": verb, "given": given, "tag": self._tag}).encode() + b"\n")
        return self._tag

    async def do(self, verb: str, **given: Any) -> Any:
        """Have it do a verb and wait for what came of it."""
        said = await self.hear(tag=self.order(verb, **given))
        return said.get("ok") or said

    def leave(self) -> None:
        """Let it end as a program ends."""
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")


@asynccontextmanager
async def peer(home: Path, *, is_awaited: bool = True) -> AsyncIterator[Peer]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.host.peer", home, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        limit=2**26,
    )  # fmt: skip
    try:
        other = Peer(process)
        if is_awaited:
            other.is_holder = (await other.hear(ok="open"))["is_holder"]
        yield other
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        assert process.stdin is not None
        process.stdin.close()
        process._transport.close()  # type: ignore[attr-defined]  # asyncio closes it only when the loop is gone


def deeds(home: Path) -> list[str]:
    path = home / "deeds"
    return path.read_text().splitlines() if path.exists() else []


Meet = Callable[[str, dict[str, Any]], Awaitable[bool]]


def moment(line: bytes) -> str:
    """Which of the four messages of the hand-over a line is; nothing for a ping and its answer."""
    said = json.loads(line)
    kinds = {"offer": "offer", "ready": "ready", "go": "go", "result": "answer", "error": "answer"}
    return next((kind for key, kind in kinds.items() if key in said), "")


class Keeper:
    """Stands at the door of a home and passes on what is said there, one message at a time.

    Each of the four is shown to `meet` first, with what the offer of its conversation was given; where that says no,
    the message is lost with the connection.
    """

    def __init__(self, home: Path, meet: Meet) -> None:
        self._home, self._meet = home, meet
        self._talks: set[asyncio.Task[None]] = set()

    async def stand(self) -> None:
        """Take the place of the door; the real one is behind."""
        (self._home / "door").rename(self._home / "behind")
        self._server = await asyncio.start_unix_server(self._serve, self._home / "door", limit=2**26)

    async def leave(self) -> None:
        """Give the place back."""
        self._server.close()
        await self.quiet()
        (self._home / "door").unlink(missing_ok=True)
        if (self._home / "behind").exists():
            (self._home / "behind").rename(self._home / "door")

    async def quiet(self) -> None:
        """Return when every conversation is over on both sides."""
        while self._talks:
            await asyncio.wait(self._talks)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        me: Any = asyncio.current_task()
        self._talks.add(me)
        try:
            inner, outer = await asyncio.open_unix_connection(self._home / "behind", limit=2**26)
        except OSError:
            writer.close()
            self._talks.discard(me)
            return
        given: dict[str, Any] = {}
        ways = [asyncio.create_task(self._pass_on(*pair, given)) for pair in ((reader, outer), (inner, writer))]
        try:  # when one side hangs up, so do we to the other
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.wait(ways)
            for end in (outer, writer):
                end.transport.abort()
            self._talks.discard(me)

    async def _pass_on(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, given: dict[str, Any]) -> None:
        try:
            while line := await source.readline():
                kind = moment(line)
                if kind == "offer":
                    given.update(json.loads(line)["offer"]["args"])
                if kind and not await self._meet(kind, given):
                    return
                target.write(line)
                await target.drain()
        except OSError:
            return


@asynccontextmanager
async def kept(home: Path, meet: Meet) -> AsyncIterator[Keeper]:
    """A keeper at the door of a home while the block is at work."""
    keeper = Keeper(home, meet)
    await keeper.stand()
    try:
        yield keeper
    finally:
        await keeper.leave()
