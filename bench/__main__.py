"""`./run bench [GROUP] [--json]`: measure, print a table or a list, exit 1 if a bar is missed.

A group is one measure (`steps`) or all measures of one module (`engine`); after a module, its measures (`postgres
scaling`) stand for themselves. Size is no matter of time, and PostgreSQL takes minutes: only when asked for.
"""

import json
import sys

from bench import (
    analysis,
    assistant,
    coding,
    engine,
    gateway,
    git,
    kernel,
    load,
    notebook,
    postgres,
    sandbox,
    server,
    size,
    steps,
    walk,
    workflows,
)

PARTS = (
    engine,
    git,
    kernel,
    notebook,
    sandbox,
    load,
    server,
    walk,
    workflows,
    steps,
    coding,
    assistant,
    analysis,
    gateway,
    postgres,
    size,
)
ASKED_FOR = {*postgres.GROUPS, *size.GROUPS}
GROUPS = {name: measure for part in PARTS for name, measure in part.GROUPS.items()}
MODULES = {part.__name__.removeprefix("bench."): tuple(part.GROUPS) for part in PARTS}


def main(argv: list[str]) -> int:
    """Run the groups asked for."""
    asked = [word for word in argv if not word.startswith("-")]
    unknown = [word for word in asked if word not in GROUPS and word not in MODULES]
    if unknown:
        known = dict.fromkeys([*MODULES, *GROUPS])
        print(f"there is no group `{unknown[0]}`; groups: {', '.join(known)}", file=sys.stderr)
        return 2
    named = {word for word in asked if word in GROUPS and word not in MODULES}
    wanted = {
        group for word in asked for group in named.intersection(MODULES.get(word, ())) or MODULES.get(word, (word,))
    }
    figures = []
    for group, measure in GROUPS.items():
        if group in wanted or (not wanted and group not in ASKED_FOR):
            for figure in measure():
                figures.append(figure)
                if "--json" not in argv:
                    mark = "ok  " if figure.ok else "MISS"
                    measured = f"{figure.group:<11} {figure.name:<20} {figure.value:>12} {figure.unit:<9}"
                    judged = f"floor {figure.floor:>10}  ratio {figure.ratio:>6}  bar {figure.bar}"
                    print(f"{mark} {measured} {judged}", flush=True)
    if "--json" in argv:
        print(json.dumps([figure._asdict() for figure in figures], ensure_ascii=False))
    return 0 if all(figure.ok for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
