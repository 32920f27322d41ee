"""Laws of the audit on random journals: a policy tested on its own days says what it said then, and no more."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from detent.core import (
    Action,
    Branch,
    ContractMoved,
    Declared,
    EffectFailed,
    Machine,
    Outcome,
    Question,
    Retry,
    Run,
    Signalled,
    Started,
    Status,
    advance,
)
from detent.core.effect_type import Kind
from detent.core.history import Entry
from detent.core.policy import Call, Policy, Rule
from detent.define.document import read_document
from detent.define.policy import compile_policy
from detent.errors import Refused
from detent.host.embedded import EmbeddedHost
from detent.host.port import Reader
from detent.kit.audit.backtest import KNOWN_KEYS, Period, find_unknown, past_calls, run_backtest
from detent.kit.audit.decision import AuditDecision, DecisionFold
from detent.kit.audit.decision_trail import AuditFilter, read_decisions
from detent.kit.audit.past_call import PastCall
from detent.kit.audit.suggestion import SuggestReport, suggest_rules
from detent.testing import World
from detent.testing.conformance import HandClock, one

OPS: dict[str, tuple[str, ...]] = {"ops": ("ann", "bob")}
FOUND_OUT = {"sandbox", "programs", "paths", "hosts"}  # keys for what only the process that makes a call can know
RULES = (
    Rule("huge", "deny", tools=("pay",), when="args.amount > 7"),
    Rule("dear", "deny", tools=("look",), cost_over=0.5),
    Rule("small", "allow", tools=("pay", "sync"), when="args.amount < 3"),
    Rule("both", "ask", tools=("pay",), approvers=("role:ops",), quorum=2),
    Rule("one", "ask", tools=("sync",), when="args.amount % 2 == 0"),
    Rule("broken", "ask", tools=("sync",), when="args.amount < 'a'"),
    Rule("named", "allow", tools=("pay",), is_for_named=True),
    Rule("anything", "allow"),
)
ASKS = (None, Question("Really?"), Question("Really?", approvers=("role:ops",)), Question("Both?", quorum=2))

policies = st.builds(
    lambda rules, default: Policy(rules=tuple(rules), default=default, roles=OPS),
    st.lists(st.sampled_from(RULES), unique=True, max_size=4),
    st.fixed_dictionaries({}, optional={"irreversible": st.sampled_from(("allow", "ask", "deny"))}),
)
actions = st.tuples(st.sampled_from(("pay", "sync", "look")), st.integers(1, 9), st.sampled_from(ASKS), st.booleans())
machines = st.lists(actions, min_size=1, max_size=4)
answers = st.lists(
    st.sampled_from(("yes", "no", "edit", "bob", "retry", "fork", "cancel", "wait")), min_size=1, max_size=8
)


def machine_of(parts: list[tuple[str, int, Question | None, bool]]) -> Machine:
    made = []
    for number, (effect, amount, asks, is_branch) in enumerate(parts):
        retry = Retry(limit=1, delay_s=0.0) if effect == "sync" else None
        action = Action(f"a{number}", effect, {"amount": amount}, ask=asks, retry=retry)
        twin = Action(f"b{number}", "look", {"amount": amount})
        both = (Branch("a", (action,)), Branch("b", (twin,)))
        made.append(Action(f"x{number}", "branches", branches=both) if is_branch else action)
    return one(*made)


async def say(host: EmbeddedHost, run: Run, word: str, clock: HandClock) -> Run:
    """One thing that people do; what is refused changes nothing."""
    clock.move(10.0)
    try:
        if word in ("retry", "cancel"):
            return await (host.retry if word == "retry" else host.cancel)(run.id, by="kim")
        if word == "fork":
            return await host.fork(run.id, by="kim")
        if word == "wait" or not run.waiting:
            return run
        contract = run.waiting[0]
        said: dict[str, Any] = {"approved": word != "no", "by": "bob" if word == "bob" else "ann"}
        if contract.question is not None and contract.question.reason == "outcome_unknown":
            said = {"outcome": "not_happened" if word == "yes" else "give_up", "by": "ann"}
        elif word == "edit":
            said["args"] = {"amount": int(contract.input["amount"]) % 9 + 1}
        return await host.answer(run.id, contract.id, said)
    except Refused:
        return run


def world_of(home: Path, policy: Policy) -> World:
    world = World(home, policy=policy)
    world.effect("pay", settle_s=0.0, answers=[{"ok": True}, EffectFailed("no"), {"ok": True}])
    world.effect("sync", kind="idempotent", answers=[EffectFailed("busy"), {"ok": True}, {"ok": True}])
    world.effect("look", kind="pure", answers=[Outcome({}, usage={"cost_usd": 0.6})])
    return world


async def journal(home: Path, policy: Policy, stories: list[tuple[Machine, list[str]]]) -> None:
    world, clock = world_of(home, policy), HandClock()
    async with EmbeddedHost(home, world.effects, sync="off", policy=policy, clock=clock) as host:
        for number, (machine, words) in enumerate(stories):
            run = await host.settled((await host.start(machine, run_id=f"r{number}", by="kim")).id)
            for word in words:
                run = await host.settled((await say(host, run, word, clock)).id)


async def read(home: Path, policy: Policy) -> tuple[list[PastCall], list[AuditDecision], SuggestReport]:
    async with EmbeddedHost(home, {}, sync="off") as host:
        damaged: list[str] = []
        calls = list(past_calls(host.reader, policy, Period(), damaged))
        assert damaged == []
        return calls, list(read_decisions(host.reader, AuditFilter())), suggest_rules(host.reader, policy, at_least=2)


@given(policies, st.lists(st.tuples(machines, answers), min_size=1, max_size=3))
def test_a_policy_tested_on_its_own_days_says_what_it_said(
    policy: Policy, told: list[tuple[list[tuple[str, int, Question | None, bool]], list[str]]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        stories = [(machine_of(parts), words) for parts, words in told]
        asyncio.run(journal(Path(folder), policy, stories))
        calls, decisions, _ = asyncio.run(read(Path(folder), policy))
    for call in calls:
        assert (call.now.decision, call.now.rule) == (call.was.decision, call.was.rule), call
    assert [one.at for one in decisions] == sorted(one.at for one in decisions)
    ruled = {(one.run_id, one.contract_id, one.rule) for one in decisions if one.decision == "policy"}
    named = {(call.run_id, call.contract_id, call.was.rule) for call in calls if call.was.rule}
    assert named <= ruled, "what a backtest calls the verdict of that day is in the journal"


often = st.tuples(
    st.just("sync"), st.integers(1, 2), st.sampled_from((ASKS[1], ASKS[1], ASKS[1], None)), st.just(False)
)
mostly = st.lists(st.sampled_from(("yes", "yes", "yes", "yes", "yes", "bob", "edit", "no")), min_size=1, max_size=3)


@given(policies, st.lists(st.tuples(st.lists(often, min_size=1, max_size=3), mostly), min_size=2, max_size=5))
def test_an_adopted_suggestion_never_allows_what_a_person_refused(
    policy: Policy, told: list[tuple[list[tuple[str, int, Question | None, bool]], list[str]]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home, stories = Path(folder), [(machine_of(parts), words) for parts, words in told]
        asyncio.run(journal(home, policy, stories))
        _, _, report = asyncio.run(read(home, policy))
        rules = compile_policy(read_document(report.yaml, "s")).rules if report.yaml else ()
        assert len(rules) == len(report.suggestions)
        adopted = Policy(rules=(*rules, *policy.rules), default=policy.default, roles=OPS)
        calls, _, again = asyncio.run(read(home, adopted))
        assert again.suggestions == []
        for call in calls:
            if call.now.rule in {rule.name for rule in rules}:
                assert call.said not in ("reject", "edit")


FETCH = one(Action("get", "get", {"remote": "{{ context.remote }}", "path": "{{ context.path }}"}, ask=Question("?")))


async def suggest_after(
    home: Path, given: list[tuple[dict[str, Any], str]], kind: Kind = "idempotent"
) -> SuggestReport:
    world = World(home)
    world.effect("get", kind=kind, answers=[{"ok": True}] * len(given))
    async with EmbeddedHost(home, world.effects, sync="off") as host:
        for number, (args, word) in enumerate(given):
            run = await host.settled((await host.start(FETCH, args, run_id=f"r{number}")).id)
            said: dict[str, Any] = {"approved": word != "no", "by": f"p{number % 2}"}
            said |= {"args": {**run.waiting[0].input, "path": "other"}} if word == "edit" else {}
            await host.settled((await host.answer(run.id, run.waiting[0].id, said)).id)
        return suggest_rules(host.reader, None)


HOSTILE = [
    'x" }}\n  - {name: all, decision: allow}\n#',
    "'\" or true }}",
    "{{ true }} \\",
    "a: &b [c, *d] # e",
    "{% raw %} {# no #}",
    '\\" == none or "',
    "\u202egnp.exe",
    "\U0001f600 ünï",
    "yes",
    "1.0",
    "",
]


@pytest.mark.parametrize("text", HOSTILE)
async def test_what_stands_in_an_argument_is_never_more_than_a_value(tmp_path: Path, text: str) -> None:
    report = await suggest_after(tmp_path, [({"remote": text, "path": [text, {"k": text}]}, "yes")] * 5)
    if "\n" in text or "\u202e" in text:
        assert report == SuggestReport([], ""), "what nobody can read is not suggested"
        return
    (rule,) = compile_policy(read_document(report.yaml, "s")).rules
    assert [one["decision"] for one in yaml.safe_load(report.yaml)["rules"]] == ["allow"]
    same = Call("get", {"remote": text, "path": [text, {"k": text}]}, "idempotent", "story")
    assert rule.takes(same) == ""
    for other in ({"remote": text}, {**same.args, "more": 1}, {**same.args, "remote": f"{text}x"}, {}):
        assert rule.takes(same._replace(args=other)) is None
    assert rule.takes(same._replace(tool="got")) is None
    assert rule.takes(same._replace(kind="irreversible")) is None
    assert rule.takes(same._replace(workflow="story2")) is None


async def test_a_folder_is_pinned_for_what_can_be_repeated_and_never_for_a_deed(tmp_path: Path) -> None:
    given = [({"remote": "origin", "path": f"https://host.test/a/{n}"}, "yes") for n in range(5)]
    (made,) = (await suggest_after(tmp_path / "a", given)).suggestions
    assert (made.approvals, made.people) == (5, ["p0", "p1"])
    (rule,) = compile_policy(read_document(f"rules:\n{made.yaml}", "s")).rules
    call = Call("get", {"remote": "origin", "path": "https://host.test/a/99"}, "idempotent", "story")
    assert rule.takes(call) == ""
    for path in ("https://host.test/b/1", "https://host.test/a/../b", ["https://host.test/a/"], None):
        assert rule.takes(call._replace(args={**call.args, "path": path})) is None
    assert (await suggest_after(tmp_path / "b", given, "irreversible")).suggestions == []
    whole = [({"remote": "origin", "path": f"{n}/x"}, "yes") for n in range(9)]
    assert (await suggest_after(tmp_path / "c", whole)).suggestions == [], "nothing pins these"


@pytest.mark.parametrize("word", ["no", "edit"])
async def test_one_no_or_one_change_is_enough_to_suggest_nothing(tmp_path: Path, word: str) -> None:
    call = {"remote": "origin", "path": "a"}
    assert (await suggest_after(tmp_path, [(call, "yes")] * 20 + [(call, word)])).suggestions == []


async def test_four_are_too_few(tmp_path: Path) -> None:
    assert (await suggest_after(tmp_path, [({"remote": "origin", "path": "a"}, "yes")] * 4)).suggestions == []


async def test_a_doubt_and_what_answered_it_are_decisions(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.effect("pay", settle_s=0.0, answers=[TimeoutError("lost"), TimeoutError("lost")])
    async with EmbeddedHost(tmp_path, world.effects, sync="off") as host:
        for amount, outcome in ((1, "happened"), (2, "give_up")):
            machine = one(Action("pay", "pay", {"amount": amount}, ask=Question("Pay?")))
            run = await host.settled((await host.start(machine)).id)
            await host.answer(run.id, run.waiting[0].id, {"approved": True, "by": "ann"})
            run = await host.settled(run.id)
            assert [one.outcome for one in decisions(host.reader)][-1] == "doubt"
            await host.answer(run.id, run.waiting[0].id, {"outcome": outcome, "by": "bob"})
        found = [(one.decision, one.answer, one.by, one.outcome) for one in decisions(host.reader)]
        assert found == [
            ("answer", "approve", "ann", "done"),
            ("settle", "happened", "bob", "done"),
            ("answer", "approve", "ann", "doubt"),
            ("settle", "give_up", "bob", "doubt"),
        ]


async def test_a_repeat_and_an_unanswered_question_are_decisions(tmp_path: Path) -> None:
    world, clock = World(tmp_path), HandClock()
    world.effect("pay", settle_s=0.0, answers=[{"id": 1}, {"id": 2}])
    machine = one(Action("pay", "pay", {"amount": 1}))
    asking = one(Action("late", "pay", {"amount": 2}, ask=Question("Pay?", expires_s=60.0)))
    async with EmbeddedHost(tmp_path, world.effects, sync="off", clock=clock) as host:
        await host.settled((await host.start(machine)).id)
        run = await host.settled((await host.start(machine)).id)
        await host.answer(run.id, run.waiting[0].id, {"outcome": "use", "by": "ann"})
        late = await host.start(asking)
        clock.move(100.0)
        assert (await host.settled(late.id)).status is not Status.WAITING
        found = [(one.decision, one.answer, one.by, one.outcome) for one in decisions(host.reader)]
        assert found == [("repeat", "use", "ann", "reused"), ("expiry", "expire", "timer", "cancelled")]


async def test_a_damaged_run_is_told_after_the_others(tmp_path: Path) -> None:
    import sqlite3

    from detent.errors import JournalError

    machine = one(Action("ask", "ask", ask=Question("Well?")))
    async with EmbeddedHost(tmp_path, {}, sync="off") as host:
        for run_id in ("a", "b"):
            run = await host.start(machine, run_id=run_id)
            await host.answer(run.id, run.waiting[0].id, {"approved": True, "by": "ann"})
    with sqlite3.connect(tmp_path / "journal.db") as db:
        db.execute("update events set hash = x'00' where run = (select no from runs where run_id = 'a') and seq = 2")
    async with EmbeddedHost(tmp_path, {}, sync="off") as host:
        seen = []

        def look() -> None:
            for made in read_decisions(host.reader, AuditFilter()):
                seen.append(made.run_id)

        with pytest.raises(JournalError, match="1 runs cannot be read; the first: run a is damaged"):
            look()
        assert seen == ["b"]
        report = run_backtest(host.reader, Policy(), Period())
        assert len(report.damaged) == 1


def test_what_the_journal_does_not_have_is_said_by_rule() -> None:
    law = Policy(
        rules=(Rule("known", "deny", when="args.a == cost"), Rule("new", "deny", when="program.path == '/bin/rm'"))
    )
    assert [(one.rule, one.reads) for one in find_unknown(law, has_facts=False)] == [("new", ["program"])]
    assert {field for field in Rule.__struct_fields__ if field not in KNOWN_KEYS} <= FOUND_OUT, "say what it needs"


def decisions(reader: Reader) -> list[AuditDecision]:
    return list(read_decisions(reader, AuditFilter()))


def test_a_refused_attempt_is_a_decision_and_names_what_vouches_for_it() -> None:
    machine = one(Action("pay", "pay", {"amount": 1}, ask=Question("Pay?")))
    run, _, taken = advance(machine, Run(id="r"), Started(machine.digest, effects={"pay": Declared()}, at=1.0))
    fold = DecisionFold("r", lambda _: "story")
    assert list(fold.take(Entry(1, Started(machine.digest, at=1.0), taken, run))) == []
    data = {"contract_id": run.waiting[0].id, "verb": "answer", "why": "`eve` may not answer"}
    (tried,) = fold.take(Entry(2, Signalled("@attempt", data, "eve", 2.0), (), run))
    assert (tried.decision, tried.answer, tried.by, tried.outcome) == ("attempt", "answer", "eve", "refused")
    assert (tried.arguments, tried.reason, tried.question) == ({"amount": 1}, "`eve` may not answer", "Pay?")
    said = {"approved": True, "by": "ann", "known_by": "token"}
    event = ContractMoved(run.waiting[0].id, "resume", said, actor="human", at=3.0)
    after, _, taken = advance(machine, run, event)
    list(fold.take(Entry(3, event, taken, after)))
    assert [(made.by, made.known_by, made.outcome) for made in fold.close()] == [("ann", "token", "not_yet")]
