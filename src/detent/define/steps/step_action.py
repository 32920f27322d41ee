"""What a step does: a shell line, a pipeline, a question. One step becomes one or several actions."""

from typing import Any, NamedTuple

from msgspec.structs import replace

from detent.core.machine import Action
from detent.core.question import Question
from detent.define.key_check import Fields
from detent.define.machine_builder import lean
from detent.define.steps import step_gate
from detent.define.steps.reference import (
    EITHER,
    REFERENCE,
    StepScope,
    StepSource,
    path_of,
    quote,
    render_text,
    render_value,
)
from detent.define.steps.shell_line import render_line
from detent.define.steps.stage_text import GATES, BadPipeline, PipelineStage, ask_schema, parse_pipeline
from detent.define.steps.steps_plan import StepCare, StepsPlan, source_of


class StepDeed(NamedTuple):
    """The actions of a step, and where what it gave is found."""

    actions: tuple[Action, ...]
    source: StepSource


def read_deed(plan: StepsPlan, given: Fields, name: str, scope: StepScope, care: StepCare) -> StepDeed | None:
    """The deed of a step that is no group of others; None after a note."""
    config = step_gate.read_approval(given, str(given.get("id", name)))
    _check_stdin(given, scope)
    if "input" in given:
        return _input_gate(plan, given, name, scope, care)
    line = given.get("run") or given.get("command")
    if line is None and "pipeline" not in given:
        return _approval_gate(plan, given, name, scope, care, config)
    if config is not None:
        plan.gates[name] = config
    if "pipeline" in given:
        made = _pipeline(plan, given, name, scope, care, config)
    else:
        made = (_shell(plan, given, name, str(line), scope, care, config),)
    if not made:
        return None
    return StepDeed(made, source_of(name)) if config is None else _with_request(plan, made, name, config, care)


def _with_request(
    plan: StepsPlan, made: tuple[Action, ...], name: str, config: dict[str, Any], care: StepCare
) -> StepDeed:
    """A request that the step's own JSON carries is asked when the step has run, and what is said to it counts."""
    asking = f"{name}__request"
    plan.gates[asking] = config
    source = source_of(name)
    words = [source.read(f"json.{path}") for path in ("requiresApproval.prompt", "prompt")]
    when = f"{{{{ {' or '.join(f'({word} | step_true)' for word in words)} }}}}"
    question = replace(step_gate.ask_approval(asking, config, source.read("json"), when), tolerate=care.tolerate)
    return StepDeed((*made, question), source._replace(answer=f"({path_of('approval', asking)} or {source.answer})"))


def _shell(
    plan: StepsPlan,
    given: Fields,
    name: str,
    line: str,
    scope: StepScope,
    care: StepCare,
    config: dict[str, Any] | None,
) -> Action:
    made = render_line(line, scope, is_unsafe=plan.is_unsafe)
    if made.problem:
        given.say("run" if "run" in given else "command", made.problem, "write the document's word without quotes")
    input: dict[str, Any] = {
        "argv": [*plan.shell, made.text],
        "env": [plan.environment, *care.env, *([made.variables] if made.variables else [])],
        "is_metered": True,
    }
    if "stdin" in given:
        input["stdin"] = _stdin_text(given["stdin"], scope)
    return _call(name, "shell", input, care, config)


def _call(name: str, effect: str, input: dict[str, Any], care: StepCare, config: dict[str, Any] | None) -> Action:
    if care.cwd:
        input["cwd"] = care.cwd
    if care.timeout_s:
        input.update(timeout=care.timeout_s, is_failed_late=True)
    asks: Question | None = step_gate.approval_question(config) if config is not None else None
    return lean(
        Action, id=name, effect=effect, input=input, kind=care.kind, ask=asks, when=care.when,
        timeout_s=care.timeout_s + 60 if care.timeout_s else 0.0, retry=care.retry, tolerate=care.tolerate,
        # What somebody has said yes to is done once in this run; another run is another decision.
        key=f"{{{{ run.id }}}}/{name}/{{{{ branch.path or '' }}}}" if asks is not None and not care.kind else "",
        scope="run" if asks is not None and not care.kind else "",
    )  # fmt: skip


def _check_stdin(given: Fields, scope: StepScope) -> None:
    """What is wholly a reference means a step; inside a longer text it may be the author's own dollar."""
    found = REFERENCE.fullmatch(given["stdin"].strip()) if isinstance(given.get("stdin"), str) else None
    if found is not None and found[1] not in scope.sources:
        given.say("stdin", f"no step `{found[1]}` comes before this one")


def _stdin_text(value: Any, scope: StepScope) -> str:
    """What a program reads: a text as it is, anything else as JSON."""
    if not isinstance(value, str):
        return f"{{{{ {_plain(value)} | step_text }}}}"
    whole = render_value(value, scope)
    if whole.startswith("{{") and whole.endswith("}}") and EITHER.fullmatch(value.strip()):
        return f"{{{{ {whole[2:-2].strip()} | step_text }}}}"
    return whole


