"""What must hold for every machine and every sequence of events, tried on random ones.

Machines are built from a few ingredients put together at random; a script of small numbers picks the next event from
what could happen and from what could not, so that a failing example shrinks to a short story.
"""

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from detent import (
    Action,
    Ask,
    Await,
    Branch,
    Command,
    Consequence,
    Contract,
    ContractMoved,
    Event,
    Failure,
    Limits,
    Machine,
    Perform,
    Question,
    Retry,
    Run,
    Signalled,
    Started,
    Status,
    Transition,
    Wait,
    advance,
)
from detent.core import shortcut as straight
from detent.core.contract import MOVES
from detent.core.events import RULES
from detent.core.fork_migrate import FORK_RULES
from detent.core.retry import obstacle
from detent.core.run import BranchState
from detent.errors import Refused
from tests.core.story import EFFECTS
from tests.effort import examples

SIGNALS = ("GO", "PAID", "BACK", "RESET", "NEVER")
STATES = ("a", "b", "c")
TRIGGERS = ("succeed", "fail", "suspend", "resume", "cancel", "reject", "timeout", "start", "explode")
CONDITIONS = ("context.n > 1", "attempt < 2", "result.p.success", "error.type == 'timeout'", "context.n + 'x'", "true")
ERRORS = ("*", "tool_failure", "timeout", "approval_rejected", "branch_failed", "no_transition", "expression_error",
          "loop_limit", "budget_exceeded")  # fmt: skip
INPUTS: tuple[dict[str, Any], ...] = (
    {},
    {"n": "{{ context.n }}"},
    {"item": "{{ item }}"},
    {"bad": "{{ context.n / 0 }}"},
)
LISTS = ("{{ context.items }}", "{{ context.none }}", "{{ [1] }}")
LIMITS = (Limits(), Limits(), Limits(20, 5, 500.0, 0.5, 100), Limits(max_visits=2), Limits(max_tokens=50))
FAILURES = ("tool_failure", "timeout.action", "validation_error", "tool_failure.exit", "already_done")

