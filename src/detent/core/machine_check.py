"""Whether a machine is sound: everything that can be refused when it is built, and not at three in the morning.

Every refusal says where, what is wrong and, where it can, what was meant.
"""

import difflib
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from detent.core.value import canonical
from detent.errors import DefinitionError, Part

if TYPE_CHECKING:
    from detent.core.machine import Action, Machine, Transition
    from detent.core.question import Question

BRANCH_DEPTH_MAX = 8
# What the engine does by itself; everything else is an effect of the host.
OWN_EFFECTS = frozenset({"set", "log", "choose", "keep", "wait", "branches", "ask"})
_EFFECT_NAME = re.compile(r"[\w.:/@+-]{1,200}\Z")
_NEEDS = {"set": "name", "log": "message", "choose": "condition", "keep": "value"}  # in their input
_ERROR_NAME = re.compile(r"\*|[a-z_]\w*(\.\w+)*")


def check(machine: "Machine") -> None:
    """Refuse a machine that cannot be run as it is written."""
    where = f"machine `{machine.name}`"
    _identifier(machine.name, "name", where)
    _identifier(machine.initial, "the initial state", where)
    sources = {row.source for row in machine.transitions}
    known = (sources | machine.work.keys() | machine.ends.keys()) - {"*"}
    if machine.initial not in known:
        raise DefinitionError(f"the initial state `{machine.initial}` appears nowhere else", where)
    for state in sorted(known):
        _identifier(state, "state", where)
    for row in machine.transitions:
        _check_transition(machine, row, known, where)
    for state in (machine.on_failure, machine.at_end):
        if state and (state not in machine.work or state in machine.ends or state in sources):
            raise DefinitionError(f"`{state}` comes last: it has work, no transitions, and is not an end", where)
    for state, actions in machine.work.items():
        try:
            if state in machine.ends and any(action.effect not in ("set", "log") for action in actions):
                raise DefinitionError("an end may only `set` and `log`")
            _check_actions(actions, 0)
        except DefinitionError as error:
            raise _inside(f"{where}, state `{state}`", error, state=state) from None
    _check_values(machine, known, where)
    _check_idle_circles(machine, where)


