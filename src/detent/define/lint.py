"""What is allowed in a workflow and probably not meant: ways that are never taken, names nobody knows or reads."""

from collections.abc import Iterator

from detent.core.compiled_machine import INSTANT
from detent.core.expression import names
from detent.core.machine import Action, Transition
from detent.core.status import Status
from detent.define.compile_context import Page
from detent.define.document import Route
from detent.define.grammar import FIELDS, ROOTS
from detent.define.machine_builder import ENDS, MachinePlan
from detent.define.problem import cut
from detent.define.transition import inner

TRUE = ("true", "True", "1")
FOR_ALL = 'write `condition: "{{ true }}"` for success and failure, or `on: error` for failures alone'
FAILURE = frozenset({"error", "result", "attempt"})  # what a condition reads that looks at how the work went

Way = tuple[Transition, Route]


def lint(plan: MachinePlan) -> None:
    """Warn of what one table says in vain."""
    ways: dict[str, list[Way]] = {}
    for row, path in sorted(zip(plan.rows, plan.row_paths, strict=True), key=lambda way: -way[0].priority):
        ways.setdefault(row.source, []).append((row, path))
    everywhere = ways.get("*", [])
    for state in plan.busy:
        _ways(plan, state, ways.get(state, []), everywhere)
    _reach(plan)


def is_open(row: Transition) -> bool:
    """Whether it is taken whatever has become of the work."""
    return not row.only_failed and (inner(row.when) in TRUE if row.when else row.even_failed)


def _is_for_success(row: Transition) -> bool:
    return not (row.when or row.even_failed)


def can_fail(plan: MachinePlan, state: str) -> bool:
    """Whether the work of a state may fail or answer no."""
    return state in plan.timeouts_s or any(map(_may_fail, plan.work.get(state, ())))


def _may_fail(action: Action) -> bool:
    if action.branches:
        return any(_may_fail(inner) for branch in action.branches for inner in branch.actions)
    return bool(action.wait.timeout_s) if action.wait is not None else action.effect not in INSTANT


def _ways(plan: MachinePlan, state: str, rows: list[Way], everywhere: list[Way]) -> None:
    """Ways behind one that is always taken, and states that may find no way at all."""
    for event in dict.fromkeys(row.on for row, _ in rows if row.on):
        _warn_hidden(plan, state, [(row, path) for row, path in rows if row.on == event])
    plain = [(row, path) for row, path in rows if not row.error and not row.on]
    _warn_hidden_after_work(plan, state, plain)
    _warn_passed_over(plan, state, plain, [row for row, _ in [*rows, *everywhere] if row.error])
    onward = [row for row, _ in plain if not row.only_failed]
    has_default = any(is_open(row) or _is_for_success(row) for row in onward)
    is_complete = _is_complete(onward) or (len(onward) < len(plain) and _asks_for_success(plan, state, onward))
    if onward and not has_default and not is_complete and plan.types[state] != "wait":
        message = f"`{state}` has no default branch: the run fails with `no_transition` if no condition holds"
        hint = 'add a last transition with `condition: "{{ true }}"`'
        plan.page.warn(plan.path_of(state), message, hint, at_key=True)
    if not any(not row.error for row, _ in [*rows, *everywhere]):
        message = f"nothing leads on from `{state}`: the run fails there with `no_transition`"
        plan.page.warn(plan.path_of(state), message, "add a transition, or make it `type: final`", at_key=True)
    if state in plan.asking and not any(row.error == "approval_rejected" for row, _ in [*rows, *everywhere]):
        _after_a_no(plan, state, plain)


def _after_a_no(plan: MachinePlan, state: str, rows: list[Way]) -> None:
    ends = plan.ends
    onward = [path for row, path in rows if is_open(row) and ends.get(row.target) is not Status.FAILED]
    if onward:
        message = f"`{state}` asks first, and the condition of this transition always holds: it is taken after a no too"
        plan.page.warn(onward[0], message, "give it a condition, or add a handler for `approval_rejected`")


def _warn_hidden(plan: MachinePlan, state: str, rows: list[Way]) -> None:
    """Ways on a signal behind one that every such signal takes."""
    first: Route | None = None
    for row, path in rows:
        if first is not None:
            _never(plan, state, row, path, first)
        elif not row.when or inner(row.when) in TRUE:
            first = path


def _never(plan: MachinePlan, state: str, row: Transition, path: Route, before: Route) -> None:
    line = plan.page.places[before][0]
    message = f"`{state}` → `{row.target}` is never taken: the transition in line {line} has no condition"
    plan.page.warn(path, message, "put it before that one, or leave it out")