patient = settings(max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
LAWS: list[Callable[..., None]] = []


def law(holds: Callable[..., None]) -> Callable[..., None]:
    """A law that is tried on every story: to make one costs more than to try all laws on it."""
    LAWS.append(holds)
    return holds


# machines


def questions() -> st.SearchStrategy[Question]:
    form = {"type": "object", "required": ["n"]}
    return st.sampled_from(
        [
            Question("Shall we?"),
            Question("For {{ context.n }}?", expires_s=30.0),
            Question(approvers=("ann", "bob", "cyd"), quorum=2),
            Question(separate=True),
            Question(reason="form", schema=form),
        ]
    )


def retries() -> st.SearchStrategy[Retry | None]:
    some = [Retry(2), Retry(1, on=("timeout",)), Retry(3, delay_s=0.0), Retry(9, factor=1e300)]
    return st.sampled_from([None, None, *some])


def waits() -> st.SearchStrategy[Wait]:
    return st.sampled_from(
        [
            Wait(events=(Await("PAID"),)),
            Wait(events=(Await("PAID", "event.data.n == context.n"), Await("GO")), timeout_s=20),
            Wait(duration_s=10),
            Wait(duration_s="{{ context.n }}"),
            Wait(timeout_s="{{ context.n * 3 }}"),
            Wait(duration_s="{{ context.effect }}"),
        ]
    )


@st.composite
def calls(draw: st.DrawFn, action_id: str) -> Action:
    return Action(
        action_id,
        draw(st.sampled_from(["look", "sync", "pay", "pay", "unknown", "{{ context.effect }}"])),
        input=draw(st.sampled_from(INPUTS)),
        when=draw(st.sampled_from(["", "", "", *CONDITIONS])),
        ask=draw(st.none() | questions()),
        retry=draw(retries()),
        key=draw(st.sampled_from(["", "", "{{ context.n }}", "{{ context.missing }}"])),
        repeat=draw(st.sampled_from(["", "", "", "again"])),
    )


@st.composite
def actions(draw: st.DrawFn, action_id: str, depth: int) -> Action:
    kind = draw(
        st.sampled_from(["call", "call", "call", "ask", "wait", "wait", "set", "log", "choose", "branches", "each"])
    )
    if kind == "ask":
        return Action(action_id, "ask", ask=draw(questions()))
    if kind == "wait":
        return Action(action_id, "wait", wait=draw(waits()), retry=draw(retries()))
    if kind == "set":
        name, value = draw(st.sampled_from([("n", "{{ context.n + 1 }}"), ("state.x", 1), ("all", "{{ context }}")]))
        return Action(action_id, "set", input={"name": name, "value": value})
    if kind == "log":
        return Action(action_id, "log", input={"message": "n is {{ context.n }}"})
    if kind == "choose":
        return Action(action_id, "choose", input={"condition": draw(st.sampled_from(CONDITIONS))})
    if kind == "call" or depth >= 2:
        return draw(calls(action_id))
    count = 1 if kind == "each" else draw(st.integers(1, 3))
    return Action(
        action_id,
        "branches",
        branches=tuple(Branch(f"b{i}", draw(lines(depth + 1))) for i in range(count)),
        each=draw(st.sampled_from(LISTS)) if kind == "each" else "",
        join=draw(st.sampled_from(["all", "all", "any", 1, 2])) if count != 1 or kind == "each" else "all",
        fail_fast=draw(st.booleans()),
        at_once=draw(st.integers(0, 2)),
        tolerate=draw(st.integers(0, 1)),
    )


@st.composite
def lines(draw: st.DrawFn, depth: int = 0) -> tuple[Action, ...]:
    count = draw(st.integers(0 if depth else 1, 2))
    return tuple(draw(actions("pqr"[i], depth)) for i in range(count))


@st.composite
def rows(draw: st.DrawFn, source: str) -> Transition:
    target = draw(st.sampled_from([*STATES, *STATES, *STATES, "done", "dead"]))
    when = draw(st.sampled_from(["", "", "", *CONDITIONS]))
    kind = draw(st.sampled_from(["done", "done", "signal", "error", "even_failed", "only_failed", "plain"]))
    if kind == "plain":  # without a condition, and only onward: no circles
        onward = STATES[STATES.index(source) + 1 :] if source in STATES else ()
        return Transition(source, draw(st.sampled_from([*onward, "done", "dead"])))
    if kind == "signal":
        return Transition(source, target, on=draw(st.sampled_from(SIGNALS[:3])), when=when)
    # Circles are wanted, but not ten thousand turns of them in one event.
    when = f"({when or 'true'}) and context.turns < 9"
    then = (Action("t", "set", input={"name": "turns", "value": "{{ context.turns + 1 }}"}),)
    if kind == "error":
        is_kill = draw(st.integers(0, 5)) == 0
        return Transition(source, target, error=draw(st.sampled_from(ERRORS)), when=when, then=then, is_kill=is_kill)
    if kind == "only_failed":
        return Transition(source, target, when=when, then=then, even_failed=True, only_failed=True)
    is_failed = kind == "even_failed"
    return Transition(source, target, when=when, then=then, even_failed=is_failed, is_retry=is_failed)


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    transitions = [Transition("done", "a", on="RESET")]
    for state in (*STATES, "*"):
        transitions += draw(st.lists(rows(state), min_size=1, max_size=3))
    limits = draw(st.sampled_from(LIMITS))
    return Machine(
        "m",
        "a",
        tuple(transitions),
        work={state: draw(lines()) for state in STATES if state == "a" or draw(st.integers(0, 3))},
        ends={"done": Status.COMPLETED, "dead": Status.FAILED},
        variables={"v": 1},
        local=draw(st.sampled_from([{}, {"a": {"x": 0}}])),
        timeouts_s=draw(st.sampled_from([{}, {}, {"a": 40.0}, {"b": 5.0}])),
        keeps=draw(st.sampled_from([(), ("PAID", "GO"), ("PAID", "GO", "BACK")])),
        limits=limits,
        output=draw(st.sampled_from([None, {"n": "{{ context.n }}"}, "{{ context.n / 0 }}"])),
    )


scripts = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 8), st.integers(0, 40)), min_size=5, max_size=30)
worlds = st.tuples(machines(), scripts, st.integers(1, RULES))


