"""Triggers: each planned time and each event starts one run, whoever drives, dies, or drives at the same time."""

import random
from pathlib import Path

from detent.core import Machine, Run
from detent.define.schedule import Schedule
from detent.define.source import Definition
from detent.define.trigger import Trigger
from detent.errors import NotPermitted
from detent.host.port import Host
from detent.host.reading import Query
from detent.kit.trigger.armed_trigger import ARMED, PAUSED, arm, list_triggers, pause, remove, resume
from detent.kit.trigger.firing import Occasion, fire, mark_of_event, plan_occasion
from detent.kit.trigger.trigger_driver import TriggerDriver, deliver
from detent.testing.conformance.fixtures import DOOR, HandClock, HostOpener, one, refusal
from detent.testing.conformance.people import OPAL, VAL, settle_in

BERLIN = "Europe/Berlin"
MARCH = 1_774_650_000.0  # 2026-03-27 22:20 UTC; in Berlin the clock goes forward in the night to the 29th
OCTOBER = 1_792_800_000.0  # 2026-10-24 00:00 UTC; and back in the night to the 25th
DAY_S = 86_400.0
JOB = one(name="job", input_schema={"type": "object", "properties": {"day": {"type": "string"}}})


def define_job(*triggers: Trigger, machine: Machine = JOB) -> Definition:
    """A file with these triggers."""
    return Definition(machine, {}, "job.yaml", triggers=triggers)


def make_scheduled(name: str = "night", **fields: object) -> Trigger:
    """A trigger with a schedule."""
    return Trigger(name, "schedule", schedule=Schedule(**fields), input={"day": "{{ trigger.planned }}"})  # type: ignore[arg-type]


async def runs_of(host: Host, name: str = "job") -> list[Run]:
    """The runs of a machine, oldest first."""
    found, before = [], 0
    while True:
        page = host.reader.list(Query(name=name, limit=1000, before=before))
        found += page.runs
        before = page.next
        if not before:
            return [host.reader.standing(one.run_id).run for one in reversed(found)]


async def check_a_planned_time_starts_one_run(open_host: HostOpener, home: Path) -> None:
    clock = HandClock(MARCH)
    async with open_host(home, clock=clock) as host:
        await arm(host, define_job(make_scheduled(cron="30 2 * * *", timezone=BERLIN)), clock.now(), "")
        clock.move(3 * DAY_S)
    async with open_host(home, clock=clock) as host:
        await arm(host, define_job(make_scheduled(cron="30 2 * * *", timezone=BERLIN)), clock.now() - 3 * DAY_S, "")
        for _ in range(2):
            await TriggerDriver(host, clock.now).run_due()
            await TriggerDriver(host, clock.now).run_due()
        (run,) = await runs_of(host)  # only the latest is made up for
        assert run.context["day"] == "2026-03-30T02:30:00+02:00"
        assert run.by == "trigger:job.night"


async def check_every_missed_time_is_made_up_for_where_that_is_wanted(open_host: HostOpener, home: Path) -> None:
    clock = HandClock(MARCH)
    async with open_host(home, clock=clock) as host:
        await arm(host, define_job(make_scheduled(cron="30 2 * * *", timezone=BERLIN, catch_up="all")), clock.now(), "")
        clock.move(3 * DAY_S)
        await TriggerDriver(host, clock.now).run_due()
        days = [run.context["day"] for run in await runs_of(host)]
        # 02:30 is left out by the clock that night: what was planned for it is due right after.
        assert days == ["2026-03-28T02:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"]


async def check_an_hour_that_comes_twice_counts_once(open_host: HostOpener, home: Path) -> None:
    clock = HandClock(OCTOBER)
    async with open_host(home, clock=clock) as host:
        await arm(host, define_job(make_scheduled(cron="30 2 * * *", timezone=BERLIN, catch_up="all")), clock.now(), "")
        for _ in range(3 * 24):
            clock.move(3600.0)
            await TriggerDriver(host, clock.now).run_due()
        days = [run.context["day"][:10] for run in await runs_of(host)]
        assert days == ["2026-10-24", "2026-10-25", "2026-10-26"]


