"""The policy at work in the embedded host: asked before the deed, journalled with it, never asked again by a replay."""

from pathlib import Path
from typing import Any

import pytest

from detent.core import Action, Branch, ContractMoved, Machine, Question, Retry, Run, Signalled, Status
from detent.core.effect_type import EffectFailed, Outcome
from detent.core.policy import Policy, Rule
from detent.errors import Refused
from detent.host.embedded import EmbeddedHost
from detent.host.parts.replay import entries, verify
from detent.testing import Story, World, crash_anywhere
from detent.testing.conformance import Outside, one

PAY = one(Action("pay", "pay", {"amount": "{{ context.amount }}"}), name="pay")
ASKING = one(Action("pay", "pay", {"amount": "{{ context.amount }}"}, ask=Question("Pay?")), name="asking")


def host_at(home: Path, policy: Policy | None, *effects: Any) -> EmbeddedHost:
    return EmbeddedHost(home, effects, sync="off", grace_s=0.0, policy=policy)


def ruled(host: EmbeddedHost, run: Run) -> list[tuple[str, str]]:
    """What the journal says was decided, and by which rule."""
    taken = [one for entry in entries(host.journal, run.id) for one in entry.taken if one.kind == "policy"]
    assert not verify(host.journal, run.id).problem
    return [(one.event, str(one.value)) for one in taken]


def policy(*rules: Rule, **given: Any) -> Policy:
    return Policy(rules=rules, **given)


async def test_ask_suspends_before_the_deed_and_shows_the_exact_call(tmp_path: Path) -> None:
    outside = Outside()
    law = policy(Rule("big", "ask", when="args.amount > 9", message="Pay {{ args.amount }}?", approvers=("ann",)))
    async with host_at(tmp_path, law, outside.effect("pay")) as host:
        run = await host.settled((await host.start(PAY, {"amount": 10})).id)
        (contract,) = run.waiting
        assert (contract.effect_state, contract.input, outside.deeds) == ("none", {"amount": 10}, [])
        assert contract.question is not None
        assert (contract.question.text, contract.question.approvers) == ("Pay 10?", ("ann",))
        assert contract.question.data["policy"]["rule"] == "big"
        with pytest.raises(Refused, match="may not answer"):
            await host.answer(run.id, contract.id, {"approved": True, "by": "eve"})
        await host.answer(run.id, contract.id, {"approved": True, "by": "ann", "call_hash": contract.call_hash})
        run = await host.settled(run.id)
        assert (run.status, len(outside.deeds)) == (Status.COMPLETED, 1)
        assert ruled(host, run) == [("ask", "big")]
        small = await host.settled((await host.start(PAY, {"amount": 9})).id)
        assert (small.status, ruled(host, small)) == (Status.COMPLETED, [])


async def test_deny_rejects_with_the_rule_in_the_journal(tmp_path: Path) -> None:
    outside = Outside()
    for machine in (PAY, ASKING):
        async with host_at(tmp_path, policy(Rule("never", "deny", message="no pay")), outside.effect("pay")) as host:
            run = await host.settled((await host.start(machine, {"amount": 1})).id)
            assert (run.status, outside.deeds) == (Status.REJECTED, [])
            assert run.error is not None
            assert run.error.type == "approval_rejected"
            assert "`never`" in run.error.message
            assert "no pay" in run.error.message
            assert run.error.data["policy"]["rule"] == "never"
            assert ruled(host, run) == [("deny", "never")]
            (event,) = [e.event for e in entries(host.journal, run.id) if isinstance(e.event, ContractMoved)]
            assert event.actor == "policy"


async def test_a_denied_deed_does_not_hold_its_key(tmp_path: Path) -> None:
    outside = Outside()
    async with host_at(tmp_path, policy(Rule("never", "deny")), outside.effect("pay")) as host:
        await host.settled((await host.start(PAY, {"amount": 1})).id)
    async with host_at(tmp_path, None, outside.effect("pay")) as host:
        run = await host.settled((await host.start(PAY, {"amount": 1})).id)
        assert run.status is Status.COMPLETED


async def test_allow_answers_an_open_question_and_signs_it(tmp_path: Path) -> None:
    outside = Outside()
    async with host_at(tmp_path, policy(Rule("small", "allow")), outside.effect("pay")) as host:
        run = await host.settled((await host.start(ASKING, {"amount": 1})).id)
        assert (run.status, run.answers["pay"]["by"]) == (Status.COMPLETED, "policy:small")
        assert ruled(host, run) == [("allow", "small")]
        plain = await host.settled((await host.start(PAY, {"amount": 2})).id)
        assert (plain.status, ruled(host, plain)) == (Status.COMPLETED, [("allow", "small")])