# events


class Step(NamedTuple):
    """One event told to a run, and what came of it."""

    before: Run
    event: Event
    run: Run
    commands: tuple[Command, ...]
    taken: tuple[Consequence, ...]
    refusal: Refused | None


def play(machine: Machine, script: list[tuple[int, int, int]], rules: int = RULES) -> list[Step]:
    """Tell a run one event after the other, as the script picks them."""
    run, at = Run(id="r1"), 100.0
    story: list[Step] = []
    event: Event = begun(machine, rules)
    steps = iter(script)
    while True:
        try:
            after, commands, taken = advance(machine, run, event)
            story.append(Step(run, event, after, commands, taken, None))
            run = after
        except Refused as refusal:
            story.append(Step(run, event, run, (), (), refusal))
        picked = next(steps, None)
        if picked is None:
            return story
        kind, which, how = picked
        at += how % 5
        event = picked_event(run, story, at, kind, which, how)


def begun(machine: Machine, rules: int = RULES) -> Started:
    context = {"n": 1, "turns": 0, "effect": "pay", "items": [1, 2, 3], "none": []}
    return Started(machine.digest, context, EFFECTS, by="ann", rules=rules, at=100.0, id="begin")


def picked_event(run: Run, story: list[Step], at: float, kind: int, which: int, how: int) -> Event:
    """Mostly what a host would say next, and sometimes what nobody should."""
    if kind <= 12 and run.contracts:
        return contract_event(run, at, kind, which, how)
    if kind <= 16:
        name = SIGNALS[which % len(SIGNALS)]
        return Signalled(name, {"n": how % 3}, by="bob", at=at, id=str(how) if how % 2 else "")
    if kind == 17:
        return ContractMoved(f"a/p/{which}", "succeed", at=at)
    if kind == 18:
        return Signalled(("@hold", "@release", "@release", "@nonsense", "@retry")[which % 5], by="ops", at=at)
    if kind == 19:
        return Signalled("@wake", at=at + how * 10)
    return story[which % len(story)].event if how % 4 else Signalled("@cancel", at=at)


def contract_event(run: Run, at: float, kind: int, which: int, how: int) -> Event:
    contract = run.contracts[which % len(run.contracts)]
    if kind > 8:
        return ContractMoved(contract.id, TRIGGERS[how % len(TRIGGERS)], {"outcome": "happened"}, at=at)
    if contract.is_asking:
        return ContractMoved(contract.id, "resume", answer_to(contract, which, how), at=at)
    if contract.status is not Status.RUNNING and run.wake_at:
        return Signalled("@wake", at=max(at, run.wake_at))
    return result_of(contract, at, how)


def result_of(contract: Contract, at: float, how: int) -> ContractMoved:
    """How a host may report on a call."""
    if how % 8 == 0:
        failure = Failure(FAILURES[how % len(FAILURES)], "broken")
        return ContractMoved(contract.id, "fail", error=failure, usage={"tokens": 9.0}, at=at)
    if how % 8 == 1:
        doubt = Question("Did it happen?", "outcome_unknown")
        return ContractMoved(contract.id, "suspend", question=doubt, deed="possible", at=at)
    if how % 8 == 2:
        callback = Question(reason="callback", expires_s=30.0)
        return ContractMoved(contract.id, "suspend", question=callback, deed="possible" if how % 3 else "none", at=at)
    if how % 8 == 3:
        return ContractMoved(contract.id, "succeed", {"success": False}, patch={"n": how % 4}, at=at)
    raises = "GO" if how % 8 == 4 else ""
    usage = {"tokens": 20.0, "cost_usd": 0.2}
    return ContractMoved(contract.id, "succeed", {"ok": how}, raises=raises, patch={"n": how % 4}, usage=usage, at=at)


