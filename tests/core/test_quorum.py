"""The law of the quorum: however they answer, in their own name or in others', k people never meet more than k."""

from hypothesis import given
from hypothesis import strategies as st

from detent.core import Action, Machine, Question, Run, Status, advance, table
from detent.core.events import RULES, ContractMoved, Started
from detent.errors import Refused

PEOPLE = ("ann", "bob", "kim", "val")
ANSWERS = st.lists(st.tuples(st.sampled_from(PEOPLE), st.sampled_from(("", *PEOPLE)), st.booleans()), max_size=30)


def asking(question: Question) -> tuple[Machine, Run]:
    machine = Machine(
        "pay", "work", table("work - done"), work={"work": (Action("deed", "pay", ask=question),)},
        ends={"done": Status.COMPLETED},
    )  # fmt: skip
    started = Started(machine.digest, by="opal", rules=RULES, at=1.0)
    return machine, advance(machine, Run(id="r"), started)[0]


@given(quorum=st.integers(2, 4), answers=ANSWERS)
def test_k_people_never_meet_a_quorum_of_more(quorum: int, answers: list[tuple[str, str, bool]]) -> None:
    machine, run = asking(Question("Pay?", quorum=quorum))
    speakers: set[str] = set()
    for at, (name, spoken_by, is_known) in enumerate(answers):
        said = {"approved": True, "by": name, "spoken_by": "" if spoken_by == name else spoken_by}
        if is_known:
            said["known_by"] = "token"
        event = ContractMoved("work/deed/1", "resume", result=said, actor="human", at=2.0 + at, id=f"e{at}")
        try:
            run = advance(machine, run, event)[0]
        except Refused:
            continue
        speakers.add(spoken_by or name)
        contract = run.contract("work/deed/1")
        if contract is None or contract.status is not Status.WAITING:
            assert len(speakers) >= quorum
            return
    assert run.status is Status.WAITING


@given(answers=ANSWERS)
def test_whoever_started_a_run_is_never_heard_about_it(answers: list[tuple[str, str, bool]]) -> None:
    machine, run = asking(Question("Pay?", separate=True, quorum=9))
    for at, (name, spoken_by, _) in enumerate((*answers, ("opal", "ann", True), ("ann", "opal", True))):
        said = {"approved": True, "by": name, "spoken_by": spoken_by, "known_by": "token"}
        event = ContractMoved("work/deed/1", "resume", result=said, actor="human", at=2.0 + at, id=f"e{at}")
        try:
            run = advance(machine, run, event)[0]
        except Refused:
            continue
        assert "opal" not in (name, spoken_by)
