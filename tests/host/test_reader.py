"""Reading: the same answers from memory and from the file, pushed or tailed, whole or from a projection's row."""

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from detent.core import Action, Contract, Machine, Question, Status, effect, table
from detent.core.history import Entry
from detent.errors import Unknown
from detent.host import open_host, open_reader
from detent.host.embedded import EmbeddedHost
from detent.host.embedded.journal import Journal
from detent.host.parts.projector import WRITE_EVERY
from detent.host.parts.replay import entries
from detent.host.projection import WHY_MAX
from detent.host.reading import Query

DOOR = Machine(
    "door", "closed", table("closed OPEN open\nopen CLOSE closed\nopen END done"), ends={"done": Status.COMPLETED}
)
ASKING = Machine(
    "asking",
    "a",
    table("a - done"),
    {"a": (Action("pay", "pay", {"to": "bob"}, ask=Question("Pay?")),)},
    {"done": Status.COMPLETED},
)


@effect("pay")
async def pay(contract: Contract) -> dict[str, Any]:
    return {"paid": contract.input["to"]}


class Count:
    """Counts entries, and how many it was given in this process."""

    name: ClassVar[str] = "count"
    version: ClassVar[int] = 1
    reach: ClassVar[int] = 0
    taken = 0

    def __init__(self, run_id: str, seen: int = 0) -> None:
        self.run_id, self.seen = run_id, seen

    def take(self, entry: Entry) -> None:
        assert entry.seq == self.seen + 1, "every entry once, in order"
        self.seen += 1
        type(self).taken += 1

    def dump(self) -> bytes:
        return str(self.seen).encode()

    @classmethod
    def load(cls, run_id: str, body: bytes) -> "Count":
        return cls(run_id, int(body))


async def toggle(host: Any, run_id: str, times: int) -> None:
    for number in range(times):
        await host.signal(run_id, "OPEN" if number % 2 == 0 else "CLOSE")


async def test_memory_and_file_say_the_same(tmp_path: Path) -> None:
    async with EmbeddedHost(tmp_path, [pay], sync="off") as host:
        run = await host.start(ASKING, run_id="r")
        with closing(open_reader(tmp_path)) as outside:
            inside = host.reader.standing("r")
            assert inside == outside.standing("r")
            assert [one.question for one in inside.questions] == ["Pay?"]
            assert inside.questions == list(outside.list().runs[0].waiting)
            assert msgspec.to_builtins(host.reader.why("r")) == msgspec.to_builtins(outside.why("r"))
            await host.answer("r", run.waiting[0].id, {"approved": True, "by": "ann"})
            await host.settled("r")
            assert host.reader.standing("r") == outside.standing("r")
            assert outside.standing("r").run.status is Status.COMPLETED
            with pytest.raises(Unknown, match="there is no run nobody"):
                outside.standing("nobody")


async def test_what_is_not_on_disk_is_not_read(tmp_path: Path) -> None:
    async with EmbeddedHost(tmp_path, sync="off") as host:
        await host.start(DOOR, run_id="r")
        telling = asyncio.create_task(host.signal("r", "OPEN"))
        await asyncio.sleep(0)  # it is folded now, and perhaps not yet on disk
        seen, written = host.reader.standing("r").run.seq, Journal(tmp_path / "journal.db")
        with closing(written):
            record = written.record("r")
        assert record is not None
        assert seen <= record.summary.seq
        await telling
        assert host.reader.standing("r").run.state == "open"


async def test_any_moment_is_near_a_snapshot(tmp_path: Path) -> None:
    async with EmbeddedHost(tmp_path, sync="off") as host:
        await host.start(DOOR, run_id="r")
        await toggle(host, "r", 3000)
        whole = {entry.seq: entry.run for entry in host.reader.entries("r")}
        with closing(open_reader(tmp_path)) as reader, reader.journal() as journal:
            for seq in (1, 2, 199, 777, 1500, 2999, 3001):
                before = journal.events_read
                standing = reader.at("r", seq)  # takes another connection
                assert (standing.run, standing.last) == (whole[seq], 3001)
                assert journal.events_read == before
        for seq in (777, 1500, 2999):
            with closing(open_reader(tmp_path)) as fresh:
                fresh.at("r", seq)
                fresh.why("r", seq)
                with fresh.journal() as journal:
                    assert journal.events_read < 1000, "folded from near, not from the beginning"