def answer_to(contract: Contract, which: int, how: int) -> dict[str, Any]:
    who = {"by": ("ann", "bob", "cyd", "")[which % 4]}
    if contract.question is not None and contract.question.reason == "outcome_unknown":
        return {"outcome": ("happened", "not_happened", "give_up")[how % 3], **who}
    if how % 6 == 0:
        return {"approved": False, **who}
    if how % 6 == 1:
        return {"approved": True, "args": {"n": how}, **who}
    if how % 6 == 2:
        return {"approved": True, "call_hash": "another", **who}
    return {"approved": True, "data": {"n": 1}, "patch": {"n": how % 4}, **who}


def encoded(value: Any) -> bytes:
    return msgspec.json.encode(value)


def again(value: Any, kind: Any) -> Any:
    """The value after a journey through JSON."""
    return msgspec.json.decode(encoded(value), type=kind)


# laws


@law
def the_same_events_give_the_same_run_commands_and_story(machine: Machine, story: list[Step]) -> None:
    for step in story:
        if step.refusal is None:
            assert advance(machine, step.before, step.event) == (step.run, step.commands, step.taken)


@law
def nothing_that_went_in_is_changed(machine: Machine, story: list[Step]) -> None:
    before = machine.to_json()
    for step in story:
        run, event = encoded(step.before), encoded(step.event)
        with contextlib.suppress(Refused):
            advance(machine, step.before, step.event)
        assert (encoded(step.before), encoded(step.event)) == (run, event)
    assert machine.to_json() == before
    assert begun(machine) == begun(Machine.from_json(before))


@law
def a_replay_from_json_gives_the_same_bytes(machine: Machine, story: list[Step]) -> None:
    again_machine = Machine.from_json(machine.to_json())
    assert again_machine == machine
    run = Run(id="r1")
    for step in story:
        if step.refusal is not None:
            continue
        run, commands, taken = advance(again_machine, again(run, Run), again(step.event, Event))
        assert encoded(run).decode() == encoded(step.run).decode()
        assert commands == step.commands
        assert encoded(taken) == encoded(step.taken)


@law
def a_refused_event_changes_nothing_and_is_refused_again(machine: Machine, story: list[Step]) -> None:
    for step in story:  # any other exception than Refused would have come out of here
        if step.refusal is not None:
            assert step.run is step.before
            assert str(step.refusal)
        elif step.run is not step.before:
            assert step.run.seq == step.before.seq + 1


@law
def every_contract_lives_by_the_nine_moves(machine: Machine, story: list[Step]) -> None:
    status: dict[str, str] = {}
    for step in story:
        for moved in step.taken:
            if moved.kind == "contract":
                assert status.get(moved.subject, "pending") == moved.source
                assert MOVES[Status(moved.source), moved.event] == moved.target
                status[moved.subject] = moved.target
        for contract in step.run.contracts:
            assert status.get(contract.id, "pending") == contract.status
        still_open = {c.id for c in step.run.contracts}
        assert still_open == {name for name, now in status.items() if not Status(now).is_terminal} | {
            c.id for c in step.run.contracts if c.status is Status.PENDING
        }


@law
def an_ended_run_has_nothing_open_and_only_its_own_signals_wake_it(machine: Machine, story: list[Step]) -> None:
    for step in story:
        run = step.run
        if run.ended is None:
            continue
        assert (run.contracts, run.lanes, run.inbox, run.wake_at, run.is_held) == ((), (), (), 0.0, False)
        assert run.status is run.ended
        refused: list[Event] = [Signalled(name) for name in SIGNALS if name not in machine.accepts(run.state)]
        refused += [Signalled(name) for name in ("@wake", "@cancel", "@hold", "@release", "@migrate")]
        refused += [ContractMoved("a/p/1", trigger) for trigger in TRIGGERS]
        for event in refused:
            try:
                advance(machine, run, event)
            except Refused:
                continue
            raise AssertionError(f"{event} was accepted after the end")


@law
def a_contract_is_performed_once_unless_somebody_answered(machine: Machine, story: list[Step]) -> None:
    performed: set[str] = set()
    for step in story:
        if isinstance(step.event, ContractMoved) and step.event.trigger == "resume" and step.refusal is None:
            performed.discard(step.event.contract_id)
        for command in step.commands:
            if isinstance(command, Perform):
                contract = step.run.contract(command.contract_id)
                assert contract is not None
                assert (contract.status, contract.effect_state) == (Status.RUNNING, "possible")
                assert command.contract_id not in performed
                performed.add(command.contract_id)