def _warn_hidden_after_work(plan: MachinePlan, state: str, rows: list[Way]) -> None:
    """Ways behind one that takes whatever they could take: every success, every failure, or both."""
    has_failures = can_fail(plan, state)
    success: Route | None = None
    failure: Route | None = None
    for row, path in rows:
        is_late = success is not None and not row.only_failed
        if is_late and (failure is not None or not has_failures or _is_for_success(row)):
            _never(plan, state, row, path, success or path)
        elif row.only_failed and failure is not None:
            _never(plan, state, row, path, failure)
        elif is_late and not (is_open(row) or _reads(row) & FAILURE):
            line = plan.page.places[success or path][0]
            message = f"`{state}` → `{row.target}` is taken only after a failure: line {line} takes every success"
            plan.page.warn(path, message, "put it before that one, or ask for the failure")
        if is_open(row):
            success, failure = success or path, failure or path
        elif row.only_failed and not row.when:
            failure = failure or path
        elif _is_for_success(row):
            success = success or path


def _reads(row: Transition) -> set[str]:
    """The roots that a condition reads."""
    return {name.partition(".")[0] for name in names(row.when)}


def _warn_passed_over(plan: MachinePlan, state: str, rows: list[Way], errors: list[Transition]) -> None:
    """A last way without a condition is no default branch any more once the work can fail."""
    is_caught = any(row.error in ("*", "tool_failure") for row in errors)
    takes_failures = any(is_open(row) or row.only_failed for row, _ in rows) or is_caught
    for number, (row, path) in enumerate(rows):
        if not _is_for_success(row):
            continue
        if row.is_retry:
            message = f"this enters `{state}` again when its work succeeded, and not after a failure"
            plan.page.warn(path, message, "say `on: error`, or give it a condition")
        before = [one for one, _ in rows[:number] if one.when]
        if before and can_fail(plan, state) and not takes_failures and not _is_complete(before):
            message = f"without a condition `{state}` → `{row.target}` is taken only when the work succeeded"
            plan.page.warn(path, message, f"a failure ends the run here; {FOR_ALL}")
        return


def _is_complete(rows: list[Transition]) -> bool:
    """Whether one of the conditions is the plain opposite of another."""
    said = {inner(row.when) for row in rows}
    return any(f"not {one}" in said or f"not ({one})" in said for one in said)


def _asks_for_success(plan: MachinePlan, state: str, rows: list[Transition]) -> bool:
    """Whether one of the conditions says in so many words that an action of the state succeeded."""
    wanted = {f"result.{action.id}.success" for action in plan.work.get(state, ())}
    return any(inner(row.when) in wanted for row in rows)


def _reach(plan: MachinePlan) -> None:
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


def lint_names(page: Page, plans: list[MachinePlan]) -> None:
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
                hint = page.suggest(first, actions)
                page.warn(path, f"there is no action `{cut(first)}` whose {root} could be read", hint)
            elif root == "variables" and first and first not in variables and not is_fragment:
                hint = page.suggest(first, variables) or "declare it under `variables`"
                page.warn(path, f"there is no variable `{cut(first)}`", hint)
            elif first and first not in FIELDS.get(root, (first,)):
                hint = page.suggest(first, FIELDS[root]) or f"known: {', '.join(FIELDS[root])}"
                page.warn(path, f"`{root}` has no `{cut(first)}`, so this is null", hint)
    _unread(page, plans)


def _unknown(page: Page, path: Route, root: str) -> None:
    if root in page.variables:
        hint = f"did you mean `variables.{root}`?"
    else:
        hint = page.suggest(root, ROOTS) or f"known: {', '.join(ROOTS)}"
    page.warn(path, f"nothing is called `{cut(root)}`, so this is null", hint)


def _unread(page: Page, plans: list[MachinePlan]) -> None:
    reads = {read for _, one in page.readings for read in one}
    for plan in plans:
        for name, path in _list_declared(plan):
            root = "variables" if path[-2:] == ("variables", name) and len(path) == len(plan.path) + 2 else "state"
            whole = f"{root}.{name}"
            if root not in reads and not any(read == whole or read.startswith(whole + ".") for read in reads):
                page.warn(path, f"the variable `{cut(name)}` is never read", at_key=True)


def _list_declared(plan: MachinePlan) -> Iterator[tuple[str, Route]]:
    for name in plan.declared:
        yield name, (*plan.path, "variables", name)
    for state, values in plan.local.items():
        for name in values:
            yield name, (*plan.path_of(state), "variables", name)
