"""Reading: every event once and in order, wherever one begins; where a run stands; pages of the list."""

import asyncio
from pathlib import Path
from typing import ClassVar

from detent.core import Action, Contract, EffectFailed, Outcome, Status, effect
from detent.core.history import Entry
from detent.errors import Unknown
from detent.host.reading import Query
from detent.testing.conformance.fixtures import (
    ASKING,
    DOING,
    DOOR,
    HandClock,
    HostOpener,
    Outside,
    one,
    parent_of,
    until,
)


async def check_watch_tells_every_event_once(open_host: HostOpener, home: Path) -> None:
    async with open_host(home) as host:
        run = await host.start(DOOR)

        async def follow() -> list[int]:
            return [entry.seq async for entry in host.watch(run.id)]

        watchers = [asyncio.ensure_future(follow()) for _ in range(3)]
        for _ in range(150):
            await host.signal(run.id, "OPEN")
            await host.signal(run.id, "CLOSE")
        last = await host.signal(run.id, "BURN")
        for watcher in watchers:
            assert await watcher == list(range(1, last.seq + 1))
        assert [entry.seq async for entry in host.watch(run.id, after=298)] == [299, 300, 301, 302]
        assert [entry.seq async for entry in host.watch(run.id, after=302)] == []


async def check_a_watcher_that_stands_still_hides_nothing(open_host: HostOpener, home: Path) -> None:
    """Half-read events must not show the rest of the host an old journal: its once-only would be gone."""
    outside = Outside()
    async with open_host(home, [outside.effect()]) as host:
        door = await host.start(DOOR)
        for _ in range(10):
            await host.signal(door.id, "OPEN")
            await host.signal(door.id, "CLOSE")
        watching = host.watch(door.id)
        assert (await anext(watching)).seq == 1
        first = await host.settled((await host.start(DOING, {"amount": 1})).id)
        second = await host.settled((await host.start(DOING, {"amount": 1})).id)
        assert (first.status, second.status, len(outside.deeds)) == (Status.COMPLETED, Status.WAITING, 1)
        assert len(await host.list()) == 3
        assert (await anext(watching)).seq == 2
        await watching.aclose()  # type: ignore[attr-defined]


async def check_watchers_end_with_their_host(open_host: HostOpener, home: Path) -> None:
    async with open_host(home) as host:
        run = await host.start(DOOR)

        async def follow() -> int:
            return len([entry async for entry in host.watch(run.id)])

        watcher = asyncio.ensure_future(follow())
        while not watcher.done() and (await host.show(run.id)).seq < 3:
            await host.signal(run.id, "OPEN")
            await host.signal(run.id, "CLOSE")
    assert await watcher >= 1


async def check_the_list_has_filters_and_pages(open_host: HostOpener, home: Path) -> None:
    async with open_host(home) as host:
        ids = [(await host.start(DOOR, run_id=f"r{n}")).id for n in range(25)]
        for run_id in ids[:5]:
            await host.signal(run_id, "BURN")
        await host.start(one(Action("note", "log", {"message": "hi"}), name="other"))
        assert [s.run_id for s in await host.list(status=[Status.COMPLETED], name="door")] == ids[4::-1]
        assert len(await host.list(status=[Status.COMPLETED, Status.WAITING])) == 26
        assert len(await host.list(name="other")) == 1
        seen: list[str] = []
        before = 0
        while page := await host.list(name="door", limit=10, before=before):
            seen += [s.run_id for s in page]
            before = page[-1].no
        assert seen == ids[::-1]


