"""What a picture says about a machine and about a run of it."""

import msgspec
import pytest

from detent.core import (
    Action,
    Branch,
    ContractMoved,
    Declared,
    Entry,
    Event,
    Failure,
    Machine,
    Question,
    Run,
    Signalled,
    Started,
    Status,
    Transition,
    Wait,
    table,
    trace,
)
from detent.define.graph import Edge, Node, Picture, RunPath, picture
from tests.define.graph.machines import DOOR, MAIL, RELEASE, notebook


def node(shown: Picture, name: str) -> Node:
    return next(one for one in shown.nodes if one.name == name)


def edge(shown: Picture, source: str, target: str) -> Edge:
    return next(one for one in shown.edges if (one.source, one.target) == (source, target))


def labels(one: Edge) -> list[str]:
    return [label.text for label in one.labels]


def walk(machine: Machine, *events: Event) -> list[Entry]:
    effects = dict.fromkeys(machine.chart.effects, Declared())
    return list(trace(machine, Run(id="r"), [Started(machine=machine.digest, effects=effects), *events]))


def test_a_state_is_what_it_does() -> None:
    shown = picture(RELEASE)
    kinds = {one.name: one.kind for one in shown.nodes}
    assert kinds == {
        "start": "normal",
        "build": "normal",
        "checks": "parallel",
        "broken": "failed",
        "review": "ask",
        "soak": "wait",
        "refused": "rejected",
        "live": "completed",
        "rollback": "normal",
        "aborted": "cancelled",
        "*": "any",
    }
    assert [one.name for one in shown.nodes if one.is_initial] == ["start"]
    assert node(shown, "checks").lanes == ("unit: shell", "lint: shell", "scan: http.get, note: files.wri…")
    assert node(shown, "soak").details == ("HEALTHY or ALARM, 1 d",)


def test_an_approval_inside_a_branch_is_seen_from_outside() -> None:
    inner = Action(id="pay", effect="bank.pay", ask=Question())
    pause = Action(id="rest", effect="wait", wait=Wait(duration_s=90))
    both = Action(id="both", effect="branches", branches=(Branch("a", (inner,)), Branch("b", (pause,))))
    machine = Machine(
        name="m", initial="s", transitions=table("s - e"), work={"s": (both,)}, ends={"e": Status.COMPLETED}
    )
    assert node(picture(machine), "s").marks == ("parallel", "ask", "wait")
    assert node(picture(machine), "s").lanes == ("a: bank.pay", "b: for 90 s")


def test_rows_between_two_states_are_one_edge_with_all_reasons() -> None:
    shown = picture(MAIL)
    assert labels(edge(shown, "sending", "failed")) == ["!tool_failure", "!timeout"]
    assert edge(shown, "sending", "failed").kind == "error"
    assert labels(edge(shown, "sending", "sent")) == []
    assert edge(shown, "sending", "sent").kind == "settled"
    assert edge(shown, "writing", "sending").kind == "signal"


def test_a_condition_is_shortened_and_the_other_way_is_else() -> None:
    shown = picture(RELEASE)
    assert labels(edge(shown, "build", "checks")) == ["result.compile.success"]
    assert labels(edge(shown, "build", "build")) == ["attempt < 3"]
    assert edge(shown, "build", "build").kind == "retry"
    assert labels(edge(shown, "build", "broken")) == ["else"]
    assert labels(edge(shown, "soak", "rollback")) == ["ALARM [event.data.level > variables.…]", "!timeout.event"]


def test_a_machine_alone_has_nothing_lit() -> None:
    shown = picture(DOOR)
    assert not shown.is_run
    assert shown.current is None
    assert not any(node.is_visited for node in shown.nodes)
    assert not any(edge.is_visited for edge in shown.edges)


def test_a_run_lights_its_state_and_the_way_it_came() -> None:
    entries = walk(MAIL, Signalled("SEND"))
    shown = picture(MAIL, entries[-1].run, entries)
    assert shown.status == "waiting"
    assert shown.current == node(shown, "sending")
    assert [one.name for one in shown.nodes if one.is_visited] == ["writing", "sending"]
    assert [(one.source, one.target) for one in shown.edges if one.is_visited] == [("writing", "sending")]


