"""Steps that are made of others: branches side by side, a loop over a list, another file as a child."""

from typing import Any

from msgspec.structs import replace

from detent.core.expression.step_filter import INHERITED
from detent.core.machine import Action, Branch, Wait
from detent.define.compile_context import items
from detent.define.key_check import Fields
from detent.define.machine_builder import lean
from detent.define.steps import step_gate
from detent.define.steps.key_table import BRANCH, PARALLEL, read_fields, read_milliseconds
from detent.define.steps.reference import EITHER, StepScope, StepSource, path_of, quote, render_text, render_value
from detent.define.steps.step_action import StepDeed, read_deed
from detent.define.steps.steps_plan import StepCare, StepsPlan, read_condition, read_environment, read_retry

BRANCHES_MAX = 200
GROUPS = ("workflow", "parallel", "for_each", "steps")


def read_group(plan: StepsPlan, given: Fields, name: str, scope: StepScope, care: StepCare) -> StepDeed | None:
    """The deed of a step that is made of others; a question of its own comes before all of them."""
    if "parallel" in given:
        made = _parallel(plan, given, name, scope, care)
    elif "for_each" in given:
        made = _loop(plan, given, name, scope, care)
    else:
        made = _child(plan, given, name, scope, care)
    config = step_gate.read_approval(given, str(given.get("id", name)))
    if made is None or config is None:
        return made
    asking = f"{name}__gate"
    plan.gates[asking] = config
    source = made.source._replace(answer=path_of("approval", asking))
    return StepDeed((step_gate.ask_approval(asking, config, "none", care.when), *made.actions), source)


def _parallel(plan: StepsPlan, given: Fields, name: str, scope: StepScope, care: StepCare) -> StepDeed | None:
    group = read_fields(plan.page, given.at("parallel"), given["parallel"], PARALLEL, "`parallel`")
    if group is None:
        return None
    is_any = group.get("wait") == "any"
    limits = [care.timeout_s, read_milliseconds(group, "timeout_ms")]
    timeout_s = min((limit for limit in limits if limit), default=0.0)
    # Where one success is enough the others are stopped in the middle, so they must bear being begun again.
    around = care._replace(kind="idempotent" if is_any else care.kind, timeout_s=timeout_s, when="", retry=None)
    branches, sources, ids = [], {}, {}
    for path, inner in items(plan.page, group.at("branches"), group.get("branches"), "`branches`"):
        branch = read_fields(plan.page, path, inner, BRANCH, "the branch")
        if branch is None or not (id := check_id(plan, branch, scope)):
            continue
        own = plan.name(id, path)
        deed = _member(plan, branch, own, scope, around, "branch")
        if deed is not None:
            branches.append(Branch(own, deed.actions))
            sources[id], ids[own] = deed.source, id
    if not branches or len(branches) > BRANCHES_MAX:
        if plan.page.is_sound:
            group.say("branches", f"`parallel` needs at least one branch and at most {BRANCHES_MAX}")
        return None
    scope.sources.update(sources)
    plan.ids.update({own: id for own, id in ids.items() if own != id})
    join = "any" if is_any else "all"
    action = lean(Action, id=name, effect="branches", branches=tuple(branches), join=join, when=care.when)
    return StepDeed(
        (action,), StepSource(path_of("result", name), path_of("approval", name), "none", ids="variables.ids")
    )


def check_id(plan: StepsPlan, given: Fields, scope: StepScope) -> str:
    """The id of a step or branch, or nothing after a note."""
    id = str(given.get("id", ""))
    if id in scope.sources or id in plan.seen:
        given.say("id", f"the id `{id}` is used twice", "ids are unique, those of branches included")
        return ""
    plan.seen.add(id)
    return id


def _member(
    plan: StepsPlan, given: Fields, name: str, scope: StepScope, around: StepCare, what: str
) -> StepDeed | None:
    """A branch, or a step of a loop."""
    care = read_care(given, scope, around)
    deeds = [key for key in ("run", "command", "pipeline") if key in given]
    gates = [key for key in ("approval", "input") if given.get(key) not in (None, False, "")]
    if len(deeds) > 1 or ("input" in gates and (deeds or "approval" in gates)):
        named = " and ".join(f"`{key}`" for key in (*deeds, *gates))
        plan.page.say(given.path, f"the {what} `{given.get('id', '')}` has {named}", "only one of them is possible")
        return None
    if not deeds and not gates:
        plan.page.say(given.path, f"the {what} needs one of `run`, `command`, `pipeline`, `approval` and `input`")
        return None
    if given.get("on_error", "stop") != "stop":
        care = care._replace(tolerate=1)
    return read_deed(plan, given, name, scope, care)


