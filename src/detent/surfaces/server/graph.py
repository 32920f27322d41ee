"""The picture of a machine or of a run as data: nodes and edges with their places, the way taken, the state lit."""

import functools
from typing import Literal

import msgspec
from starlette.responses import Response

from detent.core.machine import Machine
from detent.define.graph import Picture, picture
from detent.define.graph.geometry import Layout
from detent.define.graph.path import RunPath
from detent.define.graph.vector import layout
from detent.host.port import Reader
from detent.kit.http.asked import Asked
from detent.surfaces.server import shape


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


class GraphQuery(Asked, frozen=True):
    """Which moment, and in which colours."""

    at: shape.Seq = 0
    theme: Literal["auto", "light", "dark"] = "auto"


def drawing(text: str) -> Response:
    """An SVG to be sent: its style stands inside it, and nothing else in it may do anything."""
    headers = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
    return Response(text, media_type="image/svg+xml", headers=headers)


def picture_of(reader: Reader, run_id: str, at: int = 0) -> Picture:
    """The picture of a run now, or as it was after event `at`."""
    return _draw(reader, run_id, at)[1]


def graph(reader: Reader, run_id: str, at: int = 0) -> Graph:
    """The same as data."""
    return lay_out(*_draw(reader, run_id, at))


def _draw(reader: Reader, run_id: str, at: int) -> tuple[Machine, Picture]:
    """The way is folded once, for everybody who looks at any moment of it."""
    path = reader.project(run_id, RunPath)
    if at:
        was = reader.at(run_id, at)
        return was.machine, picture(was.machine, was.run, path=path.at(at))
    now = reader.standing(run_id)
    return now.machine, picture(now.machine, now.run, path=path)


def lay_out(machine: Machine, drawn: Picture) -> Graph:
    """A picture with its places."""
    places = _layout(picture(machine))  # the same for every run of it
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
        )
        for node, rect in zip(drawn.nodes, places.boxes, strict=True)
    ]
    edges = []
    for edge, way in zip(drawn.edges, places.routes, strict=True):
        labels = [GraphLabel(label.text, label.kind, label.is_visited) for label in edge.labels]
        rect = way.label
        box = Box(rect.x0, rect.y0, rect.x1 - rect.x0, rect.y1 - rect.y0) if rect is not None else None
        edges.append(GraphEdge(edge.source, edge.target, edge.kind, labels, edge.visits, list(way.points), box))
    current = drawn.current.name if drawn.current else ""
    return Graph(
        drawn.name, machine.digest, drawn.title, drawn.status, current, places.width, places.height, nodes, edges
    )


@functools.lru_cache(64)
def _layout(drawn: Picture) -> Layout:
    return layout(drawn)