async def test_why_is_what_led_into_the_state(tmp_path: Path) -> None:
    machine = Machine("m", "a", table("a GO b\nb NOTE b\nb END done"), ends={"done": Status.COMPLETED})
    async with EmbeddedHost(tmp_path, sync="off") as host:
        await host.start(machine, run_id="r")
        await host.signal("r", "GO")
        assert [entry.seq for entry in host.reader.why("r")] == [2]
        assert [entry.seq for entry in host.reader.why("r", 1)] == [1]
        for _ in range(WHY_MAX + 5):
            await host.hold("r")
            await host.release("r")
        why = host.reader.why("r")
        assert len(why) == WHY_MAX
        assert why[-1].seq == host.reader.standing("r").run.seq


async def test_followers_miss_nothing_wherever_they_begin_and_whoever_writes(tmp_path: Path) -> None:
    async def follow(reader: Any, after: int) -> list[Entry]:
        return [entry async for entry in reader.follow("r", after)]

    async with open_host(tmp_path) as host:
        await host.start(DOOR, run_id="r")
        await toggle(host, "r", 450)
        with closing(open_reader(tmp_path)) as outside:
            following = [
                asyncio.create_task(follow(reader, after)) for reader in (host.reader, outside) for after in (0, 7, 449)
            ]
            await toggle(host, "r", 101)
            await host.signal("r", "END")
            found = await asyncio.gather(*following)
            assert await follow(outside, 553) == []
        whole = list(host.reader.entries("r"))
        assert len(whole) == 553
        for seen, after in zip(found, (0, 7, 449) * 2, strict=True):
            assert seen == whole[after:]


async def test_all_runs_are_followed_in_the_one_order(tmp_path: Path) -> None:
    async def follow(reader: Any, number: int) -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = []
        async for steps in reader.follow_all(0):
            found += [(step.run_id, step.seq) for step in steps]
            if len(found) >= number:
                return found
        return found

    async with open_host(tmp_path) as host:
        await host.start(DOOR, run_id="first")
        with closing(open_reader(tmp_path)) as outside:
            following = [asyncio.create_task(follow(reader, 22)) for reader in (host.reader, outside)]
            await host.start(DOOR, run_id="second")
            for _ in range(10):
                await toggle(host, "first", 2)
            inside, tailed = await asyncio.gather(*following)
        assert inside == tailed
        assert inside[:2] == [("first", 1), ("second", 1)]


async def test_a_projection_takes_every_entry_once_also_in_the_next_process(tmp_path: Path) -> None:
    async with open_host(tmp_path) as host:
        await host.start(DOOR, run_id="r")
        await toggle(host, "r", WRITE_EVERY + 10)
        Count.taken = 0
        assert host.reader.project("r", Count).seen == WRITE_EVERY + 11
        assert host.reader.project("r", Count).seen == Count.taken == WRITE_EVERY + 11
        await toggle(host, "r", 4)
        assert (host.reader.project("r", Count).seen, Count.taken) == (WRITE_EVERY + 15, WRITE_EVERY + 15)
        await host.show("r")
    with closing(open_reader(tmp_path)) as reader:
        Count.taken = 0
        assert reader.project("r", Count).seen == WRITE_EVERY + 15
        assert Count.taken == 4, "the rest is in a row beside the journal"


async def test_a_projection_that_fails_harms_only_itself(tmp_path: Path) -> None:
    class Broken(Count):
        name: ClassVar[str] = "broken"

        def take(self, entry: Entry) -> None:
            raise RuntimeError(f"no idea of {entry.seq}")

    async with open_host(tmp_path) as host:
        await host.start(DOOR, run_id="r")
        for _ in range(2):
            with pytest.raises(RuntimeError, match="no idea"):
                host.reader.project("r", Broken)
        assert host.reader.project("r", Count).seen == 1
        assert (await host.signal("r", "OPEN")).state == "open"


