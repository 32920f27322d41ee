"""The assistant's figures: what a tool call costs beside the disk, and what a turn adds to the model's own time."""

import asyncio
import time
from collections.abc import Iterator

from bench.engine import folder, raw_commits
from bench.figure import Figure
from detent import Action, Contract, Machine, Outcome, Status, Transition, effect
from detent.agents.assistant import effects
from detent.agents.assistant.conversation import begin, history, settings_of, tools_of
from detent.host.embedded import EmbeddedHost

CALLS, TURNS = 300, 40


@effect("tool.call", settle_s=0.0)
async def tool(contract: Contract) -> Outcome:
    """Do nothing that cannot be taken back."""
    return Outcome({"done": contract.input["n"]})


async def answer(contract: Contract) -> Outcome:
    """A model that needs no time at all."""
    return Outcome({"text": "fine", "tool_calls": []})


def chain(length: int) -> Machine:
    """Irreversible calls one after the other, each with its own key, none asked about."""
    rows = tuple(Transition(f"s{i}", f"s{i + 1}") for i in range(length))
    work = {f"s{i}": (Action("call", "tool.call", {"n": f"{{{{ run.id }}}}-{i}"}),) for i in range(length)}
    return Machine(name="calls", initial="s0", transitions=rows, work=work, ends={f"s{length}": Status.COMPLETED})


def figures() -> Iterator[Figure]:
    """(a) contract, claim and journal of a call beside one raw commit; (b) a turn, begun as surfaces do."""
    machine = chain(CALLS)

    async def calls() -> float:
        with folder() as home:
            async with EmbeddedHost(home, [tool]) as host:
                begin = time.perf_counter()
                run = await host.start(machine)
                assert (await host.settled(run.id)).status is Status.COMPLETED
                return (time.perf_counter() - begin) / CALLS

    async def turns() -> float:
        taken = []
        with folder() as home:
            async with EmbeddedHost(home, effects(home, model=answer)) as host:
                for _ in range(TURNS):
                    begun = time.perf_counter()
                    past = history(host.reader, "s")
                    tools = tools_of(host.effects, {}, ())
                    run = await begin(host, "s", "I prefer tea", said=past.said, facts=past.facts, tools=tools,
                                      settings=settings_of(home))  # fmt: skip
                    assert (await host.settled(run.id)).status is Status.COMPLETED
                    taken.append(time.perf_counter() - begun)
        return sorted(taken)[TURNS // 4]

    pairs = [(raw_commits(CALLS)[0] / CALLS, asyncio.run(calls())) for _ in range(7)]
    raw, ours = min(one for one, _ in pairs), min(two for _, two in pairs)
    ratio = round(ours / raw, 2)
    yield Figure(
        "assistant", "tool call", round(ours * 1e6, 1), "µs", round(raw * 1e6, 1), ratio, "≤ 1.3×", ratio <= 1.3
    )
    turn_ms = round(asyncio.run(turns()) * 1e3, 2)
    yield Figure("assistant", "turn without tools", turn_ms, "ms", 5.0, round(turn_ms / 5, 2), "< 5 ms", turn_ms < 5)


GROUPS = {"assistant": figures}