async def check_a_standing_is_what_the_verbs_say(open_host: HostOpener, home: Path) -> None:
    outside = Outside()
    async with open_host(home, [outside.effect()]) as host:
        run = await host.start(ASKING, {"amount": 3}, run_id="r")
        standing = host.reader.standing("r")
        assert (standing.run, standing.machine, standing.last) == (run, ASKING, run.seq)
        (question,) = standing.questions
        assert (question.question, question.call.input) == ("Do it?", {"amount": 3})
        assert host.reader.list(Query(status=(Status.WAITING,))).runs[0].waiting == (question,)
        assert [asked for _, asked in host.reader.questions("r")] == [question]
        assert (standing.can.answer, standing.can.retry) == (True, False)
        run = await host.answer("r", question.contract_id, {"approved": True, "by": "ann"})
        run = await host.settled("r")
        assert host.reader.standing("r").run == run
        assert host.reader.at("r", 1).run.waiting
        assert not host.reader.at("r", 1).can.answer, "what is past can only be looked at"
    async with open_host(home, [outside.effect()]) as host:
        assert host.reader.standing("r").run == run
        assert [entry.run for entry in host.reader.entries("r")][-1] == run
        assert host.reader.verify("r").problem == ""


async def check_any_moment_is_what_it_was(open_host: HostOpener, home: Path) -> None:
    async with open_host(home) as host:
        await host.start(DOOR, run_id="r")
        runs = [host.reader.standing("r").run]
        for number in range(450):
            runs.append(await host.signal("r", "OPEN" if number % 2 == 0 else "CLOSE"))
        for seq in (1, 2, 199, 200, 201, 333, 451):
            assert host.reader.at("r", seq).run == runs[seq - 1]
            assert host.reader.why("r", seq)[-1].run == runs[seq - 1]
        for seq in (0, 452):
            try:
                host.reader.at("r", seq)
            except Unknown:
                continue
            raise AssertionError("a moment that never was")


async def check_followers_miss_nothing(open_host: HostOpener, home: Path) -> None:
    async with open_host(home) as host:
        await host.start(DOOR, run_id="r")

        async def follow(after: int) -> list[int]:
            return [entry.seq async for entry in host.reader.follow("r", after)]

        following = [asyncio.create_task(follow(after)) for after in (0, 1, 5)]
        for _ in range(150):
            await host.signal("r", "OPEN")
            await host.signal("r", "CLOSE")
        following += [asyncio.create_task(follow(after)) for after in (0, 150, 301)]
        await host.signal("r", "BURN")
        found = await asyncio.gather(*following)
        for seen, after in zip(found, (0, 1, 5, 0, 150, 301), strict=True):
            assert seen == list(range(after + 1, 303))


async def check_all_runs_are_followed_in_one_order(open_host: HostOpener, home: Path) -> None:
    async with open_host(home) as host:

        async def follow() -> list[tuple[str, int]]:
            found: list[tuple[str, int]] = []
            async for steps in host.reader.follow_all(0):
                found += [(step.run_id, step.seq) for step in steps]
                if len(found) == 60:
                    return found
            return found

        following = asyncio.create_task(follow())
        for run_id in ("a", "b", "c"):
            await host.start(DOOR, run_id=run_id)
        for number in range(19):
            name = "OPEN" if number % 2 == 0 else "CLOSE"
            await asyncio.gather(*(host.signal(run_id, name) for run_id in ("a", "b", "c")))
        found = await following
        for run_id in ("a", "b", "c"):
            assert [seq for one, seq in found if one == run_id] == list(range(1, 21))


class Tally:
    """Counts a run's entries, to see that each is taken once."""

    name: ClassVar[str] = "tally"
    version: ClassVar[int] = 1
    reach: ClassVar[int] = 0

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.seqs: list[int] = []

    def take(self, entry: Entry) -> None:
        """Note it down."""
        self.seqs.append(entry.seq)


async def check_a_projection_takes_every_entry_once(open_host: HostOpener, home: Path) -> None:
    async with open_host(home) as host:
        await host.start(DOOR, run_id="r")
        for number in range(7):
            assert host.reader.project("r", Tally).seqs == list(range(1, number + 2))
            await host.signal("r", "OPEN" if number % 2 == 0 else "CLOSE")
    async with open_host(home) as host:
        assert host.reader.project("r", Tally).seqs == list(range(1, 9))


