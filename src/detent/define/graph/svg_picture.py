"""The picture as SVG: one self-contained file without scripts and links, drawn without a browser."""

from detent.define.graph.drawing import Edge, Node, Picture
from detent.define.graph.geometry import Layout, Metric, Rect, Shape, Wire
from detent.define.graph.layout import lay_out
from detent.define.graph.palette import Theme, scope, style
from detent.define.graph.svg_part import HEAD, draw_edges, draw_halo, draw_label, draw_node, escape, label_size, size

MARGIN = 24
METRIC = Metric(
    box_margin=18,
    line_margin=9,
    label_margin=6,
    port=18,
    port_pad=16,
    side_port=14,
    side_pad=10,
    lead=14,
    tip=20,
    track=12,
    plain=20,
    loop=22,
    loop_gap=4,
)


def svg(picture: Picture, *, theme: Theme = "auto") -> str:
    """The picture as an SVG document; `auto` follows the reader's colour scheme."""
    drawn = layout(picture)
    width, height = drawn.width + 2 * MARGIN, drawn.height + 2 * MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="detent-graph {scope(theme)}" role="img" '
        f'width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
    )
    parts = [
        head,
        f"<title>{escape(picture.title or picture.name)}</title>",
        f"<desc>{escape(describe(picture))}</desc>",
        f"<style>{style(theme)}</style>",
        f'<rect class="paper" width="{width}" height="{height}" rx="12"/>',
        f'<g transform="translate({MARGIN} {MARGIN})">',
        *(draw_halo(node, rect) for node, rect in zip(picture.nodes, drawn.boxes, strict=True) if node.is_current),
        *_edges(picture.edges, drawn),
        *(draw_node(node, rect) for node, rect in zip(picture.nodes, drawn.boxes, strict=True)),
        "</g></svg>\n",
    ]
    return "\n".join(parts)


def layout(picture: Picture) -> Layout:
    """Where everything goes, in pixels from the inner corner of the margin."""
    shapes = [_shape(node) for node in picture.nodes]
    wires = wire(picture, [label_size(edge.labels) for edge in picture.edges])
    return lay_out(shapes, wires, METRIC)


def wire(picture: Picture, labels: list[tuple[int, int]]) -> list[Wire]:
    """The edges as wires; errors weigh less, and equal ones may share a way."""
    number = {node.name: at for at, node in enumerate(picture.nodes)}
    wires = []
    for edge, (width, height) in zip(picture.edges, labels, strict=True):
        weight = 1 if edge.kind == "error" else 2
        bundle = "\n".join([edge.kind, *(f"{label.kind} {label.text}" for label in edge.labels)])
        wires.append(Wire(number[edge.source], number[edge.target], width, height, weight, bundle))
    return wires


def describe(picture: Picture) -> str:
    """The picture in words, for those who do not see it."""
    begin = next((node.text for node in picture.nodes if node.is_initial), "")
    said = [f"State machine {picture.name}: {len(picture.nodes)} states, begins in {begin}."]
    if picture.current is not None:
        said.append(f"The run is {picture.status} in {picture.current.text}.")
    for edge in picture.edges:
        why = " or ".join(label.text for label in edge.labels)
        said.append(f"{edge.source} to {edge.target}{f' on {why}' if why else ''}.")
    return " ".join(said)


def _shape(node: Node) -> Shape:
    width, height = size(node)
    return Shape(width // 2, height // 2, HEAD if node.is_initial else 0)


def _edges(edges: tuple[Edge, ...], drawn: Layout) -> list[str]:
    """Lines first, those of the run above the others, then the labels; edges that share a way are one line."""
    bundles: dict[tuple[bool, int], list[int]] = {}
    for at, (edge, way) in enumerate(zip(edges, drawn.routes, strict=True)):
        bundles.setdefault((edge.is_visited, way.net if way.net >= 0 else -1 - at), []).append(at)
    lines = []
    labels: dict[Rect, str] = {}
    for _, members in sorted(bundles.items(), key=lambda item: item[0][0]):
        together = [edges[at] for at in members]
        lines.append(draw_edges(together, [drawn.routes[at].points for at in members]))
        rect = drawn.routes[members[0]].label
        if rect is not None:
            labels[rect] = draw_label(together[0].labels, rect)  # the run's own label comes last and stays
    return [*lines, *labels.values()]
