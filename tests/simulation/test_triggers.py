"""A schedule is driven over a clock change by processes that die at any write: each planned time starts one run.

`DETENT_EXAMPLES=20` makes it 10,000 planned times and 200 deaths.
"""

import random
from functools import partial

from detent.kit.trigger.armed_trigger import arm, list_triggers
from detent.kit.trigger.firing import plan_occasion
from detent.kit.trigger.trigger_driver import TriggerDriver
from detent.testing import World, simulate
from detent.testing.conformance.triggers import BERLIN, MARCH, define_job, make_scheduled, runs_of
from tests.effort import TIMES

COUNT, DEATHS = (10_000, 200) if TIMES >= 20 else (300, 25)


def test_each_planned_time_starts_one_run_whenever_the_driver_dies() -> None:
    simulate(_drive_through_deaths(COUNT, DEATHS))


async def _drive_through_deaths(count: int, deaths: int) -> None:
    draw, died, done, now = random.Random(7), 0, 0, MARCH
    trigger = make_scheduled(cron="*/15 * * * *", timezone=BERLIN, catch_up="all")
    assert trigger.schedule is not None
    times = trigger.schedule.next(MARCH, count)
    with World(seed=7) as world:
        async with world.host() as host:
            await arm(host, define_job(trigger), now, "")
        while done < count:
            if died < deaths:  # a firing has four moments to die at, so all of these come before the last
                world.die_at = frozenset({world.points + draw.randint(1, 3 * count // deaths)})
            async with world.host() as host:
                while not world.is_dead and done < count:
                    done = min(count, done + draw.randint(1, 5))  # several may have come due meanwhile
                    now = times[done - 1]
                    for _ in range(draw.randint(1, 2)):
                        await world.unless_dead(TriggerDriver(host, partial(float, now)).run_due())
                died += world.is_dead
        async with world.host() as host:
            await TriggerDriver(host, lambda: now).run_due()
            (armed,) = list_triggers(host.reader)
            started = [run.id for run in await runs_of(host)]
        assert sorted(started) == sorted(armed.run_id_of(plan_occasion(at).mark) for at in times)
        assert died == deaths
