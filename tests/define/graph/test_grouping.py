"""Groups of a large picture: found by names or by rows, and drawn as one box without losing a state or a way."""

from hypothesis import given, settings
from hypothesis import strategies as st

from detent.core import Machine, Status, Transition
from detent.define.graph import Edge, Label, Node, Picture, picture
from detent.define.graph.grouping import LABELS_MAX, collapse, find_groups
from detent.define.graph.svg_picture import layout
from tests.define.graph.machines import RELEASE
from tests.effort import examples

WORDS = ("fetch", "clean", "train", "ship")


def large(names: list[str]) -> Machine:
    """A machine with these states in a row, an end, and a way out of every fifth for errors."""
    rows = [Transition(one, other) for one, other in zip(names, [*names[1:], "done"], strict=True)]
    rows += [Transition(name, "failed", error="tool_failure") for name in names[::5]]
    return Machine("large", names[0], tuple(rows), ends={"done": Status.COMPLETED, "failed": Status.FAILED})


def test_states_whose_names_begin_alike_are_a_group() -> None:
    names = [f"{word}_{part}" for word in WORDS for part in ("begin", "work", "check", "end")]
    drawn = picture(large(names))
    groups = find_groups(drawn)
    assert {name: len(states) for name, states in groups.items()} == dict.fromkeys([f"{w}…" for w in WORDS], 4)
    folded = collapse(drawn, groups)
    assert [node.name for node in folded.nodes] == ["fetch…", "clean…", "train…", "ship…", "done", "failed"]
    assert (folded.nodes[0].is_initial, folded.nodes[0].members) == (True, groups["fetch…"])
    between = {(edge.source, edge.target) for edge in folded.edges}
    assert {("fetch…", "clean…"), ("ship…", "done"), ("fetch…", "failed")} <= between
    opened = collapse(drawn, groups, ["clean…"])
    assert [node.name for node in opened.nodes][1:5] == names[4:8]


def test_a_long_row_of_names_that_say_nothing_is_cut_into_pieces() -> None:
    drawn = picture(large([f"step{number}" for number in range(200)]))
    groups = find_groups(drawn)
    assert len(groups) == 20
    assert all(8 <= len(states) <= 12 for states in groups.values())
    assert len(layout(collapse(drawn, groups)).boxes) == 22


def test_a_small_machine_of_different_names_has_no_groups() -> None:
    assert find_groups(picture(RELEASE)) == {}


STATE = st.sampled_from(
    [f"{word}_{number}" for word in WORDS for number in range(5)] + ["one", "two", "zh中", "stepOne", "x1"]
)
LABEL = st.builds(Label, st.sampled_from(["GO", "STOP", "!error", "x > 1", "else"]), st.just("signal"), st.booleans())
EDGES = st.dictionaries(st.tuples(STATE, STATE), st.tuples(st.lists(LABEL, max_size=3), st.integers(0, 3)), max_size=40)


@settings(max_examples=examples(60))
@given(states=st.lists(STATE, unique=True, min_size=1), edges=EDGES, data=st.data())
def test_nothing_is_lost_whatever_is_folded(
    states: list[str], edges: dict[tuple[str, str], tuple[list[Label], int]], data: st.DataObject
) -> None:
    ways = [
        Edge(source, target, "signal", tuple(labels), visits)
        for (source, target), (labels, visits) in edges.items()
        if source in states and target in states
    ]
    drawn = Picture("m", tuple(Node(name, is_initial=at == 0) for at, name in enumerate(states)), tuple(ways))
    groups = find_groups(drawn)
    grouped = [name for members in groups.values() for name in members]
    assert len(grouped) == len(set(grouped))
    assert set(grouped) <= set(states)
    unfolded = data.draw(st.sets(st.sampled_from(sorted(groups))) if groups else st.just(set()))
    folded = collapse(drawn, groups, unfolded)
    shown = [name for node in folded.nodes for name in node.members or (node.name,)]
    assert sorted(shown) == sorted(states)  # every state once, on its own or in one box
    assert sum(node.is_initial for node in folded.nodes) == 1
    home = {name: node.name for node in folded.nodes for name in node.members or (node.name,)}
    inside = [edge for edge in ways if home[edge.source] == home[edge.target] in groups]
    assert sum(e.visits for e in folded.edges) == sum(e.visits for e in ways) - sum(e.visits for e in inside)
    assert {(e.source, e.target) for e in folded.edges} == {
        (home[e.source], home[e.target]) for e in ways if e not in inside
    }
    assert all(len(edge.labels) <= LABELS_MAX for edge in folded.edges)
    assert len(layout(folded).boxes) == len(folded.nodes)
    assert collapse(drawn, groups, groups) == drawn