def _inside(place: str, error: DefinitionError, **part: str) -> DefinitionError:
    """The same error, seen from further out: nobody need name the places where nothing is wrong."""
    where = f"{place}, {error.where}" if error.where else place
    return DefinitionError(error.problem, where, error.part._replace(**part))


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """ "; did you mean `x`?" for the closest known name, or nothing."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean `{close[0]}`?" if close else ""


def is_effect_name(name: str) -> bool:
    """Whether an effect of the host may be called this."""
    return name not in OWN_EFFECTS and _EFFECT_NAME.match(name) is not None


def _check_transition(machine: "Machine", row: "Transition", known: set[str], where: str) -> None:
    if row.target not in known:
        raise DefinitionError(
            f"`{row.source}` leads to `{row.target}`, which has no transition, no work and is not an end"
            f"{did_you_mean(row.target, known)}",
            where,
        )
    if not (row.on or row.error or row.then or row.only_failed or row.source in machine.ends):
        return
    try:
        _check_row(machine, row)
    except DefinitionError as error:
        place = f"{where}, `{row.source}` → `{row.target}`"
        raise _inside(place, error, state=row.source, target=row.target) from None


def _check_row(machine: "Machine", row: "Transition") -> None:
    if row.on:
        _identifier(row.on, "event")
    if row.on and row.error:
        raise DefinitionError("a row is for a signal or for an error, not for both")
    if row.only_failed and (row.on or row.error or not row.even_failed):
        raise DefinitionError("`only_failed` is for rows open to failures that name no signal and no error")
    if row.error and not _ERROR_NAME.fullmatch(row.error):
        raise DefinitionError(f"`{row.error}` is not an error type")
    if row.source in machine.ends and not row.on:
        raise DefinitionError("an end can be left only on a signal")
    if any(action.effect not in ("set", "log") for action in row.then):
        raise DefinitionError("on the way only `set` and `log` are possible")
    for action in row.then:
        _check_own(action)


def _check_values(machine: "Machine", known: set[str], where: str) -> None:
    for name in machine.keeps:
        _identifier(name, "kept signal", where)
    by_state: dict[str, Mapping[str, Any]] = {"local": machine.local, "timeouts_s": machine.timeouts_s}
    for what, values in by_state.items():
        for state in values:
            if state not in known:
                raise DefinitionError(f"`{what}` names the unknown state `{state}`{did_you_mean(state, known)}", where)
    _plain(machine.variables, "`variables`", where)
    _plain(machine.local, "`local`", where)
    _plain(machine.output, "`output`", where)
    limits = machine.limits
    numbers = {name: getattr(limits, name) for name in limits.__struct_fields__}
    _amounts({**numbers, **{f"timeouts_s of `{s}`": t for s, t in machine.timeouts_s.items()}}, where)


def _check_actions(actions: Iterable["Action"], depth: int) -> None:
    if depth > BRANCH_DEPTH_MAX:
        raise DefinitionError(f"branches are nested deeper than {BRANCH_DEPTH_MAX}")
    seen: set[str] = set()
    for action in actions:
        _identifier(action.id, "action id")
        if action.id in seen:
            raise DefinitionError(f"the action id `{action.id}` is used twice")
        seen.add(action.id)
        try:
            _check_action(action, depth)
        except DefinitionError as error:
            raise _inside(f"action `{action.id}`", error, action=action.id) from None


def _check_action(action: "Action", depth: int) -> None:
    if not action.effect or ("{{" not in action.effect and not _EFFECT_NAME.match(action.effect)):
        raise DefinitionError(f"{action.effect!r} is not the name of an effect")
    _plain(action.input, "`input`")
    if action.effect in OWN_EFFECTS or action.wait is not None:
        _check_own(action)
    _check_care(action)
    _check_branches(action, depth)


def _check_own(action: "Action") -> None:
    """What the engine's own actions must say."""
    needed = _NEEDS.get(action.effect, "")
    if needed and not (isinstance(action.input, dict) and needed in action.input):
        raise DefinitionError(f"`{action.effect}` needs an input with `{needed}`")
    if action.effect == "set":
        name = action.input["name"]
        if not isinstance(name, str) or ("{{" not in name and not is_variable(name)):
            raise DefinitionError(f"{name!r} is not the name of a variable")
    if action.effect == "ask" and action.ask is None:
        raise DefinitionError("an `ask` action needs its question in `ask`")
    if (action.effect == "wait") != (action.wait is not None):
        raise DefinitionError("an action has a wait exactly when its effect is `wait`")
    if action.wait is not None:
        wait = action.wait
        if not (wait.events or wait.duration_s or wait.timeout_s):
            raise DefinitionError("a wait needs `events`, a `duration_s` or a `timeout_s`")
        if wait.duration_s and (wait.events or wait.timeout_s):
            raise DefinitionError("a wait has a `duration_s`, or `events` with a `timeout_s`, not both")
        for awaited in wait.events:
            _identifier(awaited.event, "event")
        times = {"duration_s": wait.duration_s, "timeout_s": wait.timeout_s}
        _amounts({name: value for name, value in times.items() if not isinstance(value, str)})


def is_variable(name: str) -> bool:
    """Whether `set` can set this: identifiers joined by dots, none of them private."""
    return all(part.isidentifier() and not part.startswith("_") for part in name.split("."))


def _check_care(action: "Action") -> None:
    _amounts({"timeout_s": action.timeout_s, "at_once": action.at_once, "tolerate": action.tolerate})
    _amounts({"rate": action.rate, "per_s": action.per_s})
    if action.retry is not None:
        for retry in action.retry if isinstance(action.retry, tuple) else (action.retry,):
            fields = ("limit", "delay_s", "factor", "delay_s_max")
            _amounts({f"retry.{name}": getattr(retry, name) for name in fields})
    if action.ask is not None:
        _check_question(action.ask)


