"""A definition told in sentences, for those who must agree to it and do not read machines."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from detent.core.machine import Action, Machine, Retry, Transition
from detent.define.source import Definition
from detent.define.trigger import Trigger
from detent.kit.language import _
from detent.kit.safe_text import brief, duration, visible

OWN = ("set", "log", "choose", "keep")
UNDOES = "undo_"  # and the id of what it takes back


def explain(definition: Definition, is_irreversible: Callable[[Action], bool]) -> Iterator[str]:
    """The sentences, in the order in which a run would live them; lines that belong to a state are indented."""
    machine = definition.machine
    yield _("`{name}`:", name=visible(machine.title or machine.name))
    for trigger in definition.triggers:
        yield _explain_trigger(trigger)
    yield from _explain_input(machine)
    yield from _explain_group(machine)
    undone = _undone(machine)
    teller = CallTeller(is_irreversible, definition.tools, undone)
    for state in _order(machine):
        yield ""
        yield from _explain_state(machine, state, teller)
    yield from _explain_everywhere(machine)
    yield ""
    yield from _explain_deeds(machine, is_irreversible, undone)


class CallTeller(NamedTuple):
    """What is known of the calls of a file: which cannot be taken back, their tools by name, and what has an `undo`."""

    is_irreversible: Callable[[Action], bool]
    tools: Mapping[str, str]
    undone: frozenset[str]


def _undone(machine: Machine) -> frozenset[str]:
    """The actions that others take back, by their ids."""
    return frozenset(one.id.removeprefix(UNDOES) for one in machine.work.get(machine.on_failure, ()))


def _explain_trigger(trigger: Trigger) -> str:
    about = visible(trigger.about)
    match trigger.kind:
        case "schedule":
            return _("Once it is armed, it starts by itself at {times}.", times=about)
        case "webhook":
            return _("Once it is armed, a signed message to the {hook} starts it.", hook=about)
        case "file":
            return _("Once it is armed, a new or changed file {files} starts it.", files=about)
        case "run_ended":
            return _("Once it is armed, it starts when a run of {workflow} has ended.", workflow=about)
    return _("Once it is armed, the signal {signal} starts it.", signal=about)


def _explain_input(machine: Machine) -> Iterator[str]:
    properties = machine.input_schema.get("properties") or {}
    if properties:
        needed = set(machine.input_schema.get("required", ()))
        must = [visible(name) for name in properties if name in needed and "default" not in properties[name]]
        may = [visible(name) for name in properties if visible(name) not in must]
        if must:
            yield _("It must be given {names}.", names=", ".join(must))
        if may:
            yield _("It may be given {names}.", names=", ".join(may))


def _explain_group(machine: Machine) -> Iterator[str]:
    if machine.group is not None:
        key, limit = visible(machine.group.key), machine.group.limit
        yield _("Of all runs with the same {key}, at most {limit} go on at the same time.", key=key, limit=limit)


def _order(machine: Machine) -> list[str]:
    """The states as a run may come to them, first things first."""
    order, todo = [], [machine.initial]
    while todo:
        state = todo.pop(0)
        if state not in order and state != "*":
            order.append(state)
            todo += [row.target for row in machine.transitions if row.source in (state, "*")]
    return [*order, *(state for state in machine.states if state not in order)]


def _explain_state(machine: Machine, state: str, teller: CallTeller) -> Iterator[str]:
    name = visible(state)
    if state == machine.on_failure:
        yield _("Before it ends otherwise than well, it takes back what was done:")
    elif state == machine.at_end:
        yield _("However it ends, this is done last:")
    elif state == machine.initial:
        yield _("It begins in `{name}`.", name=name)
    elif state in machine.ends:
        ends = {
            "completed": _("`{name}` is an end: all went well.", name=name),
            "failed": _("`{name}` is an end: it has failed.", name=name),
            "rejected": _("`{name}` is an end: somebody said no.", name=name),
            "cancelled": _("`{name}` is an end: cancelled.", name=name),
        }
        yield ends[machine.ends[state].value]
    else:
        yield _("In `{name}`:", name=name)
    for action in machine.work.get(state, ()):
        yield from (f"  {line}" for line in _explain_action(action, teller))
    if (longest := machine.timeouts_s.get(state, 0.0)) > 0:
        yield "  " + _("It stays here for {time} at most.", time=duration(longest))
    yield from _explain_rows(machine, state)


def _explain_everywhere(machine: Machine) -> Iterator[str]:
    """What can happen in every state."""
    if rows := list(_explain_rows(machine, "*")):
        yield ""
        yield _("In every state that does not say otherwise:")
        yield from rows


def _explain_rows(machine: Machine, source: str) -> Iterator[str]:
    rows = [row for row in machine.transitions if row.source == source]
    for row in sorted(rows, key=lambda row: -row.priority):
        yield f"  {_explain_row(row)}"


def _explain_action(action: Action, teller: CallTeller) -> Iterator[str]:
    only = _("only if {condition}: ", condition=visible(action.when)) if action.when else ""
    if action.effect in OWN:
        if action.effect == "log":
            yield only + _("it writes down: {text}", text=visible(str(action.input.get("message", ""))))
        elif action.effect == "set":
            yield only + _("it notes `{name}`", name=visible(str(action.input.get("name", ""))))
        return
    if action.branches:
        head = _("for every item of {items}:", items=visible(action.each)) if action.each else _("side by side:")
        cares = list(_explain_loop(action))
        yield only + (f"{head} ({'; '.join(cares)})" if cares else head)
        for branch in action.branches:
            for inner in branch.actions:
                yield from (f"  {line}" for line in _explain_action(inner, teller))
        return
    if action.wait is not None:
        yield only + _explain_wait(action)
        return
    said = _("it asks: {text}", text=_question(action)) if action.effect == "ask" else _explain_call(action, teller)
    cares = list(_explain_cares(action, teller))
    yield only + said + (f" ({'; '.join(cares)})" if cares else "")


def _explain_loop(action: Action) -> Iterator[str]:
    if action.at_once:
        yield _("at most {count} at the same time", count=action.at_once)
    if action.tolerate:
        yield _("{count} may fail", count=action.tolerate)


def _explain_wait(action: Action) -> str:
    wait = action.wait
    assert wait is not None  # noqa: S101 - looked at by the caller
    if wait.events:
        names = ", ".join(visible(one.event) for one in wait.events)
        longest = (
            _("; at most {time}", time=_time(wait.timeout_s)) if wait.timeout_s else _("; for as long as it takes")
        )
        return _("it waits for {events}", events=names) + longest
    return _("it sleeps for {time}", time=_time(wait.duration_s or wait.timeout_s))


def _time(value: Any) -> str:
    return duration(float(value)) if isinstance(value, int | float) else visible(str(value))


def _explain_call(action: Action, teller: CallTeller) -> str:
    if action.effect == "child":
        return _("`{id}`: it runs another workflow", id=visible(action.id))
    tool = teller.tools.get(action.id, "")
    program = _name_program(action) or (action.effect if tool else "")
    said = _("`{id}`: it calls {tool}", id=visible(action.id), tool=visible(tool or action.effect))
    return said + (f": {brief(program, 100)}" if program else "")


def _name_program(action: Action) -> str:
    """What a general tool is told to call: the program, the function, or the address."""
    given = action.input if isinstance(action.input, dict) else {}
    argv, url = given.get("argv"), given.get("url")
    if isinstance(argv, list):
        return " ".join(map(str, argv))
    return f"{given.get('method', '')} {url}".strip() if url else str(given.get("function", ""))


def _question(action: Action) -> str:
    text = action.ask.text if action.ask is not None else ""
    return visible(text) or _("may this be done?")


def _explain_cares(action: Action, teller: CallTeller) -> Iterator[str]:
    if action.id in teller.undone:
        yield _("`{id}` takes it back if the run ends otherwise than well", id=visible(UNDOES + action.id))
    elif teller.is_irreversible(action) and action.effect != "ask":
        yield _("this cannot be taken back")
    asked = action.ask
    if asked is not None and action.effect != "ask":
        yield _("only after somebody has said yes")
    if asked is not None and asked.approvers:
        yield _("asked are {names}", names=", ".join(map(visible, asked.approvers)))
    if asked is not None and asked.quorum > 1:
        yield _("{count} of them must agree", count=asked.quorum)
    if asked is not None and asked.separate:
        yield _("not whoever started it")
    if asked is not None and asked.schema.get("properties"):
        yield _("the answer brings {names}", names=", ".join(map(visible, asked.schema["properties"])))
    if asked is not None and asked.expires_s:
        yield _("the question stands for {time}", time=duration(asked.expires_s))
    for retry in _retries(action):
        yield _("after a failure it is tried up to {count} times more", count=retry.limit)
    if action.key:
        yield _("once for each {key}", key=visible(action.key))
    if action.timeout_s:
        yield _("it may take {time}", time=duration(action.timeout_s))


def _retries(action: Action) -> tuple[Retry, ...]:
    return (action.retry,) if isinstance(action.retry, Retry) else action.retry or ()


def _explain_row(row: Transition) -> str:
    target, when = visible(row.target), visible(row.when)
    if row.is_retry:
        target = _("the same state again")
    if row.error in ("", "*") and (row.error or row.only_failed):
        said = _("If it fails, it goes to {target}", target=target)
    elif row.error:
        said = _("If it fails ({error}), it goes to {target}", error=visible(row.error), target=target)
    elif row.on:
        said = _("When {signal} comes, it goes to {target}", signal=visible(row.on), target=target)
    elif when:
        return _("If {condition}, it goes to {target}.", condition=when, target=target)
    else:
        said = _("When that has worked, it goes to {target}", target=target)
    return said + (_(", if {condition}.", condition=when) if when else _("."))


def _explain_deeds(
    machine: Machine, is_irreversible: Callable[[Action], bool], undone: frozenset[str]
) -> Iterator[str]:
    """What cannot be taken back, and which of it nobody is asked about."""
    deeds = [one for one in _all_actions(machine) if is_irreversible(one) and one.effect not in ("ask", "wait")]
    if not deeds:
        yield _("Nothing that it does is declared as impossible to take back.")
        return
    unasked = [visible(one.id) for one in deeds if one.ask is None]
    for_good = [visible(one.id) for one in deeds if one.id not in undone]
    if for_good:
        yield _("What cannot be taken back: {names}.", names=", ".join(for_good))
    if unasked:
        yield _("Nobody is asked before {names}, unless a policy wants it.", names=", ".join(unasked))


def _all_actions(machine: Machine) -> Iterator[Action]:
    todo = [action for actions in machine.work.values() for action in actions]
    while todo:
        action = todo.pop(0)
        yield action
        todo += [inner for branch in action.branches for inner in branch.actions]
