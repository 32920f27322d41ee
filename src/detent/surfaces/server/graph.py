"""The picture of a machine or of a run as data: nodes and edges with their places, the way taken, the state lit."""

import functools
from collections.abc import Collection
from typing import Literal

import msgspec
from starlette.responses import Response

from detent.core.machine import Machine
from detent.define.graph import Picture, picture
from detent.define.graph.geometry import Layout
from detent.define.graph.grouping import collapse, find_groups
from detent.define.graph.path import RunPath
from detent.define.graph.svg_picture import layout
from detent.host.port import Reader
from detent.kit.http.request_base import Asked
from detent.surfaces.server import shape

FOLD_MIN = 24  # states; a picture of fewer is read as it is


class Box(msgspec.Struct, frozen=True):
    """A place on the paper, in pixels from its upper left corner."""

    x: int
    y: int
    width: int
    height: int


class GraphNode(msgspec.Struct, frozen=True):
    """A state."""

    id: str
    text: str
    kind: str
    details: list[str]
    lanes: list[str]
    marks: list[str]
    is_initial: bool
    is_end: bool
    is_visited: bool
    is_current: bool
    box: Box
    members: list[str] = []  # of a group that is drawn as one: its states


class GraphLabel(msgspec.Struct, frozen=True):
    """Why an edge is taken."""

    text: str
    kind: str
    is_visited: bool


class GraphEdge(msgspec.Struct, frozen=True):
    """All rows of the table from one state to another."""

    source: str
    target: str
    kind: str
    labels: list[GraphLabel]
    visits: int
    points: list[tuple[int, int]]
    label_box: Box | None


class GraphGroup(msgspec.Struct, frozen=True):
    """States that belong together, found by their names and their order."""

    name: str
    states: list[str]
    is_open: bool  # each state has its own box


class Graph(msgspec.Struct, frozen=True):
    """A machine, or a run of it: laid out for those who want to draw it as it is, or to lay it out themselves."""

    machine: str
    digest: str
    title: str
    status: str
    current: str
    width: int
    height: int
    nodes: list[GraphNode]
    edges: list[GraphEdge]
    groups: list[GraphGroup] = []  # of a large machine, where it was asked to be folded
    upto: int = 0  # of a run: the event up to which the way is drawn


class SvgQuery(Asked, frozen=True):
    """Which moment, and in which colours."""

    at: shape.Seq = 0
    theme: Literal["auto", "light", "dark"] = "auto"


class GraphQuery(Asked, frozen=True):
    """Which moment, whether the groups of a large machine are folded, and how long the way may be looked for."""

    at: shape.Seq = 0
    fold: bool = False
    open: shape.Opened = ()
    within: shape.Within = 0.0


def drawing(text: str) -> Response:
    """An SVG to be sent: its style stands inside it, and nothing else in it may do anything."""
    headers = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
    return Response(text, media_type="image/svg+xml", headers=headers)


def picture_of(reader: Reader, run_id: str, at: int = 0) -> Picture:
    """The picture of a run now, or as it was after event `at`."""
    return _draw(reader, run_id, at)[1]


def graph(reader: Reader, run_id: str, asked: GraphQuery = GraphQuery()) -> Graph:  # noqa: B008  # frozen
    """The same as data."""
    machine, drawn, upto = _draw(reader, run_id, asked.at, asked.within)
    return msgspec.structs.replace(lay_out(machine, drawn, asked.open if asked.fold else None), upto=upto)


def _draw(reader: Reader, run_id: str, at: int, within_s: float = 0.0) -> tuple[Machine, Picture, int]:
    """The way is folded once, for everybody who looks at any moment of it; in a limited time, a part of it."""
    path, upto = reader.project_part(run_id, RunPath, within_s or None)
    if at:
        was = reader.at(run_id, at)
        return was.machine, picture(was.machine, was.run, path=path.at(at)), min(upto, at)
    now = reader.standing(run_id)
    return now.machine, picture(now.machine, now.run, path=path), min(upto, now.run.seq)


def lay_out(machine: Machine, drawn: Picture, unfolded: Collection[str] | None = None) -> Graph:
    """A picture with its places; the groups of a large machine as one box each, but for those that are unfolded."""
    plain = picture(machine)
    groups = _find_groups(plain) if unfolded is not None and len(plain.nodes) >= FOLD_MIN else {}
    unfolded = [name for name in groups if name in (unfolded or ())]
    drawn = collapse(drawn, groups, unfolded)
    places = _layout(collapse(plain, groups, unfolded))  # the same for every run of it
    nodes = [
        GraphNode(
            id=node.name,
            text=node.text,
            kind=node.kind,
            details=list(node.details),
            lanes=list(node.lanes),
            marks=list(node.marks),
            is_initial=node.is_initial,
            is_end=node.is_end,
            is_visited=node.is_visited,
            is_current=node.is_current,
            box=Box(rect.x0, rect.y0, rect.x1 - rect.x0, rect.y1 - rect.y0),
            members=list(node.members),
        )
        for node, rect in zip(drawn.nodes, places.boxes, strict=True)
    ]
    edges = []
    for edge, way in zip(drawn.edges, places.routes, strict=True):
        labels = [GraphLabel(label.text, label.kind, label.is_visited) for label in edge.labels]
        rect = way.label
        box = Box(rect.x0, rect.y0, rect.x1 - rect.x0, rect.y1 - rect.y0) if rect is not None else None
        edges.append(GraphEdge(edge.source, edge.target, edge.kind, labels, edge.visits, list(way.points), box))
    return Graph(
        machine=drawn.name,
        digest=machine.digest,
        title=drawn.title,
        status=drawn.status,
        current=drawn.current.name if drawn.current else "",
        width=places.width,
        height=places.height,
        nodes=nodes,
        edges=edges,
        groups=[GraphGroup(name, list(states), name in unfolded) for name, states in groups.items()],
    )


@functools.lru_cache(64)
def _layout(drawn: Picture) -> Layout:
    return layout(drawn)


@functools.lru_cache(64)
def _find_groups(drawn: Picture) -> dict[str, tuple[str, ...]]:
    return find_groups(drawn)