async def check_what_nobody_was_there_for_is_passed_over_where_that_is_wanted(
    open_host: HostOpener, home: Path
) -> None:
    clock = HandClock(MARCH)
    async with open_host(home, clock=clock) as host:
        await arm(host, define_job(make_scheduled(every_s=3600.0, catch_up="none")), clock.now(), "")
        clock.move(2.5 * 3600.0)
        await TriggerDriver(host, clock.now).run_due()
        assert not await runs_of(host)
        clock.move(3600.0 - clock.now() % 3600.0)
        await TriggerDriver(host, clock.now).run_due()
        assert len(await runs_of(host)) == 1


async def check_a_driver_that_dies_after_the_start_leaves_one_run(open_host: HostOpener, home: Path) -> None:
    clock = HandClock(MARCH)
    async with open_host(home, clock=clock) as host:
        (armed,) = await arm(host, define_job(make_scheduled(every_s=60.0)), clock.now(), "")
        clock.move(60.0)
        occasion = plan_occasion(clock.now() - clock.now() % 60.0)
        await host.start(armed.workflow, {"day": "x"}, run_id=armed.run_id_of(occasion.mark))  # and dies here
    async with open_host(home, clock=clock) as host:
        await TriggerDriver(host, clock.now).run_due()
        assert [run.context["day"] for run in await runs_of(host)] == ["x"]


async def check_what_was_started_is_never_started_again_although_it_was_pruned(
    open_host: HostOpener, home: Path
) -> None:
    clock = HandClock(MARCH)
    async with open_host(home, clock=clock) as host:
        (armed,) = await arm(host, define_job(make_scheduled(every_s=60.0)), clock.now(), "")
        clock.move(60.0)
        (run_id,) = await TriggerDriver(host, clock.now).run_due()
        await host.settled(run_id)
        clock.move(1.0)
        await host.prune(clock.now())
        at = clock.now() - clock.now() % 60.0
        assert not (await fire(host, armed, plan_occasion(at))).is_new
        assert not await runs_of(host)


async def check_what_is_armed_does_not_change_with_its_file(open_host: HostOpener, home: Path) -> None:
    clock = HandClock(MARCH)
    async with open_host(home, clock=clock) as host:
        await arm(host, define_job(make_scheduled(every_s=60.0)), clock.now(), "")
        clock.move(60.0)
        await TriggerDriver(host, clock.now).run_due()
        other = one(name="job", title="another")
        await arm(host, define_job(make_scheduled(every_s=60.0), machine=other), clock.now(), "")
        clock.move(60.0)
        await TriggerDriver(host, clock.now).run_due()
        assert [run.machine for run in await runs_of(host)] == [JOB.digest, other.digest]


async def check_a_paused_trigger_starts_nothing_and_does_not_make_up_for_it(open_host: HostOpener, home: Path) -> None:
    clock = HandClock(MARCH)
    async with open_host(home, clock=clock) as host:
        (armed,) = await arm(host, define_job(make_scheduled(every_s=60.0, catch_up="all")), clock.now(), "")
        await pause(host, armed, "")
        clock.move(600.0)
        await TriggerDriver(host, clock.now).run_due()
        (armed,) = list_triggers(host.reader)
        assert armed.state == PAUSED
        await resume(host, armed, clock.now(), "")
        await TriggerDriver(host, clock.now).run_due()
        assert not await runs_of(host)
        await remove(host, list_triggers(host.reader)[0], "")
        clock.move(600.0)
        await TriggerDriver(host, clock.now).run_due()
        assert not await runs_of(host)
        (armed,) = await arm(host, define_job(make_scheduled(every_s=60.0, catch_up="all")), clock.now(), "")
        assert armed.state == ARMED
        clock.move(60.0)
        assert len(await TriggerDriver(host, clock.now).run_due()) == 1


