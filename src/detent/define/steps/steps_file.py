"""A `steps:` file compiled to a Machine: one state per step, in order, and two ends.

What follows a step is in its rows: the next step where it went well, what `on_error` says where it failed, and
`cancelled` after a no that nothing else takes.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from detent.core.machine import Action, Limits, Machine, Retry, Transition, Wait
from detent.core.status import Status
from detent.define.compile_context import Page, items, kind_of
from detent.define.key_check import Fields
from detent.define.machine_builder import FindChild, lean
from detent.define.proof import MachineProof, prove, way_out, what
from detent.define.steps.key_table import COST, DEEDS, FILE, ON_ERROR, STEP, read_fields
from detent.define.steps.reference import StepScope, quote, render_text
from detent.define.steps.step_action import StepDeed, read_deed
from detent.define.steps.step_group import check_id, read_care, read_group
from detent.define.steps.steps_plan import StepCare, StepsPlan, read_environment, read_retry
from detent.define.value_check import NAME_MAX, mend_name
from detent.errors import DefinitionError

STEPS_MAX = 1_000
PAUSES_MAX = 8  # states that wait before a group is tried again; the last of them serves all further ones
NEVER = "['approval_rejected', 'validation_error', 'expression_error', 'budget_exceeded', 'cancelled']"


class CompiledSteps(NamedTuple):
    """What a file gives."""

    machine: Machine | None
    proof: MachineProof


def is_steps(value: Any) -> bool:
    """Whether a document is a list of steps and no workflow of states."""
    return isinstance(value, dict) and "steps" in value and "states" not in value


def compile_steps(
    page: Page, find_child: FindChild, is_irreversible: Callable[[Action], bool], *, warn: bool = True
) -> CompiledSteps:
    """The machine of a document, or None after a note of everything that is wrong with it."""
    given = read_fields(page, (), page.value, FILE, "the file")
    if given is None:
        return CompiledSteps(None, MachineProof())
    plan = StepsPlan(page, given, find_child)
    schema = _arguments(plan)
    if plan.is_unsafe:
        page.warn(
            ("unsafe_substitution",),
            "arguments and results are put into shell lines as code",
            "whoever gives an argument can run anything",
        )
    _steps(plan)
    limits, warning = _cost(plan)
    if not page.is_sound or not plan.order:
        return CompiledSteps(None, MachineProof())
    machine = _machine(plan, schema, limits, warning)
    if machine is None or not warn:
        return CompiledSteps(machine, MachineProof())
    proof = prove(machine, is_irreversible)
    for hole in proof.holes:
        page.warn(plan.places.get(hole.states[0], ()), f"{what(hole)}: {' → '.join(hole.states)}", way_out(hole))
    return CompiledSteps(machine, proof)


def _arguments(plan: StepsPlan) -> dict[str, Any]:
    """The arguments as the schema of a run's input; others may be given as well."""
    said = plan.given.get("args", {})
    if not isinstance(said, dict):
        plan.given.say("args", f"`args` must be a mapping from names to arguments, not {kind_of(said)}")
        return {}
    plan.arguments = frozenset(name for name, one in said.items() if isinstance(one, dict) and "default" in one)
    if len(plan.arguments) > 1:
        order = ", ".join(quote(name) for name in said if name in plan.arguments)
        plan.environment = f"{{{{ context | step_env(none, [{order}]) }}}}"
    properties = {}
    for name, inner in said.items():
        one = inner if isinstance(inner, dict) else {}
        properties[name] = {key: one[key] for key in ("default", "description") if key in one}
    return {"type": "object", "properties": properties} if properties else {}


def _steps(plan: StepsPlan) -> None:
    value = plan.given.get("steps")
    found = list(items(plan.page, ("steps",), value, "`steps`"))
    if not found and isinstance(value, list):
        plan.page.say(("steps",), "there are no steps", "write at least `- {id: hello, run: echo hello}`")
    if len(found) > STEPS_MAX:
        plan.page.say(("steps",), f"more than {STEPS_MAX:,} steps", "let parts of it be workflows of their own")
        return
    scope = StepScope(plan.arguments, {})
    around = _around(plan, scope)
    read: list[tuple[Fields, str]] = []
    for number, (path, inner) in enumerate(found, 1):
        step = read_fields(plan.page, path, inner, STEP, f"step {number}")
        if step is None or not (id := check_id(plan, step, scope)):
            continue
        name = plan.name(id, path)
        own = around._replace(env=_outer_environment(plan, scope))
        deed = _read_step(plan, step, name, scope, read_care(step, scope, own))
        if deed is None:
            continue
        scope.sources[id] = deed.source
        plan.order.append(name)
        plan.work[name] = deed.actions
        read.append((step, name))
    plan.done, plan.cancelled = plan.name("done", ()), plan.name("cancelled", ())
    following = [name for _, name in read[1:]] + [plan.done]
    for (step, name), after in zip(read, following, strict=False):
        _ways(plan, step, name, after)


def _around(plan: StepsPlan, scope: StepScope) -> StepCare:
    cwd = plan.given.get("cwd", "")
    return StepCare(cwd=render_text(cwd, scope) if cwd else "")


def _outer_environment(plan: StepsPlan, scope: StepScope) -> tuple[dict[str, str], ...]:
    """The file's own variables, which may refer to steps that have run."""
    env = read_environment(plan.given, scope)
    return (env,) if env else ()