def _check_question(question: "Question") -> None:
    _amounts({"ask.expires_s": question.expires_s})
    _plain([question.schema, question.data], "`ask`")
    has_roles = any(name.startswith("role:") for name in question.approvers)  # who holds them is known when it is asked
    is_too_much = bool(question.approvers) and not has_roles and question.quorum > len(set(question.approvers))
    if question.quorum < 1 or is_too_much:
        raise DefinitionError(f"a quorum of {question.quorum} can never be reached")
    if question.reason not in ("approval", "form"):
        raise DefinitionError(f"a question asked first is an approval or a form, not `{question.reason}`")


def _check_branches(action: "Action", depth: int) -> None:
    if (action.effect == "branches") != bool(action.branches):
        raise DefinitionError("an action has branches exactly when its effect is `branches`")
    if action.each and len(action.branches) != 1:
        raise DefinitionError("`each` needs exactly one branch, which is done for every item")
    if not isinstance(action.join, str):
        is_too_many = not action.each and bool(action.branches) and action.join > len(action.branches)
        if action.join < 1 or is_too_many:
            raise DefinitionError(f"join {action.join} can never be reached")
    if not action.branches:
        return
    names = [branch.name for branch in action.branches]
    for name in names:
        _identifier(name, "branch")
        if names.count(name) > 1:
            raise DefinitionError(f"the branch `{name}` is there twice")
    for branch in action.branches:
        _check_actions(branch.actions, depth + 1)


def _check_idle_circles(machine: "Machine", where: str) -> None:
    """A circle of states that need no event, do no work and ask no condition would spin for ever."""
    onward = dict(_onward(machine))
    harmless: set[str] = set()
    for start in onward:
        trail: dict[str, None] = {}
        state = start
        while state in onward and state not in harmless:
            if state in trail:
                circle = [*list(trail)[list(trail).index(state) :], state]
                problem = f"{' → '.join(circle)} is a circle that needs no event and does no work"
                raise DefinitionError(problem, where, Part(circle[0], target=circle[1]))
            trail[state] = None
            state = onward[state]
        harmless.update(trail)


def _onward(machine: "Machine") -> Iterator[tuple[str, str]]:
    """Where each state that does nothing surely leads."""
    done: dict[str, list[Transition]] = {}
    for row in sorted(machine.transitions, key=lambda r: -r.priority):
        if not (row.on or row.error or row.only_failed):
            done.setdefault(row.source, []).append(row)
    for state in machine.states:
        if state in machine.ends or machine.work.get(state):
            continue
        ways = [*(done.get(state, ())), *done.get("*", ())]
        first = ways[0] if ways else None
        if first is not None and not (first.when or first.then):
            yield state, first.target


def _amounts(values: Mapping[str, Any], where: str = "") -> None:
    for name, value in values.items():
        if not isinstance(value, (int, float)) or not 0 <= value < math.inf:
            raise DefinitionError(f"`{name}` is {value!r}; it must be a number that is not negative", where)


def _plain(value: Any, what: str, where: str = "") -> None:
    """Refuse what would come back from JSON as something else."""
    try:
        same = _is_simple(value) or bool(msgspec.json.decode(canonical(value)) == value)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError):
        same = False
    if not same:
        raise DefinitionError(f"{what} holds something that is not a JSON value", where)


def _is_simple(value: Any) -> bool:
    """Whether a value is of those that surely come back, as most are; the rest is tried."""
    kind = type(value)
    if kind is dict:
        return all(type(name) is str and name.isascii() and _is_simple(inner) for name, inner in value.items())
    if kind is list:
        return all(map(_is_simple, value))
    return value.isascii() if kind is str else value is None or kind is bool


def _identifier(name: object, what: str, where: str = "") -> None:
    if not isinstance(name, str) or not name.isidentifier() or len(name) > 100:
        raise DefinitionError(f"{what} {name!r} is not an identifier (letters, digits, `_`)", where)