def test_a_run_without_its_trace_still_shows_where_it_is() -> None:
    run = walk(MAIL, Signalled("SEND"))[-1].run
    assert picture(MAIL, run).current == node(picture(MAIL, run), "sending")


def test_only_the_reason_that_was_is_marked() -> None:
    asked = walk(MAIL, Signalled("SEND"))
    contract = asked[-1].run.contracts[0].id
    events = [
        ContractMoved(contract, "resume", result={"approved": True}),
        ContractMoved(contract, "fail", error=Failure("tool_failure.exit", "no")),
    ]
    entries = [*asked, *trace(MAIL, asked[-1].run, events)]
    taken = edge(picture(MAIL, None, entries), "sending", "failed")
    assert [(label.text, label.is_visited) for label in taken.labels] == [("!tool_failure", True), ("!timeout", False)]


def test_a_row_from_everywhere_is_marked_when_it_was_taken() -> None:
    machine = Machine(
        name="m",
        initial="a",
        transitions=table("""
            a  GO   b
            b  GO   a
            *  END  done
        """),
        ends={"done": Status.CANCELLED},
    )
    shown = picture(machine, None, walk(machine, Signalled("GO"), Signalled("END")))
    assert edge(shown, "*", "done").visits == 1
    assert node(shown, "*").is_visited
    assert not edge(shown, "b", "a").is_visited


def test_of_two_conditions_the_one_that_held_is_marked() -> None:
    rows = (
        Transition("a", "b", when="context.x > 5"),
        Transition("a", "b", when="context.x > 1"),
        Transition("a", "c"),
    )
    machine = Machine(name="m", initial="a", transitions=rows, ends={"b": Status.COMPLETED, "c": Status.FAILED})
    started = Started(machine=machine.digest, input={"x": 3})
    shown = picture(machine, None, trace(machine, Run(id="r"), [started]))
    assert [label.is_visited for label in edge(shown, "a", "b").labels] == [False, True]


def test_how_often_a_way_was_taken_is_counted() -> None:
    shown = picture(DOOR, None, walk(DOOR, *(Signalled(name) for name in ("OPEN", "CLOSE", "OPEN"))))
    assert edge(shown, "closed", "open").visits == 2
    assert edge(shown, "open", "closed").visits == 1


def test_a_picture_of_the_notebook_table_has_all_its_rows() -> None:
    machine = notebook()
    shown = picture(machine)
    assert len(machine.transitions) == 45
    assert len(shown.nodes) == 14
    assert sum(len(one.labels) for one in shown.edges) == 45


@pytest.mark.parametrize("machine", [DOOR, MAIL, RELEASE])
def test_a_machine_read_back_from_json_gives_the_same_picture(machine: Machine) -> None:
    assert picture(msgspec.json.decode(machine.to_json(), type=Machine)) == picture(machine)


def test_where_a_no_leads_is_written_without_the_condition_that_only_names_the_action() -> None:
    of_action = "{{ result.pay.error.type == 'approval_rejected' }}"
    rows = (
        Transition("a", "no", error="approval_rejected", when=of_action),
        Transition("a", "maybe", error="timeout", when=of_action),
    )
    work: dict[str, tuple[Action, ...]] = {"a": (Action("pay", "bank.pay", ask=Question("Pay?")),)}
    ends = {"no": Status.FAILED, "maybe": Status.FAILED}
    shown = picture(Machine(name="m", initial="a", transitions=rows, work=work, ends=ends))
    assert labels(edge(shown, "a", "no")) == ["!approval_rejected"]
    assert labels(edge(shown, "a", "maybe"))[0].startswith("!timeout [")


def test_a_path_that_was_dumped_half_way_goes_on_like_the_whole() -> None:
    entries = walk(DOOR, *(Signalled(name) for name in ("OPEN", "CLOSE") * 3))
    for count in range(len(entries) + 1):
        path = RunPath("r")
        for entry in entries[:count]:
            path.take(entry)
        path = RunPath.load("r", path.dump())
        for entry in entries[count:]:
            path.take(entry)
        assert picture(DOOR, entries[-1].run, path=path) == picture(DOOR, None, entries)
