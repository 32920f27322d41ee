"""The policy: which rule is for a call, what it decides, and what becomes of an author's question under it."""

import pytest

from detent.core import Question
from detent.core.policy import Call, Policy, Rule, stricter

PAY = Call("bank.pay", {"amount": 50, "to": "bob"}, "irreversible", "billing", "kim", 0.2, {"state": "paying"})


def decided(call: Call, *rules: Rule, **given: object) -> tuple[str, str] | None:
    verdict = Policy(rules=rules, **given).decide(call)  # type: ignore[arg-type]
    return None if verdict is None else (verdict.decision, verdict.rule)


def test_the_first_rule_in_document_order_decides() -> None:
    small = Rule("small", "allow", tools=("bank.*",), when="{{ args.amount < 100 }}")
    every = Rule("every", "deny", tools=("bank.*",))
    assert decided(PAY, small, every) == ("allow", "small")
    assert decided(PAY, every, small) == ("deny", "every")
    assert decided(PAY._replace(args={"amount": 100}), small, every) == ("deny", "every")
    assert decided(PAY._replace(tool="mail.send"), small, every) is None


@pytest.mark.parametrize(
    "rule",
    [
        Rule("r", "ask"),
        Rule("r", "ask", tools=("bank.pay",)),
        Rule("r", "ask", tools=("mail", "ban?.*")),
        Rule("r", "ask", workflows=("bill*",)),
        Rule("r", "ask", initiators=("ann", "k[hi]m")),
        Rule("r", "ask", kinds=("irreversible",)),
        Rule("r", "ask", cost_over=0.1),
        Rule("r", "ask", when="args.to == 'bob' and tool == 'bank.pay' and run.state == 'paying' and cost > 0"),
    ],
)
def test_a_rule_is_for_the_calls_it_names(rule: Rule) -> None:
    assert decided(PAY, rule) == ("ask", "r")


@pytest.mark.parametrize(
    "rule",
    [
        Rule("r", "ask", tools=("bank",)),
        Rule("r", "ask", tools=("BANK.*",)),
        Rule("r", "ask", tools=("bank.*",), workflows=("release",)),
        Rule("r", "ask", initiators=("ann",)),
        Rule("r", "ask", kinds=("pure", "idempotent")),
        Rule("r", "ask", cost_over=0.2),
        Rule("r", "ask", when="args.amount > 50"),
    ],
)
def test_and_for_no_others(rule: Rule) -> None:
    assert decided(PAY, rule) is None


def test_the_default_holds_where_no_rule_does_and_only_for_its_kind() -> None:
    assert decided(PAY, default={"irreversible": "ask"}) == ("ask", "default:irreversible")
    assert decided(PAY, default={"pure": "deny"}) is None
    assert decided(PAY, Rule("r", "allow"), default={"irreversible": "deny"}) == ("allow", "r")


def test_a_condition_that_cannot_be_computed_errs_on_the_careful_side() -> None:
    broken = "{{ args.amount < 'x' }}"
    assert decided(PAY, Rule("a", "allow", when=broken), Rule("d", "deny", when=broken)) == ("deny", "d")
    assert decided(PAY, Rule("q", "ask", when=broken), Rule("a", "allow")) == ("ask", "q")
    verdict = Policy(rules=(Rule("q", "ask", when=broken, message="Pay {{ args.to }}?"),)).decide(PAY)
    assert verdict is not None
    assert verdict.message.startswith("Pay bob?; its condition cannot be computed")


def test_an_ask_names_people_roles_and_times() -> None:
    rule = Rule(
        "r", "ask", approvers=("role:ops", "eve"), quorum=2, separate=True, expires_s=60.0, message="{{ tool }}!"
    )
    verdict = Policy(rules=(rule,), roles={"ops": ("ann", "eve", "bob")}).decide(PAY)
    assert verdict is not None
    assert verdict.question == Question(
        "bank.pay!", approvers=("ann", "eve", "bob"), quorum=2, separate=True, expires_s=60.0
    )


def test_a_role_nobody_has_declared_stays_as_it_is() -> None:
    assert Policy(roles={"ops": ("ann",)}).people(["role:dev", "ops", "role:ops"]) == ("role:dev", "ops", "ann")


@pytest.mark.parametrize(
    ("asked", "wanted", "stricter_is"),
    [
        (Question("a"), Question("p", approvers=("x",), quorum=1), Question("a", approvers=("x",))),
        (Question("a", approvers=("x", "y")), Question("p", approvers=("y", "z")), Question("a", approvers=("y",))),
        (Question("a", approvers=("x",)), Question("p", approvers=("z",)), Question("a", approvers=("z",))),
        (Question("a", approvers=("x", "y")), Question("p"), Question("a", approvers=("x", "y"))),
        (Question("a", expires_s=60), Question("p", expires_s=30), Question("a", expires_s=30)),
        (Question("a", expires_s=60), Question("p"), Question("a", expires_s=60)),
        (Question("a"), Question("p", quorum=2, separate=True), Question("a", quorum=2, separate=True)),
        (
            Question("a", approvers=("x", "y"), quorum=2),
            Question("p", approvers=("y", "z")),
            Question("a", approvers=("y", "z")),
        ),
    ],
)
def test_a_stricter_question_keeps_what_both_want(asked: Question, wanted: Question, stricter_is: Question) -> None:
    assert stricter(asked, wanted) == stricter_is


def test_a_policy_has_an_identity() -> None:
    one, other = Policy(rules=(Rule("a", "allow"),)), Policy(rules=(Rule("a", "deny"),))
    assert one.digest == Policy(rules=(Rule("a", "allow"),)).digest != other.digest