@law
def an_irreversible_deed_in_doubt_is_neither_forgotten_nor_repeated(machine: Machine, story: list[Step]) -> None:
    doubtful: dict[str, str] = {}  # key: the contract that may have done it
    for step in story:
        moved = step.event.contract_id if isinstance(step.event, ContractMoved) and step.refusal is None else ""
        for key, contract_id in list(doubtful.items()):
            if contract_id == moved:
                del doubtful[key]  # a result, evidence of failure, or an answer
            else:
                kept = step.run.contract(contract_id)
                assert kept is not None, f"{contract_id} was forgotten"
                assert kept.effect_state == "possible"
        for command in step.commands:
            contract = step.run.contract(command.contract_id) if isinstance(command, Perform) else None
            if contract is not None and contract.is_irreversible:
                assert contract.key not in doubtful
                doubtful[contract.key] = contract.id


@law
def no_run_is_stuck(machine: Machine, story: list[Step]) -> None:
    for step in story:
        run = step.run
        if run.seq and run.ended is None:
            assert is_alive(machine, run)
            assert run.status in (Status.RUNNING, Status.WAITING)


@law
def a_timer_that_has_rung_is_not_set_any_more(machine: Machine, story: list[Step]) -> None:
    for step in story:
        if isinstance(step.event, Signalled) and step.event.name == "@wake" and step.refusal is None:
            # A call that the end of its state has set adrift keeps the time of its question, which rings next, at once.
            adrift = [contract.alarm_at for contract in step.run.contracts if contract.is_adrift]
            assert not 0 < step.run.wake_at <= step.event.at or step.run.wake_at in adrift


@law
def every_lane_that_is_not_over_has_something_open(machine: Machine, story: list[Step]) -> None:
    for step in story:
        lanes = {lane.path for lane in step.run.lanes if not lane.is_ended}
        leaves = {path for path in lanes if not any(other.startswith(path + "/") for other in lanes)}
        assert leaves == {c.lane for c in step.run.contracts if not c.is_adrift}


@patient
@given(st.lists(rows("a") | rows("b"), min_size=2, max_size=6), st.lists(st.sampled_from(SIGNALS), max_size=10))
def test_the_fast_road_leads_where_the_slow_one_does(table: list[Transition], names: list[str]) -> None:
    ends = {"done": Status.COMPLETED, "dead": Status.FAILED}
    always = (Transition("a", "b", on="BACK"), Transition("b", "a", on="BACK"), Transition("c", "a", on="BACK"))
    fast = Machine("m", "a", (*table, *always), ends=ends, keeps=("PAID",))
    slow = Machine.from_json(fast.to_json())
    unpave(slow)
    fast_run = slow_run = advance(fast, Run(id="r1"), Started(fast.digest, {"n": 1, "turns": 0}))[0]
    for number, name in enumerate(names):
        event = Signalled(name, at=float(number), id=str(number))
        try:
            expected = advance(slow, slow_run, event)
        except Refused:
            continue
        assert advance(fast, fast_run, event) == expected
        fast_run = slow_run = expected[0]


def unpave(machine: Machine) -> None:
    """Leave only the general road."""
    for place in machine.chart.places.values():
        place.signal_shortcuts.clear()
        place.work_shortcut = None


BOUNDS = [
    Limits(),
    Limits(max_transitions=1000),
    Limits(max_transitions=3),
    Limits(max_visits=2),
    Limits(max_duration_s=90.0),
    Limits(max_tokens=50),
]