def _read_step(plan: StepsPlan, step: Fields, name: str, scope: StepScope, care: StepCare) -> StepDeed | None:
    deeds = [key for key in DEEDS if key in step]
    gates = [key for key in ("approval", "input") if step.get(key) not in (None, False, "")]
    if len(deeds) > 1 or ("input" in gates and (deeds or "approval" in gates)):
        named = " and ".join(f"`{key}`" for key in (*deeds, *(gates if "input" in gates else [])))
        plan.page.say(step.path, f"the step `{step.get('id', '')}` has {named}", "only one of them is possible")
        return None
    if not deeds and not gates:
        if not step.said & {*DEEDS, "approval", "input"} or plan.page.is_sound:
            plan.page.say(step.path, f"the step needs one of {', '.join(DEEDS)}, approval, input")
        return None
    if deeds and deeds[0] in ("workflow", "parallel", "for_each"):
        return read_group(plan, step, name, scope, care)
    return read_deed(plan, step, name, scope, care)


def _ways(plan: StepsPlan, step: Fields, name: str, after: str) -> None:
    """The rows of a step."""
    policy = step.get("on_error", ON_ERROR[0])
    is_group = any(key in step for key in ("parallel", "for_each"))
    if not is_group and "cost_limit" in plan.given:
        # The step has done its work; the next one that could cost something does not begin.
        plan.rows.append(Transition(name, after, error="budget_exceeded"))
    if is_group:
        if "for_each" in step and (limit_s := _limit(step)):
            plan.timeouts_s[name] = limit_s
        _again(plan, step, name)
    if policy == "stop":
        plan.rows.append(Transition(name, plan.cancelled, error="approval_rejected"))
        if is_group:
            when = "{{ 'approval_rejected' in (error.causes or []) }}"
            plan.rows.append(Transition(name, plan.cancelled, error="branch_failed", when=when))
        if "workflow" in step:
            plan.rows.append(Transition(name, plan.cancelled, error="cancelled"))
    else:
        target = after if policy == "continue" else plan.done
        plan.rows.append(Transition(name, target, even_failed=True, only_failed=True))
    plan.rows.append(Transition(name, after))


def _limit(step: Fields) -> float:
    value = step.get("timeout_ms")
    return value / 1000 if isinstance(value, int) and not isinstance(value, bool) else 0.0


def _again(plan: StepsPlan, step: Fields, name: str) -> None:
    """A group that is tried again as a whole: rows back to it, each over a state that waits."""
    retry: Retry | None = read_retry(step)
    if retry is None:
        return
    pauses = min(retry.limit, PAUSES_MAX if retry.factor != 1 else 1)
    for number in range(pauses):
        state = plan.name(f"{name}_again", step.path)
        delay_s = min(retry.delay_s_max, retry.delay_s * retry.factor**number)
        plan.work[state] = (Action(state, "wait", wait=Wait(duration_s=max(delay_s, 0.001))),)
        counted = f"attempt == {number}" if number < pauses - 1 else f"{number} <= attempt and attempt < {retry.limit}"
        when = f"{{{{ {counted} and error.type not in {NEVER} }}}}"
        plan.rows.append(Transition(name, state, when=when, even_failed=True, only_failed=True))
        plan.rows.append(Transition(state, name))


def _cost(plan: StepsPlan) -> tuple[Limits, tuple[Action, ...]]:
    """The limit of the run, or the line of log that says it was passed."""
    bounds = Limits(max_transitions=20 * STEPS_MAX)
    if "cost_limit" not in plan.given:
        return bounds, ()
    said = read_fields(plan.page, ("cost_limit",), plan.given["cost_limit"], COST, "`cost_limit`")
    if said is None or "max_usd" not in said:
        return bounds, ()
    most = float(said["max_usd"])
    if said.get("action", "warn") == "stop":
        return lean(Limits, max_transitions=20 * STEPS_MAX, max_cost_usd=most or 1e-9), ()
    message = f"the run cost more than {most:g} USD"
    when = f"{{{{ (result | step_cost) > {most!r} }}}}"
    return bounds, (Action("cost_limit", "log", {"message": message, "level": "warning"}, when=when),)


def _machine(plan: StepsPlan, schema: dict[str, Any], limits: Limits, warning: tuple[Action, ...]) -> Machine | None:
    title = str(plan.given.get("name") or Path(plan.page.file).stem or "workflow")
    name = title if title.isidentifier() and len(title) <= NAME_MAX else mend_name(title)
    if warning:
        plan.work[plan.done] = warning
    try:
        return Machine(
            name=name,
            initial=plan.order[0],
            transitions=tuple(plan.rows),
            work=plan.work,
            ends={plan.done: Status.COMPLETED, plan.cancelled: Status.CANCELLED},
            variables={"steps": plan.order, "gates": plan.gates, "ids": plan.ids},
            timeouts_s=plan.timeouts_s,
            limits=limits,
            output="{{ result | step_output(variables.steps, approval, variables.ids) }}",
            input_schema=schema,
            title=title if title != name else "",
            version=str(plan.given.get("version", "")),
        )
    except DefinitionError as error:
        place = plan.places.get(error.part.action) or plan.places.get(error.part.state) or ()
        plan.page.say(place, error.problem)
        return None