def _stdin_value(given: Fields, scope: StepScope) -> Any:
    """What a pipeline or a question begins with, its type kept."""
    value = given.get("stdin")
    if isinstance(value, str):
        return render_value(value, scope)
    return f"{{{{ {_plain(value)} }}}}" if isinstance(value, (dict, list)) else value


def _plain(value: Any) -> str:
    """A plain value as an expression."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_plain(key)}: {_plain(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_plain, value)) + "]"
    if isinstance(value, str):
        return quote(value)
    return "none" if value is None else str(value).lower()


def _pipeline(
    plan: StepsPlan, given: Fields, name: str, scope: StepScope, care: StepCare, config: dict[str, Any] | None
) -> tuple[Action, ...]:
    try:
        stages = parse_pipeline(given["pipeline"])
        return _stages(plan, given, name, stages, scope, care, config)
    except BadPipeline as problem:
        given.say("pipeline", f"this pipeline cannot be used: {problem}")
        return ()


def _stages(
    plan: StepsPlan, given: Fields, name: str, stages: list[PipelineStage], scope: StepScope, care: StepCare,
    config: dict[str, Any] | None,
) -> tuple[Action, ...]:  # fmt: skip
    """The stages up to each question, the question, and the rest."""
    made: list[Action] = []
    begin, items = 0, _stdin_value(given, scope)
    for at, stage in enumerate(stages):
        if stage.name not in GATES:
            continue
        part = f"{name}__{len(made)}"
        made.append(_part(plan, part, stages[begin:at], items, scope, care, config if not made else None))
        question, items = _stage_gate(plan, f"{name}__{len(made)}", part, stage, scope)
        made.append(replace(question, when=care.when) if care.when else question)
        begin = at + 1
    made.append(_part(plan, name, stages[begin:], items, scope, care, config if not made else None))
    return tuple(made)


def _part(
    plan: StepsPlan, name: str, stages: list[PipelineStage], items: Any, scope: StepScope, care: StepCare,
    config: dict[str, Any] | None,
) -> Action:  # fmt: skip
    input: dict[str, Any] = {"stages": [stage.render(scope) for stage in stages], "input": items}
    if not all(stage.is_pure for stage in stages):
        input["env"] = [plan.environment, *care.env]
        input["shell"] = plan.shell
        care = care._replace(kind=care.kind or ("idempotent" if not _has_deeds(stages) else ""))
    else:
        care = care._replace(kind="pure", cwd="")
    return _call(name, "pipeline", input, care, config)


def _has_deeds(stages: list[PipelineStage]) -> bool:
    return any(stage.name in ("exec", "diff.last") for stage in stages)


def _stage_gate(plan: StepsPlan, name: str, part: str, stage: PipelineStage, scope: StepScope) -> tuple[Action, Any]:
    """The question of a stage, and what the stages after it begin with."""
    before = f"({path_of('result', part)}.all)"
    prompt = stage.arguments.get("prompt")
    if stage.name == "approve":
        config = {"prompt": str(prompt or "Approve?")}
        plan.gates[name] = config
        question = replace(
            step_gate.ask_approval(name, config, before),
            ask=step_gate.approval_question(config, render_text(config["prompt"], scope)),
        )
        return question, f"{{{{ {before} }}}}"
    shown = (
        {"subject": f"{{{{ {{'text': ({before} | step_text)}} }}}}"} if "subject-from-stdin" in stage.arguments else {}
    )
    text = render_text(str(prompt or "Input required"), scope)
    question = lean(Action, id=name, effect="ask", input=shown, ask=Question(text, "form", schema=ask_schema(stage)))
    return question, f"{{{{ [{path_of('result', name)}.data] }}}}"


def _input_gate(plan: StepsPlan, given: Fields, name: str, scope: StepScope, care: StepCare) -> StepDeed | None:
    asked = step_gate.read_input(given)
    if asked is None:
        return None
    plan.gates[name] = {"defaults": asked.get("defaults")}
    if "stdin" in given:
        subject = _stdin_value(given, scope)
    else:
        subject = "{{ result | step_subject(variables.steps, approval, variables.ids) }}"
    kept = step_gate.keep_value(f"{name}__subject", subject, care.when)
    question = step_gate.ask_input(name, asked, care.when)
    return StepDeed((kept, replace(question, tolerate=care.tolerate)), source_of(name, has_subject=True))


def _approval_gate(
    plan: StepsPlan, given: Fields, name: str, scope: StepScope, care: StepCare, config: dict[str, Any] | None
) -> StepDeed | None:
    if config is None:
        return None
    plan.gates[name] = config
    if "stdin" not in given:
        question = step_gate.ask_approval(name, config, "none", care.when)
        return StepDeed((replace(question, tolerate=care.tolerate),), source_of(name))
    kept = step_gate.keep_value(f"{name}__subject", _stdin_value(given, scope), care.when)
    value = f"{path_of('result', name + '__subject')}.value"
    question = step_gate.ask_approval(name, config, value, care.when)
    return StepDeed((kept, replace(question, tolerate=care.tolerate)), source_of(name, has_subject=True))