async def test_a_row_of_an_older_version_or_a_damaged_one_is_made_again(tmp_path: Path) -> None:
    class Newer(Count):
        version: ClassVar[int] = 2

    async with open_host(tmp_path) as host:
        await host.start(DOOR, run_id="r")
        await toggle(host, "r", WRITE_EVERY)
        host.reader.project("r", Count)
        await host.show("r")
        Newer.taken = 0
        assert host.reader.project("r", Newer).seen == Newer.taken == WRITE_EVERY + 1


async def test_questions_of_children_are_read_with_their_run(tmp_path: Path) -> None:
    parent = Machine(
        "top", "a", table("a - done"), {"a": (Action("kid", "child", {"machine": "asking"}),)},
        {"done": Status.COMPLETED}, children={"asking": ASKING},
    )  # fmt: skip
    async with EmbeddedHost(tmp_path, [pay], sync="off") as host:
        await host.start(parent, run_id="top")
        await host.settled("top")
        ((run_id, question),) = host.reader.questions("top")
        assert (run_id, question.question) == (host.reader.family("top")[1].run_id, "Pay?")
        assert [one.run_id for one in host.reader.list(Query(is_top=True)).runs] == ["top"]


async def test_the_reader_gives_what_the_journal_has(tmp_path: Path) -> None:
    async with EmbeddedHost(tmp_path, sync="off") as host:
        await host.start(DOOR, run_id="r", session="s")
        assert list(host.reader.entries("r")) == list(entries(host.journal, "r"))
        assert host.reader.verify("r").problem == ""
        assert host.reader.find("last").run_id == host.reader.find("r").run_id == "r"
        assert host.reader.machine(DOOR.digest) == DOOR
        assert host.reader.machine_names() == ["door"]


async def test_a_family_is_read_in_one_moment_with_its_place_in_the_order_of_all(tmp_path: Path) -> None:
    parent = Machine(
        "top", "a", table("a - done"), {"a": (Action("kid", "child", {"machine": "asking"}),)},
        {"done": Status.COMPLETED}, children={"asking": ASKING},
    )  # fmt: skip
    async with EmbeddedHost(tmp_path, [pay], sync="off") as host:
        await host.start(parent, run_id="top")
        await host.settled("top")
        found = host.reader.family_now("top")
        assert found.members == host.reader.family("top")
        assert [run.id for run in found.waiting] == [one.run_id for one in found.members]
        assert found.cursor == host.reader.cursor()


async def test_whoever_looks_at_many_runs_looks_again_when_something_was_written(tmp_path: Path) -> None:
    with closing(open_reader(tmp_path)) as outside, outside.watching() as news:
        assert not outside.has_runs()
        async with open_host(tmp_path) as host:
            with host.reader.watching() as own:
                await host.start(DOOR, run_id="r")
                await own.wait()
            await host.show("r")
        while not (outside.has_runs() and outside.summary("r")):
            await news.wait()


async def test_a_reader_that_was_given_outlives_its_host(tmp_path: Path) -> None:
    with closing(open_reader(tmp_path)) as reader:
        async with open_host(tmp_path, reader=reader) as host:
            await host.start(DOOR, run_id="r")
            assert host.reader is reader
            assert reader.standing("r").run.state == "closed"
        assert reader.standing("r").run.state == "closed"


async def test_one_who_asks_for_a_class_of_their_own_gets_a_projection_of_their_own(tmp_path: Path) -> None:
    class Own(Count):
        pass

    async with open_host(tmp_path) as host:
        await host.start(DOOR, run_id="r")
        mine, others = host.reader.project("r", Own), host.reader.project("r", Count)
        await toggle(host, "r", 2)
        assert host.reader.project("r", Count) is others
        assert (mine.seen, others.seen) == (1, 3)
