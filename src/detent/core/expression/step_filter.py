"""What a step of a `steps:` file gave, as its references read it, and how its conditions compare.

These files have a language of their own; the compiler translates it into expressions that use the filters here. They
are pure functions over JSON values, like all others. A step's result is whatever its action left: of a shell line or a
pipeline, of a question, of branches, of a loop, of a child run.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from detent.core.expression.value_operation import TEXT_MAX, fits

PREVIEW_MAX = 2_000
NOTHING: Any = object()  # a text that is no JSON; null is one
_NUMBER = re.compile(r"\s*[-+]?(?:Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)\s*\Z")
INHERITED = "@env"  # the argument in which a file hands its variables to another; no author can name it
_ARGUMENT = re.compile(r"[^A-Z0-9]+")
_INDEX = re.compile(r"[0-9]{1,9}\Z")


def parse(text: str) -> Any:
    """A text as JSON; NOTHING where it is none."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return NOTHING


def _refuse_constant(name: str) -> Any:
    raise ValueError(name)


def encode(value: Any) -> str:
    """A value as compact JSON, its keys in the order they came."""
    made = json.dumps(_settle_numbers(value), ensure_ascii=False, separators=(",", ":"))
    fits(len(made), TEXT_MAX, "characters")
    return made


def _settle_numbers(value: Any) -> Any:
    """Whole numbers without a point: 5.0 is 5 in these files."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return int(value)
    if isinstance(value, dict):
        return {key: _settle_numbers(inner) for key, inner in value.items()}
    return [_settle_numbers(inner) for inner in value] if isinstance(value, list) else value


def text(value: Any, is_stripped: Any = False) -> str:
    """A value as it stands in a text: nothing for null, a text as it is, anything else as JSON."""
    made = "" if value is None else value if isinstance(value, str) else encode(value)
    return made.rstrip("\n") if is_stripped else made


def dig(value: Any, path: str, missing: Any = None) -> Any:
    """What stands at a path of keys and positions; null where there is nothing."""
    for part in path.split(".") if path else ():
        if isinstance(value, list):
            value = value[int(part)] if _INDEX.match(part) and int(part) < len(value) else missing
        elif isinstance(value, dict):
            value = value.get(part, missing)
        else:
            return missing
    return value


def record(result: Any, answer: Any = None, ids: Any = None) -> dict[str, Any]:
    """A step's result by the names its references use; what is not there is left out."""
    if not isinstance(result, dict):
        return {"skipped": True}
    said = answer if isinstance(answer, dict) else {}
    made: dict[str, Any] = {}
    if "approved" in said or "approved" in result:
        made["approved"] = bool(said.get("approved", result.get("approved")))
        by = said.get("by") or result.get("by")
        made.update({"approvedBy": by} if by else {})
    error = result.get("error")
    if result.get("success") is False and isinstance(error, dict):
        return {**made, "error": True, "errorMessage": str(error.get("message") or error.get("type") or "")}
    if result.get("success") is False and ("branches" in result or "failed" in result):
        return {**made, "error": True, "errorMessage": _first_failure(result)}
    if said.get("approved") is False:  # a no to what its own output asked
        made |= {"error": True, "errorMessage": "rejected"}
    return {**made, **_read_given(result, ids)}


def _first_failure(result: dict[str, Any]) -> str:
    """Why a group failed: what its first failed branch or item said."""
    for name, one in (result.get("branches") or {}).items():
        if isinstance(one, dict) and isinstance(one.get("error"), dict):
            return f"branch {name}: {one['error'].get('message', '')}"
    return next((f"item {one['index']}: {one['error']}" for one in result.get("failed") or ()), "")


def _read_given(result: dict[str, Any], ids: Any) -> dict[str, Any]:
    """What a step that went well gave: `stdout` and `json`, or a `response` with its `subject`."""
    if "stdout" in result:
        said = result["stdout"] if isinstance(result["stdout"], str) else text(result["stdout"])
        return {"stdout": said, "json": result["json"]} if "json" in result else _from_text(said)
    if isinstance(result.get("items"), list) and "failed" in result:
        return _value([one.get("value") if isinstance(one, dict) else None for one in result["items"]])
    if isinstance(result.get("branches"), dict):
        return _branches(result["branches"], ids)
    if "output" in result:
        return _output_of(result["output"])
    if result.get("data") is not None:
        return {"response": result["data"]}
    return _synthetic(result["value"]) if "value" in result else {}