@st.composite
def circles(draw: st.DrawFn) -> Machine:
    """Machines whose states nearly always have one action and a row that leads on whatever happens."""
    first = [
        Transition("a", "b"),
        Transition("b", "c", when=draw(st.sampled_from(["", "", "true"]))),
        Transition("c", "a"),
    ]
    more = [draw(rows(state)) for state in draw(st.lists(st.sampled_from([*STATES, "*"]), max_size=3))]
    plain = st.builds(Action, st.just("p"), st.sampled_from(["look", "pay"]), st.sampled_from(INPUTS))
    single = st.one_of(plain, plain, plain, calls("p"), actions("p", 0))
    work: dict[str, tuple[Action, ...]] = {state: (draw(single),) for state in STATES[1:]}
    work["a"] = (
        Action("p", draw(st.sampled_from(["look", "pay"])), {"n": "{{ context.n }}"}),
    )  # never round in one event
    if draw(st.integers(0, 4)) == 0:
        work["b"] += (draw(calls("q")),)
    return Machine(
        "m",
        "a",
        (*first, *more),
        work=work,
        ends={"done": Status.COMPLETED, "dead": Status.FAILED},
        local=draw(st.sampled_from([{}, {}, {"b": {"x": 0}}])),
        timeouts_s=draw(st.sampled_from([{}, {}, {"a": 40.0}])),
        keeps=draw(st.sampled_from([(), ("PAID", "GO")])),
        limits=draw(st.sampled_from(BOUNDS)),
        asks=draw(st.sampled_from([(), (), ("irreversible",)])),
    )


@settings(patient, max_examples=examples(400))
@given(circles(), scripts)
def test_the_straight_road_leads_where_the_general_one_does(
    machine: Machine, script: list[tuple[int, int, int]]
) -> None:
    general = Machine.from_json(machine.to_json())
    unpave(general)
    run, at = advance(machine, Run(id="r1"), begun(machine))[0], 100.0
    for kind, which, how in script:
        at += how % 5
        event = picked_event(run, [Step(run, begun(machine), run, (), (), None)], at, kind, which, how)
        at_work = [contract for contract in run.contracts if contract.status is Status.RUNNING]
        if at_work and kind:  # mostly: it went well
            result = ({"ok": how}, None, how, {"n": 1}, {"success": False})[how % 5 if which else 0]
            event = ContractMoved(at_work[0].id, "succeed", result, actor="tool" if how % 2 else "", at=at)
        try:
            expected = advance(general, run, event)
        except Refused as refusal:
            with pytest.raises(type(refusal)):
                advance(machine, run, event)
            continue
        assert encoded(advance(machine, run, event)) == encoded(expected)
        run = expected[0]


def test_a_plain_step_takes_the_straight_road() -> None:
    rows = (Transition("a", "b"), Transition("b", "done"))
    work: dict[str, tuple[Action, ...]] = {
        "a": (Action("p", "look"),),
        "b": (Action("p", "pay", {"n": "{{ run.id }}"}),),
    }
    machine = Machine("m", "a", rows, work=work, ends={"done": Status.COMPLETED})
    run = advance(machine, Run(id="r1"), begun(machine))[0]
    assert straight.take_shortcut(machine, run, ContractMoved("a/p/1", "succeed", at=101.0)) is not None
    assert straight.take_shortcut(machine, run, ContractMoved("a/p/1", "fail", at=101.0)) is None


@law
def a_failure_is_taken_only_by_a_row_that_is_meant_for_it(machine: Machine, story: list[Step]) -> None:
    for step in story:
        event, state = step.event, step.before.state
        if step.run.rules < 2 or not isinstance(event, ContractMoved) or step.refusal is not None:
            continue
        said_no = event.trigger == "succeed" and isinstance(event.result, dict) and event.result.get("success") is False
        ways = [t for t in step.taken if t.kind == "transition"]
        is_own = any(c.id == event.contract_id and not c.is_adrift for c in step.before.contracts)
        if not (said_no and is_own and not event.raises and ways) or ways[0].event:
            continue
        rows = [r for r in machine.transitions if r.source in (state, "*") and not r.on and r.target == ways[0].target]
        assert any(row.when or row.even_failed or row.error for row in rows)


@law
def nothing_that_costs_begins_once_a_limit_is_reached(machine: Machine, story: list[Step]) -> None:
    limits = machine.limits
    for step in story:
        usage = step.run.usage
        is_reached = (limits.max_cost_usd and usage.get("cost_usd", 0) >= limits.max_cost_usd) or (
            limits.max_tokens and usage.get("tokens", 0) >= limits.max_tokens
        )
        for command in step.commands if is_reached and step.run.rules >= 2 else ():
            begun = step.run.contract(command.contract_id) if isinstance(command, Perform) else None
            assert begun is None or begun.effect not in step.run.priced