@pytest.mark.parametrize(("named_too", "status"), [(False, Status.WAITING), (True, Status.COMPLETED)])
async def test_allow_leaves_a_question_to_certain_people_unless_it_says_so(
    tmp_path: Path, named_too: bool, status: Status
) -> None:
    machine = one(Action("pay", "pay", ask=Question("Pay?", approvers=("ann", "bob"), quorum=2)))
    law = policy(Rule("all", "allow", is_for_named=named_too))
    async with host_at(tmp_path, law, Outside().effect("pay")) as host:
        run = await host.settled((await host.start(machine)).id)
        assert run.status is status


async def test_nobody_can_speak_in_the_name_of_the_policy(tmp_path: Path) -> None:
    async with host_at(tmp_path, None, Outside().effect("pay")) as host:
        run = await host.settled((await host.start(ASKING, {"amount": 1})).id)
        with pytest.raises(Refused, match="policy's own"):
            await host.answer(run.id, run.waiting[0].id, {"approved": True, "by": "policy:small"})
        with pytest.raises(Refused, match="detent's own"):
            await host.signal(run.id, "@policy", {"contract_id": run.waiting[0].id})


async def test_ask_makes_an_authors_question_stricter(tmp_path: Path) -> None:
    law = policy(Rule("two", "ask", approvers=("role:ops",), quorum=2, expires_s=60), roles={"ops": ("ann", "bob")})
    outside = Outside()
    async with host_at(tmp_path, law, outside.effect("pay")) as host:
        run = await host.settled((await host.start(ASKING, {"amount": 1})).id)
        (contract,) = run.waiting
        assert contract.question is not None
        assert contract.question.text == "Pay?"
        assert (contract.question.approvers, contract.question.quorum) == (("ann", "bob"), 2)
        assert contract.expires_at > 0
        await host.answer(run.id, contract.id, {"approved": True, "by": "ann"})
        assert not outside.deeds
        await host.answer(run.id, contract.id, {"approved": True, "by": "bob"})
        run = await host.settled(run.id)
        assert (run.status, len(outside.deeds), ruled(host, run)) == (Status.COMPLETED, 1, [("ask", "two")])


async def test_roles_in_a_question_are_looked_up_when_it_is_asked_and_journalled(tmp_path: Path) -> None:
    machine = one(Action("go", "ask", ask=Question("Go?", approvers=("role:ops", "eve"))))
    async with host_at(tmp_path, policy(roles={"ops": ("ann",)})) as host:
        run = await host.start(machine)
        assert run.waiting[0].question is not None
        assert run.waiting[0].question.approvers == ("ann", "eve")
        (event,) = [e.event for e in entries(host.journal, run.id) if isinstance(e.event, Signalled)]
        assert event.data["question"]["approvers"] == ["ann", "eve"]
        assert event.data["question"]["data"]["roles"] == ["ops"]
    async with host_at(tmp_path, policy(roles={"ops": ("bob",)})) as host:
        with pytest.raises(Refused, match="may not answer"):
            await host.answer(run.id, run.waiting[0].id, {"approved": True, "by": "bob"})
        run = await host.answer(run.id, run.waiting[0].id, {"approved": True, "by": "ann"})
        assert run.status is Status.COMPLETED


async def test_edited_arguments_are_judged_anew(tmp_path: Path) -> None:
    law = policy(
        Rule("huge", "deny", when="args.amount > 999"),
        Rule("big", "ask", when="args.amount > 99", approvers=("boss",)),
        Rule("any", "ask"),
    )
    outside = Outside()
    async with host_at(tmp_path, law, outside.effect("pay")) as host:
        run = await host.settled((await host.start(PAY, {"amount": 1})).id)
        yes = {"approved": True, "by": "ann"}
        run = await host.answer(run.id, run.waiting[0].id, {**yes, "args": {"amount": 500}})
        assert not outside.deeds
        (contract,) = run.waiting
        assert contract.question is not None
        assert contract.question.approvers == ("boss",), "another rule is for that amount, and ann's yes is not enough"
        run = await host.answer(run.id, contract.id, {**yes, "by": "boss", "args": {"amount": 5000}})
        assert (run.status, outside.deeds) == (Status.REJECTED, [])
        assert ruled(host, run) == [("ask", "any"), ("ask", "big"), ("deny", "huge")]


async def test_a_retry_needs_no_second_yes(tmp_path: Path) -> None:
    machine = one(Action("pay", "pay", kind="idempotent", retry=Retry(limit=2, delay_s=0.0)))
    answers = [EffectFailed("busy"), EffectFailed("busy"), {"ok": True}]
    world = World(tmp_path, policy=policy(Rule("any", "ask")))
    world.effect("pay", answers=answers)
    async with EmbeddedHost(tmp_path, world.effects, sync="off", policy=world.policy) as host:
        run = await host.settled((await host.start(machine)).id)
        await host.answer(run.id, run.waiting[0].id, {"approved": True, "by": "ann"})
        run = await host.settled(run.id)
        assert (run.status, len(world.calls)) == (Status.COMPLETED, 3)
        assert ruled(host, run) == [("ask", "any")]


