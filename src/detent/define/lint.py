"""What is allowed in a workflow and probably not meant: ways that are never taken, names nobody knows or reads."""

from collections.abc import Iterator

from detent.core.machine import Transition
from detent.core.status import Status
from detent.define.document import Route
from detent.define.grammar import ROOTS
from detent.define.page import Page
from detent.define.plan import ENDS, Plan
from detent.define.problem import cut
from detent.define.transition import inner

TRUE = ("true", "True", "1")


Way = tuple[Transition, Route]


def lint(plan: Plan) -> None:
    """Warn of what one table says in vain."""
    ways: dict[str, list[Way]] = {}
    for row, path in sorted(zip(plan.rows, plan.row_paths, strict=True), key=lambda way: -way[0].priority):
        ways.setdefault(row.source, []).append((row, path))
    everywhere = ways.get("*", [])
    for state in plan.busy:
        _ways(plan, state, ways.get(state, []), everywhere)
    _reach(plan)


def _is_open(row: Transition) -> bool:
    return not row.when or inner(row.when) in TRUE


def _ways(plan: Plan, state: str, rows: list[Way], everywhere: list[Way]) -> None:
    """Ways behind one that is always taken, and states that may find no way at all."""
    for event in dict.fromkeys(row.on for row, _ in rows if not row.error):
        _hidden(plan, state, [(row, path) for row, path in rows if row.on == event and not row.error])
    plain = [(row, path) for row, path in rows if not row.error and not row.on]
    opens = [path for row, path in plain if _is_open(row)]
    if plain and not opens and not _is_complete([row for row, _ in plain]) and plan.types[state] != "wait":
        message = f"`{state}` has no default branch: the run fails with `no_transition` if no condition holds"
        plan.page.warn(plan.path_of(state), message, "add a last transition without a condition", at_key=True)
    if not any(not row.error for row, _ in [*rows, *everywhere]):
        message = f"nothing leads on from `{state}`: the run fails there with `no_transition`"
        plan.page.warn(plan.path_of(state), message, "add a transition, or make it `type: final`", at_key=True)
    if state not in plan.asking or any(row.error == "approval_rejected" for row, _ in [*rows, *everywhere]):
        return
    ends = plan.ends
    onward = [path for row, path in plain if _is_open(row) and ends.get(row.target) is not Status.FAILED]
    if onward:
        message = f"`{state}` asks first, and this transition has no condition: it may be taken after a no as well"
        plan.page.warn(onward[0], message, "give it a condition, or add a handler for `approval_rejected`")


def _hidden(plan: Plan, state: str, rows: list[Way]) -> None:
    first: Route | None = None
    for row, path in rows:
        if first is not None:
            line = plan.page.places[first][0]
            message = f"`{state}` → `{row.target}` is never taken: the transition in line {line} has no condition"
            plan.page.warn(path, message, "put it before that one, or leave it out")
        elif _is_open(row):
            first = path


def _is_complete(rows: list[Transition]) -> bool:
    """Whether one of the conditions is the plain opposite of another."""
    said = {inner(row.when) for row in rows}
    return any(f"not {one}" in said or f"not ({one})" in said for one in said)


def _reach(plan: Plan) -> None:
    reached = {plan.initial}
    pending = [plan.initial]
    onward: dict[str, list[str]] = {}
    for row in plan.rows:
        onward.setdefault(row.source, []).append(row.target)
    while pending:
        state = pending.pop()
        more = [*onward.get(state, ()), *(onward.get("*", ()) if plan.types.get(state) not in ENDS else ())]
        for target in more:
            if target not in reached:
                reached.add(target)
                pending.append(target)
    for state in plan.types:
        if state not in reached:
            plan.page.warn(plan.path_of(state), f"the state `{state}` can never be reached", at_key=True)


def lint_names(page: Page, plans: list[Plan]) -> None:
    """Warn of names that expressions read and nobody knows, and of variables nobody reads."""
    actions = {id for plan in plans for id in plan.actions}
    variables = {name for plan in plans for name in (*plan.variables, *plan.set_variables)}
    is_fragment = any(plan.is_fragment for plan in plans)
    for path, reads in page.readings:
        for read in sorted(reads):
            root, _, rest = read.partition(".")
            first = rest.partition(".")[0]
            if root not in ROOTS:
                _unknown(page, path, root)
            elif root in ("result", "approval") and first and first not in actions and not is_fragment:
                hint = page.meant(first, actions)
                page.warn(path, f"there is no action `{cut(first)}` whose {root} could be read", hint)
            elif root == "variables" and first and first not in variables and not is_fragment:
                hint = page.meant(first, variables) or "declare it under `variables`"
                page.warn(path, f"there is no variable `{cut(first)}`", hint)
    _unread(page, plans)


def _unknown(page: Page, path: Route, root: str) -> None:
    if root in page.variables:
        hint = f"did you mean `variables.{root}`?"
    else:
        hint = page.meant(root, ROOTS) or f"known: {', '.join(ROOTS)}"
    page.warn(path, f"nothing is called `{cut(root)}`, so this is null", hint)


def _unread(page: Page, plans: list[Plan]) -> None:
    reads = {read for _, one in page.readings for read in one}
    for plan in plans:
        for name, path in _declared(plan):
            root = "variables" if path[-2:] == ("variables", name) and len(path) == len(plan.path) + 2 else "state"
            whole = f"{root}.{name}"
            if root not in reads and not any(read == whole or read.startswith(whole + ".") for read in reads):
                page.warn(path, f"the variable `{cut(name)}` is never read", at_key=True)


def _declared(plan: Plan) -> Iterator[tuple[str, Route]]:
    for name in plan.declared:
        yield name, (*plan.path, "variables", name)
    for state, values in plan.local.items():
        for name in values:
            yield name, (*plan.path_of(state), "variables", name)
