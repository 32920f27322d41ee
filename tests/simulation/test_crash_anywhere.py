"""A story cut after every journal write and inside every effect, told to its end, with the laws asserted each time."""

import pytest

from detent import Action, Branch, Machine, Question, Retry, Status, Wait, table
from detent.core.contract import Contract
from detent.core.effect_type import EffectFailed, OutcomeUnknown
from detent.core.run import Run
from detent.testing import Story, World, crash_anywhere, simulate, tell

PAY = Machine(
    name="pay",
    initial="checking",
    transitions=table("""
        checking  -                   paying
        paying    -                   noting
        paying    !approval_rejected  refused
        noting    -                   paid
    """),
    work={
        "checking": (Action("check", "check"),),
        "paying": (Action("pay", "bank.pay", input={"to": "{{ context.to }}"}, ask=Question("Pay {{ context.to }}?")),),
        "noting": (Action("note", "note", input={"id": "{{ result.pay.id }}"}),),
    },
    ends={"paid": Status.COMPLETED, "refused": Status.REJECTED},
)

MANY = Machine(
    name="many",
    initial="begin",
    transitions=table("""
        begin   -                 sleep
        sleep   -                 spread
        spread  -                 finish
        spread  !branch_failed    finish
        finish  -                 done
        finish  !tool_failure     done
    """),
    work={
        "begin": (Action("flaky", "flaky", retry=Retry(limit=3)),),
        "sleep": (Action("nap", "wait", wait=Wait(duration_s=3600)),),
        "spread": (
            Action(
                "all",
                "branches",
                branches=(
                    Branch("left", (Action("mail", "mail", input={"to": "left"}), Action("note", "note"))),
                    Branch("right", (Action("mail", "mail", input={"to": "right"}, ask=Question("Right?")),)),
                ),
            ),
        ),
        "finish": (Action("lost", "lost", timeout_s=5),),
    },
    ends={"done": Status.COMPLETED},
)


def a_bank(*, probe: bool) -> World:
    world = World()
    world.effect("check", kind="pure")
    world.effect("bank.pay", answers=[{"id": 7}], probe=probe)
    world.effect("note", kind="idempotent")
    return world


def a_busy_world() -> World:
    world = World(is_clumsy=True)
    world.effect("flaky", kind="idempotent", answers=[EffectFailed("no"), EffectFailed("still no"), {"ok": True}])
    world.effect("mail", answers=[{"sent": True}], delay_s=3)
    world.effect("note", kind="idempotent")
    world.effect("lost", answers=[OutcomeUnknown("the line went dead")])
    return world


@pytest.mark.parametrize("probe", [False, True])
def test_a_payment_happens_once_wherever_the_process_dies(probe: bool) -> None:
    def check(world: World, run: Run) -> None:
        assert run.status is Status.COMPLETED
        assert [deed.input for deed in world.deeds if deed.effect == "bank.pay"] == [{"to": "bob"}]

    report = crash_anywhere(Story(PAY, {"to": "bob"}), lambda: a_bank(probe=probe), check)
    assert report.points > 10
    assert report.undisturbed.results["pay"]["id"] == 7


def test_with_a_probe_nobody_is_asked_what_happened() -> None:
    def check(world: World, run: Run) -> None:
        assert not [answer for _, answer in world.answers if "outcome" in answer]

    crash_anywhere(Story(PAY, {"to": "bob"}), lambda: a_bank(probe=True), check)


def test_an_approval_once_acknowledged_is_never_asked_again() -> None:
    def check(world: World, run: Run) -> None:
        approvals = [contract_id for contract_id, answer in world.answers if answer.get("approved")]
        assert len(approvals) - len(set(approvals)) <= 1, approvals  # the one cut off before it was on disk

    crash_anywhere(Story(PAY, {"to": "bob"}), lambda: a_bank(probe=False), check)


def test_branches_timers_retries_and_doubts_survive_a_death_anywhere() -> None:
    def check(world: World, run: Run) -> None:
        assert run.state == "done"
        mails = sorted(deed.input["to"] for deed in world.deeds if deed.effect == "mail")
        assert mails == ["left", "right"]

    assert crash_anywhere(Story(MANY), a_busy_world, check).points > 30


def test_two_deaths_in_one_story_are_survived_too() -> None:
    points = crash_anywhere(Story(PAY, {"to": "bob"}), lambda: a_bank(probe=False)).points
    for first in range(1, points + 1):
        for second in range(first + 1, points + 4, 3):
            world = a_bank(probe=False)
            world.die_at = frozenset((first, second))
            with world:
                run = simulate(tell(world, Story(PAY, {"to": "bob"})))
                assert run.status is Status.COMPLETED, (first, second)
                assert len([d for d in world.deeds if d.effect == "bank.pay"]) == 1, (first, second)


def test_the_laws_notice_an_operator_who_lies() -> None:
    def liar(world: World, run: Run, contract: Contract) -> dict[str, object]:
        assert contract.question is not None
        if contract.question.reason == "outcome_unknown":
            return {"outcome": "not_happened", "by": "liar"}
        return {"approved": True, "by": "liar"}

    with pytest.raises(AssertionError, match="was done 2 times"):
        crash_anywhere(Story(PAY, {"to": "bob"}, liar), lambda: a_bank(probe=False))