async def check_a_message_that_comes_twice_starts_one_run(open_host: HostOpener, home: Path) -> None:
    hooked = Trigger(
        "pushed",
        "webhook",
        hook="git",
        when="{{ event.body.ref == 'main' }}",
        schema={"type": "object", "required": ["ref"]},
        input={"day": "{{ event.body.ref }}"},
    )
    async with open_host(home) as host:
        await arm(host, define_job(hooked), 0.0, "")
        for body in ({"ref": "main"}, {"ref": "main"}, {"ref": "side"}, {}):
            occasion = Occasion(mark_of_event("git", str(body)), 1.0, {"body": body})
            ((_, said),) = await deliver(host, "webhook", "git", occasion)
            assert bool(said.run_id) == (body == {"ref": "main"})
        assert len(await runs_of(host)) == 1
        assert not await deliver(host, "webhook", "other", Occasion("m", 1.0, {"body": {}}))


async def check_a_run_that_ended_starts_another_once(open_host: HostOpener, home: Path) -> None:
    clock = HandClock()
    after = Trigger("after", "run_ended", workflow="door", statuses=("completed",), input={"day": "{{ event.run_id }}"})
    async with open_host(home, clock=clock) as host:
        await host.start(DOOR, run_id="early")
        await host.signal("early", "BURN")
        clock.move(10.0)
        await arm(host, define_job(after), clock.now(), "")
        for name in ("first", "second"):
            clock.move(1.0)
            await host.start(DOOR, run_id=name)
            await host.signal(name, "BURN")
            await host.start(DOOR, run_id=f"{name}-other")
            await host.cancel(f"{name}-other")
            for _ in range(2):
                await TriggerDriver(host, clock.now).run_due()
        assert [run.context["day"] for run in await runs_of(host)] == ["first", "second"]


async def check_who_may_arm_a_trigger(open_host: HostOpener, home: Path) -> None:
    clock = HandClock(MARCH)
    async with open_host(home, clock=clock) as host:
        await settle_in(host)
        await refusal(NotPermitted, arm(host, define_job(make_scheduled(every_s=60.0)), clock.now(), VAL))
        await arm(host, define_job(make_scheduled(every_s=60.0)), clock.now(), OPAL)
        clock.move(60.0)
        await TriggerDriver(host, clock.now).run_due()
        (run,) = await runs_of(host)
        assert (run.by, run.spoken_by) == ("trigger:job.night", OPAL.name)  # whoever armed it has begun it


async def fire_through_kills(open_host: HostOpener, home: Path, count: int, kills: int, seed: int = 0) -> list[str]:
    """Drive `count` planned times over both clock changes of a year, in as many lives; the times that were started."""
    draw = random.Random(seed)
    clock = HandClock(MARCH)
    every = max(1, 230 * 24 * 60 // count)
    trigger = make_scheduled(cron=f"*/{every} * * * *" if every < 60 else "17 * * * *", timezone=BERLIN, catch_up="all")
    assert trigger.schedule is not None
    times = trigger.schedule.next(clock.now(), count)
    deaths = sorted(draw.sample(range(1, count), kills))
    async with open_host(home, clock=clock) as host:
        await arm(host, define_job(trigger), clock.now(), "")
    begin = 0
    for end in [*deaths, count]:
        async with open_host(home, clock=clock) as host:
            drivers = [TriggerDriver(host, clock.now), TriggerDriver(host, clock.now)]
            for at in times[begin:end]:
                clock.move(max(0.0, at - clock.now()))
                if draw.random() < 0.7:
                    await draw.choice(drivers).run_due()
            (armed,) = list_triggers(host.reader)
            if draw.random() < 0.5:  # dies between the start and the note, or before
                due = [at for at in times[begin:end] if at > armed.upto][:1]
                for at in due:
                    given = {"day": "died"}
                    await host.start(armed.workflow, given, run_id=armed.run_id_of(plan_occasion(at).mark))
        begin = end
    async with open_host(home, clock=clock) as host:
        await TriggerDriver(host, clock.now).run_due()
        (armed,) = list_triggers(host.reader)
        wanted = [armed.run_id_of(plan_occasion(at).mark) for at in times]
        started = [run.id for run in await runs_of(host)]
        assert sorted(started) == sorted(wanted), "each planned time started one run, and nothing else did"
        return started


async def check_every_planned_time_starts_one_run_through_kills(open_host: HostOpener, home: Path) -> None:
    await fire_through_kills(open_host, home, 120, 10)