def read_care(given: Fields, scope: StepScope, around: StepCare) -> StepCare:
    """What a step says about failing, over what the step around it says."""
    own_s = read_milliseconds(given, "timeout_ms")
    retry = read_retry(given)
    env = read_environment(given, scope)
    return StepCare(
        when=join_conditions(around.when, read_condition(given, scope)),
        timeout_s=min((limit for limit in (own_s, around.timeout_s) if limit), default=0.0),
        retry=retry or around.retry,
        kind="idempotent" if "retry" in given else around.kind,
        tolerate=around.tolerate,
        env=(*around.env, env) if env else around.env,
        cwd=render_text(given["cwd"], scope._replace(sources={})) if "cwd" in given else around.cwd,
    )


def join_conditions(*conditions: str) -> str:
    """A condition that holds where all of these do."""
    said = [f"({one.strip()[2:-2].strip()})" for one in conditions if one]
    return f"{{{{ {' and '.join(said)} }}}}" if said else ""


def _loop(plan: StepsPlan, given: Fields, name: str, scope: StepScope, care: StepCare) -> StepDeed | None:
    each = given["for_each"].strip()
    if not EITHER.fullmatch(each) or render_value(each, scope) == each:
        given.say("for_each", "`for_each` must refer to a list", "as in `$fetch.json` or `${names}`")
        return None
    item_var, index_var = given.get("item_var", "item"), given.get("index_var", "index")
    if item_var == index_var:
        given.say("index_var", "`item_var` and `index_var` cannot be the same")
    if given.get("stdin") is not None:
        given.say("stdin", "a loop has no `stdin`", "it goes through what `for_each` refers to")
    inside = scope.inside(
        {item_var: StepSource("item", is_item=True), index_var: StepSource("branch.index", is_item=True)}
    )
    around = care._replace(when="", timeout_s=0.0, retry=None)
    actions = list(_pause(given, name))
    results: dict[str, str] = {}
    for path, inner in items(plan.page, given.at("steps"), given.get("steps"), "`steps`"):
        sub = read_fields(plan.page, path, inner, BRANCH, "the step of the loop")
        if sub is None or not (id := str(sub.get("id", ""))):
            continue
        if id in results or id in (item_var, index_var):
            sub.say("id", f"the id `{id}` is used twice in this loop")
            continue
        own = plan.name(f"{name}_{id}", path)
        deed = _member(plan, sub, own, inside, around, "step of the loop")
        if deed is None:
            continue
        actions += deed.actions
        results[id] = deed.source.result
        inside.sources[id] = deed.source
        if sub.get("on_error") == "skip_rest":
            around = around._replace(when=join_conditions(around.when, f"{{{{ not {deed.source.read('error')} }}}}"))
    if not results:
        if plan.page.is_sound:
            plan.page.say(given.path, "`for_each` needs `steps`", "what to do for every item")
        return None
    value = f"{{{quote(item_var)}: item, {quote(index_var)}: branch.index}}"
    gave = "{" + ", ".join(f"{quote(id)}: {result}" for id, result in results.items()) + "}"
    actions.append(step_gate.keep_value(f"{name}__item", f"{{{{ {value} | step_item({gave}) }}}}"))
    whole = lean(
        Action, id=name, effect="branches", branches=(Branch("each", tuple(actions)),), each=render_value(each, scope),
        at_once=1, fail_fast=True, when=care.when,
    )  # fmt: skip
    return StepDeed((whole,), StepSource(path_of("result", name), path_of("approval", name)))


def _pause(given: Fields, name: str) -> tuple[Action, ...]:
    """The pause between batches, as a durable timer."""
    pause_s, size = read_milliseconds(given, "pause_ms", 0), given.get("batch_size", 1)
    if not pause_s:
        return ()
    when = f"{{{{ branch.index > 0 and branch.index % {size} == 0 }}}}"
    return (Action(f"{name}__pause", "wait", when=when, wait=Wait(duration_s=pause_s)),)


def _child(plan: StepsPlan, given: Fields, name: str, scope: StepScope, care: StepCare) -> StepDeed | None:
    arguments: Any = given.get("workflow_args", {})
    if not isinstance(arguments, dict):
        given.say("workflow_args", "`workflow_args` must be a mapping")
        return None
    machine = plan.find_child(plan.page, given.at("workflow"), given["workflow"].strip())
    if machine is None:
        return None
    passed = {key: render_value(one, scope) if isinstance(one, str) else one for key, one in arguments.items()}
    if "gates" in machine.get("variables", {}):  # a list of steps too: its programs find our variables
        handed = f"{{{{ context | step_at({quote(INHERITED)}) }}}}"
        passed[INHERITED] = [handed, *care.env] if care.env else handed
    action = lean(
        Action, id=name, effect="child", input={"machine": machine, "input": passed}, when=care.when, retry=care.retry
    )
    return StepDeed(
        (replace(action, timeout_s=care.timeout_s),), StepSource(path_of("result", name), path_of("approval", name))
    )
