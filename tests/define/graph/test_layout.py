"""The laws of the layout: for machines people draw, and for any machine at all."""

from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detent.core import Action, Machine, Question, Transition, Wait
from detent.define.graph import picture, svg_picture, terminal
from detent.define.graph.drawing import Picture
from detent.define.graph.geometry import Layout, Wire
from detent.define.graph.layering import upward
from detent.define.graph.network_simplex import Span, solve
from detent.define.graph.x_coordinate import spread
from detent.errors import DefinitionError
from tests.define.graph.law import broken, lying
from tests.define.graph.machines import CHINESE, EVERY, coding, notebook
from tests.effort import examples

WORK: list[tuple[Action, ...]] = [
    (),
    (Action(id="do", effect="shell"),),
    (Action(id="do", effect="mail.send", ask=Question()),),
    (Action(id="rest", effect="wait", wait=Wait(duration_s=60)),),
]
LOG = Action(id="log", effect="log", input={"message": ""})


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    """Any machine: loops, ways back, many rows between two states, rows from everywhere, states nobody reaches."""
    count = draw(st.integers(1, 10))
    names = [f"s{at}" * draw(st.integers(1, 6)) for at in range(count)]
    rows = [Transition(name, name, on="STAY") for name in names if draw(st.booleans())]
    events = st.sampled_from(["GO", "STOP", "A_RATHER_LONG_EVENT", "!timeout", "!*", ""])
    for _ in range(draw(st.integers(0, 3 * count))):
        source, target = draw(st.sampled_from([*names, "*"])), draw(st.sampled_from(names))
        event = draw(events)
        when = draw(st.sampled_from(["", "context.amount > 10"])) if event else "context.is_ready"
        on, error = ("", event[1:]) if event.startswith("!") else (event, "")
        rows.append(Transition(source, target, on=on, error=error, when=when))
    work = {name: (*draw(st.sampled_from(WORK)), LOG) for name in names}
    return Machine(name="any", initial=names[0], transitions=tuple(rows), work=work)


def cells(shown: Picture) -> Layout:
    """The layout of a picture in a terminal."""
    return terminal.Sheet(shown, has_details=True, label_max=terminal.LABEL_MAX).drawn


@pytest.mark.parametrize("name", EVERY)
def test_nothing_lies_on_anything_else(name: str) -> None:
    shown = picture(EVERY[name])
    drawn = svg_picture.layout(shown)
    assert list(broken(shown, drawn)) == []
    if name != "web":  # of its lines alone there are a hundred million pairs
        assert list(lying(drawn)) == []


@pytest.mark.parametrize("name", [name for name in EVERY if name != "web"])
def test_nothing_lies_on_anything_else_in_a_terminal(name: str) -> None:
    shown = picture(EVERY[name])
    assert list(broken(shown, cells(shown))) == []


@settings(max_examples=examples(200))
@given(machines())
def test_nothing_lies_on_anything_else_in_any_machine(machine: Machine) -> None:
    shown = picture(machine)
    for drawn in (svg_picture.layout(shown), cells(shown)):
        assert list(broken(shown, drawn)) == []
        assert list(lying(drawn)) == []


def test_the_first_way_on_is_a_straight_line_down() -> None:
    shown = picture(CHINESE)
    drawn = svg_picture.layout(shown)
    xs = {
        node.name: box.x
        for node, box in zip(shown.nodes, drawn.boxes, strict=True)
        if node.name in ("填写申请", "主管审批", "财务复核", "付款", "已完成")
    }
    assert len(set(xs.values())) == 1, xs


def test_ways_back_run_at_the_side() -> None:
    shown = picture(coding())
    drawn = svg_picture.layout(shown)
    boxes = dict(zip((node.name for node in shown.nodes), drawn.boxes, strict=True))
    back = [(e, w) for e, w in zip(shown.edges, drawn.routes, strict=True) if boxes[e.target].y < boxes[e.source].y]
    assert len(back) == 6
    for edge, way in back:
        assert way.points[0][0] == boxes[edge.source].x1
        assert way.points[-1][0] == boxes[edge.target].x1


def test_many_equal_ways_to_one_state_share_a_line_and_a_label() -> None:
    shown = picture(notebook())
    drawn = svg_picture.layout(shown)
    cancel = [way for edge, way in zip(shown.edges, drawn.routes, strict=True) if edge.target == "cancelled"]
    assert len(cancel) == 10
    assert len({way.label for way in cancel}) == 1
    assert len({way.points[-1] for way in cancel}) == 1


def test_cycles_are_broken_where_the_reader_comes_back() -> None:
    wires = [Wire(0, 1), Wire(1, 2), Wire(2, 1), Wire(2, 0), Wire(3, 0), Wire(1, 1)]
    assert upward(4, wires) == {2, 3, 4}


@given(st.data())
def test_the_simplex_finds_the_shortest(data: st.DataObject) -> None:
    count = data.draw(st.integers(2, 4))
    ends = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(lambda pair: pair[0] < pair[1])
    rows = data.draw(st.lists(st.tuples(ends, st.integers(-1, 2), st.integers(0, 3)), max_size=6))
    spans = [Span(tail, head, least, weight) for (tail, head), least, weight in rows]

    def price(places: tuple[int, ...]) -> int:
        return sum(span.weight * (places[span.head] - places[span.tail]) for span in spans)

    def holds(places: tuple[int, ...]) -> bool:
        return all(places[span.head] - places[span.tail] >= span.least for span in spans)

    found = tuple(solve(count, spans))
    assert holds(found)
    assert price(found) == min(price(places) for places in product(range(7), repeat=count) if holds(places))


def test_the_simplex_refuses_a_cycle() -> None:
    with pytest.raises(ValueError, match="cycle"):
        solve(2, [Span(0, 1, 1), Span(1, 0, 1)])


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=8), st.integers(1, 20))
def test_ends_at_a_box_keep_their_order_and_distance(wanted: list[int], gap: int) -> None:
    places = spread(sorted(wanted), [1] * len(wanted), -100, 100, gap)
    assert all(after - before >= min(gap, 200 // 7) for before, after in pairwise(places))
    assert -100 <= min(places) <= max(places) <= 100


def test_what_nobody_could_read_is_refused_with_a_way_out() -> None:
    rows = [Transition(f"n{at}", f"n{at + 1}", on="GO") for at in range(400)]
    rows += [Transition(f"n{at}", "n0", on=f"BACK_{at}") for at in range(1, 400)]
    shown = picture(Machine(name="long", initial="n0", transitions=(*rows, Transition("n400", "n0", on="END"))))
    with pytest.raises(DefinitionError, match="too large to be drawn"):
        svg_picture.svg(shown)
    assert terminal.ascii(shown).startswith("long · 401 states\n")
