"""Workflow files that tests of the server, of the page and the tour through it share."""

from collections.abc import Sequence


def write_large(parts: Sequence[str], each: int, back: Sequence[tuple[int, int]]) -> str:
    """A workflow of many states in a row, in groups that their names tell, and with ways back between some of them."""
    names = [f"{part}{number}" for part in parts for number in range(each)]
    states = [f"  {name}: {{type: {'initial' if at == 0 else 'normal'}}}" for at, name in enumerate(names)]
    rows = [f"  - {{from: {one}, to: {other}}}" for one, other in zip(names, [*names[1:], "done"], strict=True)]
    rows += [f"  - {{from: {names[one]}, to: {names[other]}, on: BACK}}" for one, other in back]
    head = ["name: large", "description: Two hundred states", "states:"]
    return "\n".join([*head, *states, "  done: {type: final}", "transitions:", *rows, ""])


def write_loop(*actions: str, **limits: int) -> str:
    """A workflow that does something for each of its items."""
    more = "".join(f"        {name}: {count}\n" for name, count in limits.items())
    each = "".join(f"          - {one}\n" for one in actions)
    return f"""\
name: packing
description: Pack every box
input: {{items: array}}
states:
  pack:
    type: initial
    actions:
      - id: boxes
        for_each: "{{{{ context.items }}}}"
{more}        actions:
{each}  done: {{type: final}}
transitions: [{{from: pack, to: done}}]
"""


SIGN = '{id: sign, tool: ask, approval: {question: "Pack {{ branch.item }}?"}}'