async def check_a_projection_that_is_made_in_parts_is_the_same(open_host: HostOpener, home: Path) -> None:
    async with open_host(home) as host:
        await host.start(DOOR, run_id="r")
        for number in range(30):
            await host.signal("r", "OPEN" if number % 2 == 0 else "CLOSE")
    async with open_host(home) as host:
        reached = 0
        while reached < 31:
            tally, seq = host.reader.project_part("r", Tally, 0.0)
            assert reached < seq, "each part brings it further"
            assert tally.seqs == list(range(1, seq + 1))
            reached = seq
        await host.signal("r", "OPEN")
        assert host.reader.project("r", Tally).seqs == list(range(1, 33))


async def check_the_list_knows_which_runs_have_moved_since(open_host: HostOpener, home: Path) -> None:
    clock = HandClock()
    async with open_host(home, clock=clock) as host:
        for run_id in ("old", "moved"):
            await host.start(DOOR, run_id=run_id)
        clock.move(1000.0)
        since = clock.now()
        await host.signal("moved", "OPEN")
        await host.start(DOOR, run_id="new")
        found = host.reader.list(Query(moved_since=since)).runs
        assert [one.run_id for one in found] == ["new", "moved"], "by their latest event, in the order of the list"
        assert host.reader.list(Query(moved_since=since + 1)).runs == []


async def check_every_question_has_its_answer(open_host: HostOpener, home: Path) -> None:
    outside = Outside()
    async with open_host(home, [outside.effect()]) as host:
        run = await host.start(parent_of(ASKING), {"amount": 3}, run_id="above", session="above")
        run = await until(host, run.id, lambda run: run.status is Status.WAITING)
        (child,) = host.reader.standing(run.id).children
        await until(host, child, lambda run: bool(run.waiting))
        reader = host.reader
        for name in ("above", child):
            assert reader.first_of(name) == "above"
            assert [one.run_id for one in reader.family(name)] == ["above", child]
            assert [one.run_id for one in reader.family_now(name).members] == ["above", child]
        assert reader.find("abo").run_id == reader.find("last").run_id == "above"
        assert {one.run_id for one in reader.find_all("above")} == {"above", child}
        assert {one.run_id for one in reader.summaries(["above", child, "nobody"])} == {"above", child}
        assert [asking for asking, _ in reader.questions("above")] == [child]
        assert reader.waiting_count() == len(reader.waiting()) >= 1
        assert {"story", "parent"} <= set(reader.machine_names())
        answered = await host.answer(child, reader.standing(child).run.waiting[0].id, {"approved": True, "by": "ann"})
        await until(host, "above", lambda run: run.ended is not None)
        assert [deed.deed for deed in reader.deeds(answered.id)] == ["done"]
        assert reader.seq_at("above", "1") == reader.at("above", 1).run.seq == 1
        assert reader.why("above")[-1].run.ended is Status.COMPLETED
        assert not reader.notes("above")
        assert (list(reader.claim_differences()), list(reader.check().problems)) == ([], [])
        assert (reader.head().runs, reader.head().claims, reader.identity()[1]) == (2, 1, 1)
        assert len(list(reader.transcript(["above", child]))) > 2
        assert reader.old_runs(0.0) == ([], 0)
        assert reader.old_runs(1e12)[1] == 1, "the one that holds a key is kept"


async def check_an_error_of_any_name_is_listed_as_it_is(open_host: HostOpener, home: Path) -> None:
    """A tool names its errors as it likes, and may have a name that the list uses for something else."""
    names = ("tolerated", "error", "completed", "")

    async def perform(contract: Contract) -> Outcome:
        raise EffectFailed("not a number", type=contract.input["type"])

    liar = effect("lie", kind="pure")(perform)
    machine = one(Action("deed", "lie", {"type": "{{ context.type }}"}))
    async with open_host(home, [liar]) as host:
        for number, name in enumerate(names):
            await host.start(machine, {"type": name}, run_id=f"r{number}")
            await host.settled(f"r{number}")
        listed = {run.run_id: run.error for run in host.reader.list().runs}
        for number in range(len(names)):
            error = (await host.show(f"r{number}")).error
            assert error is not None
            assert listed[f"r{number}"] == {"type": error.type, "message": error.message}
