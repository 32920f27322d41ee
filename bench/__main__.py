"""`./run bench [GROUP] [--json]`: measure, print a table or a list, exit 1 if a bar is missed.

A group is one measure (`steps`) or all measures of one module (`engine`); after a module, its measures (`postgres
scaling`) stand for themselves. Size is no matter of time, and PostgreSQL and the survey of data sets take minutes: only
when asked for.
"""

import json
import sys
import traceback

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
    survey,
    walk,
    workflows,
)
from bench.figure import Figure

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
    survey,
    size,
)
ASKED_FOR = {*postgres.GROUPS, *survey.GROUPS, *size.GROUPS}
GROUPS = {name: measure for part in PARTS for name, measure in part.GROUPS.items()}
MODULES = {part.__name__.removeprefix("bench."): tuple(part.GROUPS) for part in PARTS}


OPTIONS = {"--json", "-h", "--help"}


def main(argv: list[str]) -> int:
    """Run the groups asked for."""
    known = dict.fromkeys([*MODULES, *GROUPS])
    unknown = [word for word in argv if word not in known and word not in OPTIONS]
    if unknown:
        print(f"there is no group `{unknown[0]}`; groups: {', '.join(known)}", file=sys.stderr)
        return 2
    if {"-h", "--help"} & {*argv}:
        print(f"{__doc__}\nGroups: {', '.join(known)}")
        return 0
    wanted = _choose([word for word in argv if word in known])
    figures: list[Figure] = []
    is_whole = True
    for group in wanted:
        try:
            for figure in GROUPS[group]():
                figures.append(figure)
                if "--json" not in argv:
                    _show(figure)
        except Exception:  # noqa: BLE001  # the others are still measured
            is_whole = False
            print(f"`{group}` could not be measured:\n{traceback.format_exc()}", file=sys.stderr, flush=True)
    if "--json" in argv:
        print(json.dumps([figure._asdict() for figure in figures], ensure_ascii=False))
    return 0 if is_whole and all(figure.ok for figure in figures) else 1


def _choose(asked: list[str]) -> list[str]:
    named = {word for word in asked if word in GROUPS and word not in MODULES}
    wanted = {
        group for word in asked for group in named.intersection(MODULES.get(word, ())) or MODULES.get(word, (word,))
    }
    return [group for group in GROUPS if group in wanted or (not wanted and group not in ASKED_FOR)]


def _show(figure: Figure) -> None:
    mark = "ok  " if figure.ok else "MISS"
    measured = f"{figure.group:<11} {figure.name:<20} {figure.value:>12} {figure.unit:<9}"
    judged = f"floor {figure.floor:>10}  ratio {figure.ratio:>6}  bar {figure.bar}"
    print(f"{mark} {measured} {judged}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