@law
def a_run_that_is_tried_again_goes_on_where_it_failed_and_repeats_nothing(machine: Machine, story: list[Step]) -> None:
    for step in story:
        run = step.run
        if not run.seq:
            continue
        try:
            again, commands, _ = advance(machine, run, Signalled("@retry", at=run.at + 1))
        except Refused as refusal:
            if obstacle(run) or "does not go together" in str(refusal):
                continue
            raise
        assert run.wreck is not None
        assert (run.ended, run.rules >= 2) in ((Status.FAILED, True), (Status.REJECTED, True))
        assert is_alive(machine, again)
        was = {one.path for one in unfolded(run.wreck.lane) if one.is_ended and not one.is_failed}
        if again.state == run.wreck.state and again.ended is None:
            # By newer rules a branch that has ended is kept by the one above it.
            kept = [*again.lanes, *(one for lane in again.lanes for piece in lane.ended for one in piece)]
            assert was <= {lane.path for lane in kept if lane.is_ended} or not again.lanes
        begun = [again.contract(c.contract_id) for c in commands if isinstance(c, Perform | Ask)]
        assert not any(one is not None and one.lane in was for one in begun if again.state == run.wreck.state)


def unfolded(lane: BranchState) -> list[BranchState]:
    return [lane, *(inner for child in lane.left for inner in unfolded(child))]


@law
def a_failed_run_says_why(machine: Machine, story: list[Step]) -> None:
    for step in story:
        if step.run.ended is Status.FAILED and step.run.rules >= 2:
            assert step.run.error is not None
            assert step.run.error.message or step.run.error.type != "error_state"


@law
def a_run_forked_anywhere_goes_on_by_the_same_laws(machine: Machine, story: list[Step]) -> None:
    rules = story[0].run.rules
    for step in story[:: 1 + len(story) // 4]:
        fork = {"run": msgspec.to_builtins(step.run), "run_id": "r1", "rules": FORK_RULES}
        forked = msgspec.structs.replace(begun(machine, rules), fork=fork, at=900.0)
        run, commands, _ = advance(machine, Run(id="r2"), forked)
        assert is_alive(machine, run)
        assert (run.state, run.ended) == (step.run.state, step.run.ended or step.run.ending)
        assert not any(c.is_adrift or c.answers for c in run.contracts)
        asked_or_performed = {c.contract_id for c in commands if isinstance(c, Ask | Perform)}
        assert asked_or_performed == {c.id for c in run.contracts if c.is_asking or c.status is Status.RUNNING}


@law
def a_run_can_be_migrated_to_the_same_machine_of_another_name_whenever_nothing_is_at_work(
    machine: Machine, story: list[Step]
) -> None:
    other = msgspec.structs.replace(machine, title="another")
    assert other.digest != machine.digest
    for step in story:
        run = step.run
        is_over = run.ended is not None or run.ending is not None
        is_trying = any(lane.left for lane in run.lanes)  # branches that are to be tried again and have no place yet
        is_idle = not (is_over or is_trying) and all(c.status is not Status.RUNNING for c in run.contracts)
        try:
            migrated, _, _ = advance(other, run, Signalled("@migrate", {"machine": other.digest}, at=run.at))
        except Refused:
            assert not is_idle
            continue
        assert is_idle
        assert migrated.machine == other.digest
        assert (migrated.contracts, migrated.lanes, migrated.state) == (run.contracts, run.lanes, run.state)


def is_alive(machine: Machine, run: Run) -> bool:
    """Whether something can still move a run, or it has ended."""
    signals = machine.chart.places[run.state].signals if run.state else {}
    return bool(run.ended or run.contracts or run.wake_at or run.is_held or signals)


@settings(patient, max_examples=examples(300))
@given(worlds)
def test_every_law_holds_in_every_story(world: tuple[Machine, Any, int]) -> None:
    machine, script, rules = world
    before = machine.to_json()
    story = play(machine, script, rules)
    assert machine.to_json() == before
    for holds in LAWS:
        holds(machine, story)