async def test_a_rule_added_while_a_question_stands_still_denies(tmp_path: Path) -> None:
    outside = Outside()
    async with host_at(tmp_path, None, outside.effect("pay")) as host:
        run = await host.settled((await host.start(ASKING, {"amount": 1})).id)
    async with host_at(tmp_path, policy(Rule("never", "deny")), outside.effect("pay")) as host:
        run = await host.answer(run.id, run.waiting[0].id, {"approved": True, "by": "ann"})
        assert (run.status, outside.deeds) == (Status.REJECTED, [])


async def test_no_rule_answers_a_doubt_a_form_or_a_question_of_the_effect(tmp_path: Path) -> None:
    form = Question(
        "How many?", "form", {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}
    )
    world = World(tmp_path, policy=policy(Rule("all", "allow")))
    world.effect("pay", answers=[TimeoutError("lost")], settle_s=0.0)
    world.effect("asks", kind="pure", answers=[Outcome(question=Question("Really?")), {"ok": True}])
    world.effect("forms", kind="pure")
    actions = {"pay": Action("pay", "pay"), "asks": Action("asks", "asks"), "forms": Action("forms", "forms", ask=form)}
    async with EmbeddedHost(tmp_path, world.effects, sync="off", policy=world.policy) as host:
        for name, reason in (("pay", "outcome_unknown"), ("asks", "approval"), ("forms", "form")):
            run = await host.settled((await host.start(one(actions[name], name=name))).id)
            assert [c.question.reason for c in run.waiting if c.question] == [reason], name


async def test_a_machine_that_asks_by_kind_is_answered_by_an_allow_rule(tmp_path: Path) -> None:
    machine = Machine(**{**{n: getattr(PAY, n) for n in PAY.__struct_fields__}, "asks": ("irreversible",)})
    outside = Outside()
    async with host_at(
        tmp_path, policy(Rule("small", "allow", when="args.amount < 10")), outside.effect("pay")
    ) as host:
        run = await host.settled((await host.start(machine, {"amount": 10})).id)
        assert (run.status, len(run.waiting), outside.deeds) == (Status.WAITING, 1, [])
        run = await host.settled((await host.start(machine, {"amount": 9})).id)
        assert (run.status, run.answers["pay"]["by"]) == (Status.COMPLETED, "policy:small")


async def test_the_default_asks_where_the_author_does_not_and_is_content_where_he_does(tmp_path: Path) -> None:
    async with host_at(tmp_path, policy(default={"irreversible": "ask"}), Outside().effect("pay")) as host:
        for edited, machine in enumerate((PAY, ASKING), start=2):
            run = await host.settled((await host.start(machine, {"amount": 1})).id)
            (contract,) = run.waiting
            await host.answer(run.id, contract.id, {"approved": True, "by": "ann", "args": {"amount": edited}})
            assert (await host.settled(run.id)).status is Status.COMPLETED


async def test_cost_and_initiator_are_those_of_the_run(tmp_path: Path) -> None:
    machine = one(Action("think", "think"), Action("pay", "pay"))
    world = World(tmp_path, policy=policy(Rule("dear", "deny", cost_over=1.0, initiators=("bot-*",))))
    world.effect("think", kind="pure", answers=[Outcome({}, usage={"cost_usd": 1.5})])
    world.effect("pay", kind="pure")
    async with EmbeddedHost(tmp_path, world.effects, sync="off", policy=world.policy) as host:
        bot = await host.settled((await host.start(machine, by="bot-1")).id)
        kim = await host.settled((await host.start(machine, by="kim")).id)
        assert (bot.status, kim.status) == (Status.REJECTED, Status.COMPLETED)


STORY = Machine(
    name="story",
    initial="work",
    transitions=PAY.transitions,
    work={
        "work": (
            Action("look", "look"),
            Action("pay", "pay", {"amount": 5}),
            Action("both", "branches", branches=(
                Branch("a", (Action("mail", "mail", {"to": "a"}, ask=Question("Mail?")),)),
                Branch("b", (Action("post", "mail", {"to": "b"}, ask=Question("Post?")),)),
            )),
        )
    },
    ends=PAY.ends,
)  # fmt: skip


def test_a_run_under_a_policy_survives_death_at_any_moment() -> None:
    law = policy(
        Rule("look", "allow", tools=("look",)),
        Rule("pay", "ask", tools=("pay",), approvers=("role:ops",)),
        Rule("to-a", "allow", tools=("mail",), when="args.to == 'a'"),
        Rule("to-b", "ask", tools=("mail",), quorum=1, approvers=("operator",)),
        roles={"ops": ("operator",)},
    )

    def made() -> World:
        world = World(policy=law)
        world.effect("look", kind="pure")
        world.effect("pay")
        world.effect("mail")
        return world

    def check(world: World, run: Run) -> None:
        assert run.ended is Status.COMPLETED, run.error
        asked = [contract_id for contract_id, said in world.answers if "approved" in said]
        assert {"work/pay/1", "work/both.1.post/1"} == set(asked), "what a rule has answered is asked nobody"

    assert crash_anywhere(Story(STORY), made, check).points > 10