def _branches(given: dict[str, Any], ids: Any) -> dict[str, Any]:
    """What branches gave, by their ids in the file; where only one had to succeed, its text is the group's."""
    known = ids if isinstance(ids, dict) else {}
    ended = {known.get(name, name): record(one) for name, one in given.items() if isinstance(one, dict)}
    made = _value({name: one["json"] for name, one in ended.items() if "json" in one})
    if len(ended) == 1 < len(given):
        made["stdout"] = next(iter(ended.values())).get("stdout", "")
    return made


def _value(value: Any) -> dict[str, Any]:
    return {"stdout": encode(value), "json": value}


def _synthetic(value: Any) -> dict[str, Any]:
    """A value that no program gave: the standard input of a question, for example."""
    if value is None:
        return {}
    return _from_text(value) if isinstance(value, str) else _value(value)


def _from_text(said: str) -> dict[str, Any]:
    value = parse(said)
    return {"stdout": said} if value is NOTHING else {"stdout": said, "json": value}


def _output_of(output: Any) -> dict[str, Any]:
    """What a child run gave: one item stands for itself."""
    items = output if isinstance(output, list) else [output]
    only = items[0] if len(items) == 1 else items
    return {"stdout": text(only) if items else "", "json": only}


def step(result: Any, path: Any = "", answer: Any = None, subject: Any = None, ids: Any = None) -> Any:
    """What a reference reads: a field of a step's record, and what is inside it."""
    return dig(_describe_step(result, answer, subject, ids), str(path))


def has(result: Any, path: Any = "", answer: Any = None, subject: Any = None, ids: Any = None) -> bool:
    """Whether there is anything where a reference reads: null is something, and equals no path that leads nowhere."""
    return dig(_describe_step(result, answer, subject, ids), str(path), NOTHING) is not NOTHING


def _describe_step(result: Any, answer: Any, subject: Any, ids: Any) -> dict[str, Any]:
    made = record(result, answer, ids)
    if isinstance(subject, dict) and "value" in subject:
        made = {**_synthetic(subject["value"]), **made, "subject": subject["value"]}
    return made


def _items_of(made: dict[str, Any]) -> list[Any]:
    """What a step gives as the output of a run: a list as it is, one value as a list of one."""
    for name in ("json", "response"):
        if name in made:
            return made[name] if isinstance(made[name], list) else [made[name]]
    return [made["stdout"]] if made.get("stdout") else []


def last_output(results: Any, names: Any, answers: Any = None, ids: Any = None) -> list[Any]:
    """The output of a run: that of the last of these steps that ran and did not fail."""
    return _items_of(_last_run(results, names, answers, ids))


def last_value(results: Any, names: Any, answers: Any = None, ids: Any = None) -> Any:
    """What the last of these steps gave, for a question that is about it."""
    made = _last_run(results, names, answers, ids)
    return next((made[name] for name in ("json", "response", "stdout") if name in made), None)


def _last_run(results: Any, names: Any, answers: Any, ids: Any) -> dict[str, Any]:
    had, said = (one if isinstance(one, dict) else {} for one in (results, answers))
    for name in reversed(names if isinstance(names, list) else []):
        made = record(had.get(name), said.get(name), ids)
        if "skipped" not in made and "error" not in made:
            kept = had.get(f"{name}__subject")
            return made if "response" in made or not isinstance(kept, dict) else _synthetic(kept.get("value"))
    return {}


def item_record(item: Any, results: Any) -> dict[str, Any]:
    """What an item of a loop keeps: the item, its position, and what each of its steps gave."""
    made = dict(item) if isinstance(item, dict) else {}
    for name, result in results.items() if isinstance(results, dict) else ():
        gave = record(result)
        if "skipped" in gave:
            continue
        named = [gave[key] for key in ("json", "response", "stdout") if key in gave]
        made[name] = named[0] if named else gave
    return made


