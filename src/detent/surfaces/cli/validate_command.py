"""The command validate: a definition, a policy or people, and everything that is wrong with them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from detent.core.machine import Action, Machine
from detent.define import Definition, load
from detent.define.problem import BrokenDefinition
from detent.define.proof import MachineProof
from detent.errors import DefinitionError
from detent.kit.error_translation import translate_error
from detent.kit.language import _
from detent.kit.people_file import PEOPLE_FILE, has_people
from detent.kit.policy_file import POLICY_FILE
from detent.kit.safe_text import near, visible
from detent.kit.terminal import interrupt
from detent.kit.terminal.caller import Caller, emit
from detent.kit.terminal.option import fragment_option, verb

POLICIES = (".policy.yaml", ".policy.yml")
PEOPLES = (".people.yaml", ".people.yml")
HOSTS_OWN = ("ask", "wait", "child", "*")


@verb("validate")
@click.argument("file", metavar="FILE[:NAME]")
@fragment_option
def validate(caller: Caller, file: str, is_fragment: bool) -> int:
    """Load a definition or a policy and say what is wrong with it."""
    if file.endswith(POLICIES) or Path(file).name == POLICY_FILE:
        return _validate_policy(caller, file)
    if file.endswith(PEOPLES) or Path(file).name == PEOPLE_FILE:
        return _validate_people(caller, file)
    definition = _check(caller, file, is_fragment)
    machine = definition.machine
    claimed = _find_claims(caller, machine)
    missing = _missing(caller, definition)
    if missing:
        raise DefinitionError(f"there is no effect `{missing[0]}`", f"{definition.source}, machine `{machine.name}`")
    if caller.is_json:
        emit(
            {
                "ok": True,
                "machine": machine.name,
                "digest": machine.digest,
                "states": list(machine.states),
                "effects": sorted(definition.effects),
                "source": definition.source,
                "warnings": [*(str(warning) for warning in definition.warnings), *claimed],
                "advice": list(definition.advice),
                "proof": _proof(definition.proof),
                "error": None,
            }
        )
    else:
        for warning in definition.warnings:
            caller.note(visible(near(translate_error(str(warning)))), "yellow")
        for advice in definition.advice:
            caller.note(visible(near(translate_error(advice))))
        for warning in claimed:
            caller.note(warning, "yellow")
        count = len(machine.states)
        caller.say(_("ok: machine `{name}`, {count} states", name=visible(machine.name), count=count), "green")
        _say_proof(caller, definition.proof)
    return 0


def _proof(proof: MachineProof) -> dict[str, Any]:
    holes = [{"after": h.after, "action": h.action, "deed": h.deed, "states": list(h.states)} for h in proof.holes]
    still = proof.standstill
    endless = [{"state": one.state, "action": one.action, "why": one.why} for one in still.endless]
    return {
        "irreversible": proof.deeds,
        "holds": proof.is_whole and not holes,
        "ways": holes,
        "same_in_every_run": list(proof.same),
        "no_way_out": list(still.no_way_out),
        "waits": still.waits,
        "endless": endless,
    }


def _say_proof(caller: Caller, proof: MachineProof) -> None:
    """What is certain about the machine's irreversible actions, if it has any."""
    if proof.holes or not proof.is_whole:
        caller.say(
            _("not proved: an irreversible action may follow an unhandled failure or a rejected approval"), "yellow"
        )
    elif proof.deeds:
        caller.say(_("proved: no irreversible action follows an unhandled failure or a rejected approval"), "green")
    still = proof.standstill
    if still.no_way_out:
        caller.say(_("not proved: a run may come to a state that has no way out"), "yellow")
    elif still.waits and still.unexplained:
        caller.say(_("not proved: a wait may go on for ever"), "yellow")
    elif still.waits:
        caller.say(_("proved: every state has a way out, and every wait an end or a reason"), "green")


def _check(caller: Caller, file: str, is_fragment: bool) -> Definition:
    """The definition, with every tool known; MCP servers are asked for theirs only when one is not."""
    from detent.effects import Known
    from detent.kit.available_effects import effects_here, server_file

    try:
        return load(file, Known(), fragment=is_fragment)
    except BrokenDefinition:
        if server_file() is None:
            raise

    async def with_servers() -> Definition:
        async with effects_here(caller.home, caller.warn) as effects:
            return load(file, effects, fragment=is_fragment)

    return interrupt.run(with_servers())


def _validate_policy(caller: Caller, file: str) -> int:
    from detent.define.policy import load_policy

    policy = load_policy(file)
    if caller.is_json:
        rules = [rule.name for rule in policy.rules]
        emit({"ok": True, "policy": policy.digest, "rules": rules, "roles": sorted(policy.roles), "error": None})
    else:
        count = len(policy.rules)
        said = _("ok: a policy with one rule") if count == 1 else _("ok: a policy with {count} rules", count=count)
        caller.say(said, "green")
    return 0


def _validate_people(caller: Caller, file: str) -> int:
    from detent.define.people import load_people

    people = load_people(file)
    if caller.is_json:
        names = [person.name for person in people.persons]
        emit({"ok": True, "people": names, "groups": sorted(people.groups), "digest": people.digest, "error": None})
    else:
        caller.say(_("ok: people, {count} of them", count=len(people.persons)), "green")
    return 0


def _find_claims(caller: Caller, machine: Machine) -> list[str]:
    """A warning for every question that only certain people may answer, where nobody says who they are."""
    if has_people(caller.home):
        return []
    command = caller.command("people", "add", "NAME", "--role", "approver", "--token")
    return [
        _(
            "`{action}` asks certain people, and this home has none: their names are only claimed ({command})",
            action=visible(action.id),
            command=command,
        )
        for action in _asking(machine)
    ]


def _asking(machine: Machine) -> Iterator[Action]:
    """The actions whose question is not for just anybody."""
    todo = [action for actions in machine.work.values() for action in actions]
    while todo:
        action = todo.pop(0)
        asked = action.ask
        if asked is not None and (asked.approvers or asked.quorum > 1 or asked.separate or asked.require_signature):
            yield action
        todo += [inner for branch in action.branches for inner in branch.actions]


def _missing(caller: Caller, definition: Definition) -> list[str]:
    from detent.effects import Known
    from detent.kit.available_effects import effects_here

    known = Known(definition.effects)
    called = [name for name in definition.machine.chart.effects if name not in HOSTS_OWN]
    missing = [name for name in called if name not in known]

    async def of_servers() -> list[str]:
        async with effects_here(caller.home, caller.warn) as effects:
            return [name for name in missing if name not in effects]

    return interrupt.run(of_servers()) if missing else []


COMMANDS = {"validate": validate}
