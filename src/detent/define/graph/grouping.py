"""Large pictures: states that belong together, and the same picture with each group of them as one box.

A file says nothing of groups, so they are found: by the first word of the names (`ship_pack`, `shipLabel`), and where
names say nothing, by rows of states that lead only into each other. The same machine has the same groups, always.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import replace

from detent.define.graph.drawing import ANY, Edge, EdgeKind, Label, Node, Picture

MEMBERS_MIN = 3  # fewer are no group
ROW_MIN = 4  # of states without a name in common
ROW_LENGTH = 10  # longer rows are cut into pieces of about so many
SHARE_MAX = 0.6  # of all states: a box that holds nearly everything hides it
LABELS_MAX = 3  # on an edge of a group
MORE = "…"  # in the name of every group, and of no state: those are identifiers
_FIRST_WORD = re.compile(r"([^\W_]+)_|([^\W_]+?)(?:\d|(?<=[a-z0-9])(?=[A-Z]))")


def find_groups(picture: Picture) -> dict[str, tuple[str, ...]]:
    """The groups of a machine by name, each with its states in the order of the picture."""
    most = SHARE_MAX * len(picture.nodes)
    free = [node.name for node in picture.nodes if node.kind != "any" and not node.is_end]
    named = [(name, members) for name, members in _group_by_name(picture, free) if len(members) <= most]
    grouped = {state for _, members in named for state in members}
    rows = _group_by_row(picture, [state for state in free if state not in grouped])
    return {**{name + MORE: members for name, members in named}, **dict(rows)}


def collapse(picture: Picture, groups: dict[str, tuple[str, ...]], unfolded: Collection[str] = ()) -> Picture:
    """The picture with one box for each group that is not unfolded; what goes on inside of it is left out."""
    home = {state: name for name, members in groups.items() if name not in unfolded for state in members}
    if not home:
        return picture
    held: dict[str, list[Node]] = {}
    for node in picture.nodes:
        held.setdefault(home.get(node.name, node.name), []).append(node)
    nodes = tuple(_fold_nodes(name, inside) if name in groups else inside[0] for name, inside in held.items())
    pairs: dict[tuple[str, str], list[Edge]] = {}
    for edge in picture.edges:
        source, target = home.get(edge.source, edge.source), home.get(edge.target, edge.target)
        if source != target or source not in groups:
            pairs.setdefault((source, target), []).append(edge)
    edges = tuple(_fold_edges(source, target, inside) for (source, target), inside in pairs.items())
    return replace(picture, nodes=nodes, edges=edges)


def _fold_nodes(name: str, inside: list[Node]) -> Node:
    marks = tuple(dict.fromkeys(mark for node in inside for mark in node.marks))
    return Node(
        name,
        "group",
        details=(f"{len(inside)} states",),
        marks=marks,
        is_initial=any(node.is_initial for node in inside),
        is_visited=any(node.is_visited for node in inside),
        is_current=any(node.is_current for node in inside),
        members=tuple(node.name for node in inside),
    )


def _fold_edges(source: str, target: str, inside: list[Edge]) -> Edge:
    if len(inside) == 1:
        return replace(inside[0], source=source, target=target)
    labels: dict[tuple[str, EdgeKind], Label] = {}
    for label in (label for edge in inside for label in edge.labels):
        known = labels.get((label.text, label.kind))
        labels[label.text, label.kind] = known if known is not None and known.is_visited else label
    shown = list(labels.values())
    if len(shown) > LABELS_MAX:
        rest = shown[LABELS_MAX - 1 :]
        kind: EdgeKind = "error" if all(label.kind == "error" for label in rest) else "settled"
        shown = [*shown[: LABELS_MAX - 1], Label(f"+{len(rest)} more", kind, any(label.is_visited for label in rest))]
    kinds = {edge.kind for edge in inside}
    whole: EdgeKind = inside[0].kind if len(kinds) == 1 else "signal" if "signal" in kinds else "settled"
    return Edge(source, target, whole, tuple(shown), sum(edge.visits for edge in inside))


def _group_by_name(picture: Picture, states: list[str]) -> Iterable[tuple[str, tuple[str, ...]]]:
    """States whose names begin alike and that lead into each other."""
    words: dict[str, list[str]] = {}
    for state in states:
        found = _FIRST_WORD.match(state)
        word = (found[1] or found[2]) if found else state  # `ship` belongs to what begins with it
        words.setdefault(word, []).append(state)
    near = _list_neighbours(picture)
    for word, members in words.items():
        parts = [part for part in _split_apart(members, near) if len(part) >= MEMBERS_MIN]
        for number, part in enumerate(parts, 1):
            yield (word if len(parts) == 1 else f"{word} {number}"), part


def _list_neighbours(picture: Picture) -> dict[str, set[str]]:
    near: dict[str, set[str]] = {}
    for edge in picture.edges:
        near.setdefault(edge.source, set()).add(edge.target)
        near.setdefault(edge.target, set()).add(edge.source)
    return near


def _split_apart(members: list[str], near: dict[str, set[str]]) -> list[tuple[str, ...]]:
    """The members in parts that are connected among themselves, each in the order given."""
    left, parts = set(members), []
    for first in members:
        if first not in left:
            continue
        part, rim = {first}, [first]
        left.discard(first)
        while rim:
            fresh = near.get(rim.pop(), set()) & left
            left -= fresh
            part |= fresh
            rim += fresh
        parts.append(tuple(one for one in members if one in part))
    return parts


def _group_by_row(picture: Picture, states: list[str]) -> Iterable[tuple[str, tuple[str, ...]]]:
    """States in a row, each with one way in and one way out; ways that an error takes do not count."""
    free = set(states)
    onward: dict[str, set[str]] = {}
    back: dict[str, set[str]] = {}
    for edge in picture.edges:
        if edge.kind != "error" and not edge.is_loop and edge.source != ANY:
            onward.setdefault(edge.source, set()).add(edge.target)
            back.setdefault(edge.target, set()).add(edge.source)

    def follow(name: str) -> str:
        (after,) = onward[name] if len(onward.get(name, ())) == 1 else ("",)
        return after if after in free and len(back[after]) == 1 else ""

    inner = {follow(state) for state in states}
    for first in states:
        row = [first]
        while first not in inner and (after := follow(row[-1])):
            row.append(after)
        pieces = max(1, round(len(row) / ROW_LENGTH))
        for number in range(pieces if len(row) >= ROW_MIN else 0):
            piece = row[number * len(row) // pieces : (number + 1) * len(row) // pieces]
            yield f"{piece[0]}{MORE}{piece[-1]}", tuple(piece)
