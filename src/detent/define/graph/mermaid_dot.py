"""The picture in the notations of others: Mermaid and Graphviz.

States get names of our own making; what people wrote appears only inside quotes or as escaped text, so that no name
can become syntax.
"""

import string

from detent.define.graph.drawing import ENDS, Edge, Node, Picture
from detent.define.graph.text_width import clean

_PLAIN = frozenset(string.ascii_letters + string.digits + " _.-!*<>=+,()'/|?")
_MERMAID = _PLAIN - frozenset("<>")
_COLOURS = {
    "ask": ("#f6f3ff", "#7c3aed"),
    "wait": ("#ecfbff", "#0e7490"),
    "parallel": ("#f1f5f9", "#4a5a70"),
    "completed": ("#effcf3", "#15803d"),
    "failed": ("#fef3f2", "#b91c1c"),
    "rejected": ("#fff9eb", "#b45309"),
    "cancelled": ("#f5f5f4", "#57534e"),
    "visited": ("#eff5ff", "#1d4ed8"),
    "current": ("#dbe8ff", "#1d4ed8"),
}
_MARKS = {"ask": "asks", "wait": "waits", "parallel": "parallel"}


def mermaid(picture: Picture) -> str:
    """The picture as a Mermaid state diagram."""
    ids = _ids(picture)
    lines = ["stateDiagram-v2", "    direction TB"]
    for node in picture.nodes:
        lines += _mermaid_state(node, ids[node.name])
    for node in picture.nodes:
        if node.is_initial:
            lines.append(f"    [*] --> {ids[node.name]}")
    for edge in picture.edges:
        why = " | ".join(_mermaid_text(label.text) for label in edge.labels)
        lines.append(f"    {ids[edge.source]} --> {ids[edge.target]}{f' : {why}' if why else ''}")
    lines += [f"    {ids[node.name]} --> [*]" for node in picture.nodes if node.is_end]
    styles: dict[str, list[str]] = {}
    for node in picture.nodes:
        kind = _style(node)
        if kind in _COLOURS:
            styles.setdefault(kind, []).append(ids[node.name])
    for kind, members in styles.items():
        fill, stroke = _COLOURS[kind]
        width = ",stroke-width:4px" if kind == "current" else ""
        lines.append(f"    classDef {kind}State fill:{fill},stroke:{stroke},color:#111827{width}")
        lines.append(f"    class {','.join(members)} {kind}State")
    return "\n".join(lines) + "\n"


def dot(picture: Picture) -> str:
    """The picture as a Graphviz digraph."""
    ids = _ids(picture)
    lines = [
        f"digraph {_quote(picture.name)} {{",
        '    graph [rankdir=TB, fontname="Helvetica"]',
        '    node [shape=box, style="rounded,filled", fillcolor="#f8fafc", color="#7b8794", fontname="Helvetica"]',
        '    edge [color="#6b7280", fontname="Helvetica", fontsize=11]',
    ]
    for node in picture.nodes:
        lines.append(f"    {ids[node.name]} [{_attributes(_dot_node(node))}]")
    for node in picture.nodes:
        if node.is_initial:
            lines.append('    begin [shape=circle, style=filled, fillcolor="#111827", label="", width=0.15]')
            lines.append(f"    begin -> {ids[node.name]}")
    for edge in picture.edges:
        given = _attributes(_dot_edge(edge))
        lines.append(f"    {ids[edge.source]} -> {ids[edge.target]}{f' [{given}]' if given else ''}")
    return "\n".join([*lines, "}"]) + "\n"


def _ids(picture: Picture) -> dict[str, str]:
    return {node.name: f"s{at}" for at, node in enumerate(picture.nodes)}


def _style(node: Node) -> str:
    if node.is_end or not (node.is_visited or node.is_current):
        return node.kind
    return "current" if node.is_current else "visited"


def _title(node: Node) -> str:
    """The name, and what the reader cannot see from the shape."""
    marks = [_MARKS[mark] for mark in node.marks if mark in _MARKS]
    marks += [node.kind] if node.is_end and node.kind != node.name else []
    return f"{node.text} ({', '.join(marks)})" if marks else node.text


def _mermaid_state(node: Node, name: str) -> list[str]:
    title = _mermaid_text(_title(node))
    if not node.lanes:
        return [f'    state "{title}" as {name}']
    lines = [f'    state "{title}" as {name} {{']
    for at, lane in enumerate(node.lanes):
        lines += ["        --"] if at else []
        lines.append(f'        state "{_mermaid_text(lane)}" as {name}_{at}')
    return [*lines, "    }"]


def _mermaid_text(text: str) -> str:
    """Letters as they are, everything that may mean something to Mermaid or to HTML as a character code."""
    return "".join(ch if ch in _MERMAID or (ch > "\x7f" and ch.isalnum()) else f"#{ord(ch)};" for ch in clean(text))


def _dot_node(node: Node) -> dict[str, str]:
    lines = [_title(node), *node.details, *(f"| {lane}" for lane in node.lanes)]
    given = {"label": "\n".join(lines)}
    kind = _style(node)
    if kind in _COLOURS:
        given["fillcolor"], given["color"] = _COLOURS[kind]
    if node.kind in ENDS:
        given["peripheries"] = "2"
    if node.kind == "any":
        given["style"] = "rounded,dashed"
    if node.is_current:
        given["penwidth"] = "3"
    return given


def _dot_edge(edge: Edge) -> dict[str, str]:
    given = {"label": "\n".join(label.text for label in edge.labels)} if edge.labels else {}
    if edge.kind == "error":
        given |= {"style": "dashed", "color": "#b91c1c", "fontcolor": "#b91c1c"}
    if edge.is_visited:
        given |= {"penwidth": "2.5", "color": "#1d4ed8"}
    return given


def _attributes(given: dict[str, str]) -> str:
    return ", ".join(f"{name}={_quote(value)}" for name, value in given.items())


def _quote(text: str) -> str:
    """A Graphviz string: only quotes and backslashes have a meaning in it, besides the ends of our own lines."""
    lines = (clean(line).replace("&", "&amp;").replace("\\", "\\\\").replace('"', '\\"') for line in text.split("\n"))
    return '"' + "\\n".join(lines) + '"'