def request(value: Any, config: Any, is_bound: Any = False) -> dict[str, Any]:
    """What a question shows: what the file says, or the request that the step's own JSON carries.

    Where it is bound, what the file says of who may answer stands: a program's output adds to it and replaces none.
    """
    base = dict(config) if isinstance(config, dict) else {}
    value = _synthetic(value).get("json", value) if isinstance(value, str) else value
    candidate = value.get("requiresApproval", value) if isinstance(value, dict) else None
    if isinstance(candidate, dict) and isinstance(candidate.get("prompt"), str) and candidate["prompt"]:
        names = {"items": "items", "preview": "preview", **IDENTITY}
        told = {new: candidate[old] for old, new in names.items() if candidate.get(old)}
        firm = {name: base[name] for name in IDENTITY.values() if name in base} if is_bound else {}
        return {**base, "items": [], **told, **firm, "prompt": candidate["prompt"]}
    made = _synthetic(value)
    if "json" in made:
        base.setdefault("items", made["json"] if isinstance(made["json"], list) else [made["json"]])
    if made.get("stdout"):
        base.setdefault("preview", made["stdout"].strip()[:PREVIEW_MAX])
    return {"items": [], **base}


IDENTITY = {
    "initiated_by": "initiatedBy",
    "initiatedBy": "initiatedBy",
    "required_approver": "requiredApprover",
    "requiredApprover": "requiredApprover",
    "require_different_approver": "requireDifferentApprover",
    "requireDifferentApprover": "requireDifferentApprover",
}


def _flatten(handed: Any) -> dict[str, str]:
    """The variables of the file around, which it may have from another one."""
    if isinstance(handed, Mapping):
        return {name: text(value) for name, value in handed.items() if value is not None}
    made: dict[str, str] = {}
    for one in handed if isinstance(handed, list) else ():
        made |= _flatten(one)
    return made


def environment(arguments: Any, more: Any = None, order: Any = ()) -> dict[str, str]:
    """The arguments of a run as environment variables, in the order of their file, and others over them."""
    found = dict(arguments) if isinstance(arguments, dict) else {}
    made = _flatten(found.pop(INHERITED, None))
    given = {name: found[name] for name in (*order, *found) if name in found}
    made["LOBSTER_ARGS_JSON"] = encode(given)
    for name, value in given.items():
        key = _ARGUMENT.sub("_", name.upper()).strip("_")
        if key:
            made[f"LOBSTER_ARG_{key}"] = "null" if value is None else text(value)
    for name, value in more.items() if isinstance(more, Mapping) else ():
        if value is not None:
            made[name] = text(value)
    return made


def is_true(value: Any) -> bool:
    """Whether a value counts as true in a condition: an empty list and an empty mapping do."""
    return bool(value) or isinstance(value, (list, dict))


def compare(left: Any, sign: Any, right: Any) -> bool:
    """Compare two numbers, or texts that are numbers; anything else does not compare."""
    numbers = [_number(one) for one in (left, right)]
    if None in numbers:
        return False
    return COMPARISONS[str(sign)](*numbers)


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return float(value)
    return float(value) if isinstance(value, str) and len(value) < 400 and _NUMBER.match(value) else None


def total_cost(results: Any) -> float:
    """What the steps cost together, as far as they said."""
    costs = [one.get("cost_usd", 0) for one in results.values() if isinstance(one, dict)] if results else []
    return sum((float(one) for one in costs if isinstance(one, (int, float))), 0.0)


COMPARISONS: dict[str, Callable[..., bool]] = {
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}

STEP_FILTERS: dict[str, Callable[..., Any]] = {
    "step": step,
    "step_has": has,
    "step_has_at": lambda value, path="": dig(value, str(path), NOTHING) is not NOTHING,
    "step_at": lambda value, path="": dig(value, str(path)),
    "step_text": text,
    "step_env": environment,
    "step_true": is_true,
    "step_compare": compare,
    "step_output": last_output,
    "step_subject": last_value,
    "step_request": request,
    "step_cost": total_cost,
    "step_item": item_record,
}
