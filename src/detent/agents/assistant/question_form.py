"""What a waiting execution asks of a person: the form clients show, and their response as an answer to its question.

Five things are asked: a form of the assistant's own, whether a call may be made, whether one may be made again, what
became of a call nobody heard from again, and whatever a tool wants to know in the middle of its work.
"""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from detent.agents.assistant.execution_ledger import Execution
from detent.agents.assistant.execution_wording import word_action
from detent.agents.assistant.form import DEFAULT_ACTIONS, FIELDS_MAX, misfits
from detent.core.contract import ASKED
from detent.core.status import Status
from detent.host.standing import shorten

CONFIRMATION, REPEAT, DOUBT, TOOL_QUESTION = "confirmation", "repeat", "outcome_unknown", "tool_question"
OUTCOMES = {
    "happened": "It happened",
    "not_happened": "It did not happen: do it now",
    "give_up": "Give up; it stays in doubt",
}
DOUBT_FIELDS: tuple[dict[str, Any], ...] = (
    {"name": "outcome", "type": "radio", "label": "What became of it?", "required": True,
     "options": [{"value": value, "label": label} for value, label in OUTCOMES.items()]},
    {"name": "result", "type": "textarea", "label": "If it happened: what it gave", "required": False},
)  # fmt: skip
AGAIN, USE = "again", "use"
REPEAT_FIELDS: tuple[dict[str, Any], ...] = (
    {"name": "repeat", "type": "radio", "label": "It was done before. What now?", "required": True,
     "options": [{"value": AGAIN, "label": "Do it again"}, {"value": USE, "label": "Use what it gave"}]},
)  # fmt: skip
REPEAT_ACTIONS = (
    {"id": "approve", "label": "Answer", "style": "primary"},
    {"id": "reject", "label": "Stop", "style": "danger"},
)
DOUBT_ACTIONS = (
    {"id": "approve", "label": "Answer", "style": "primary"},
    {"id": "reject", "label": "Give up", "style": "danger"},
)


CHINESE = {
    "What became of it?": "结果如何？", "It happened": "已经发生", "It did not happen: do it now": "没有发生：现在执行",
    "Give up; it stays in doubt": "放弃；结果仍不明确", "If it happened: what it gave": "如果已经发生：它给出了什么",
    "It was done before. What now?": "以前已经执行过。现在怎么办？", "Do it again": "再执行一次",
    "Use what it gave": "使用以前的结果", "Answer": "回答", "Stop": "停止", "Give up": "放弃", "OK": "确认",
    "Edit": "修改", "Cancel": "取消",
}  # fmt: skip


def is_asked(execution: Execution) -> bool:
    """Whether it waits for a person, and not for a time or a signal."""
    question = execution.question
    return execution.status is Status.WAITING and question is not None and question.reason in ASKED


def kind(execution: Execution) -> str:
    """What is asked: the intent of a form that is not the assistant's own, else an empty word."""
    if execution.detail.get("type") == CONFIRMATION:
        return REPEAT if execution.question is not None and execution.question.earlier else CONFIRMATION
    if execution.type != "tool_call":
        return ""
    return DOUBT if execution.question is not None and execution.question.reason == "outcome_unknown" else TOOL_QUESTION


def form_of(execution: Execution) -> dict[str, Any]:
    """What a person must see: the form, or the exact call that the question is about."""
    detail, asked = execution.detail, kind(execution)
    if not asked:
        return {"id": execution.id, **{name: value for name, value in detail.items() if name != "request"}}
    call = detail["call"] if asked in (CONFIRMATION, REPEAT) else detail
    about = {"call": {name: call[name] for name in ("service", "method", "args")},
             "execution_id": detail.get("execution_id", execution.id), **_explain_doubt(execution, asked)}  # fmt: skip
    return {
        "id": execution.id,
        "type": "form",
        "title": _title(execution, asked),
        "description": "",
        "fields": _fields(execution, asked),
        "actions": [_in_language(action, execution) for action in ACTIONS.get(asked, DEFAULT_ACTIONS)],
        "context": {"intent": asked, "extra": about},
    }


def _title(execution: Execution, asked: str) -> str:
    """The question; of a doubt the engine speaks English, and whoever is asked may not."""
    if asked == DOUBT and execution.language == "zh":
        return f"{word_action(execution.summary)}：可能已经发生。它发生了吗？"
    return execution.question.text if execution.question is not None else execution.summary


def _in_language(given: Any, execution: Execution) -> Any:
    """A part of a form with its labels in the language of whoever is asked."""
    if isinstance(given, list | tuple):
        return [_in_language(one, execution) for one in given]
    if not isinstance(given, Mapping):
        return given
    translated = {"label": CHINESE.get(given["label"], given["label"])} if "label" in given else {}
    if execution.language != "zh":
        translated = {}
    return {**{name: _in_language(value, execution) for name, value in given.items()}, **translated}


ACTIONS = {DOUBT: DOUBT_ACTIONS, REPEAT: REPEAT_ACTIONS}
FIELDS = {DOUBT: DOUBT_FIELDS, REPEAT: REPEAT_FIELDS}


def _explain_doubt(execution: Execution, asked: str) -> dict[str, Any]:
    """What is known of a call in doubt (why, until when it may land), or of the same call made before."""
    question = execution.question
    if question is None or asked not in FIELDS:
        return {}
    if asked == REPEAT:
        return {"earlier": shorten(question.earlier)}
    return {name: question.data[name] for name in ("cause", "result", "lands_until") if name in question.data}


def _fields(execution: Execution, asked: str) -> list[dict[str, Any]]:
    if asked in FIELDS:
        return [_in_language(field, execution) for field in FIELDS[asked]]
    schema = execution.question.schema if execution.question is not None else {}
    return list(islice(fields_of(schema), FIELDS_MAX)) if asked == TOOL_QUESTION else []


def answer_of(execution: Execution, action: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """A client's approve, edit or reject as an answer to the question."""
    asked = kind(execution)
    if asked == DOUBT:
        # A doubt has no no: whoever will not say what happened gives up, and the key stays taken.
        return {"outcome": "give_up"} if action == "reject" else {
            "outcome": str(data.get("outcome", "")), "result": data.get("result")}  # fmt: skip
    if action == "reject":
        return {"approved": False}
    if asked == REPEAT:
        return {"outcome": USE} if data.get("repeat") == USE else {"approved": True}
    if asked == CONFIRMATION:
        return {"approved": True, "args": dict(data)} if action == "edit" and data else {"approved": True}
    schema = execution.question.schema if execution.question is not None else {}
    return {"data": unfold(schema, data)}


def problems(execution: Execution, action: str, data: Mapping[str, Any]) -> list[str]:
    """What is wrong with a response that the question's schema does not see."""
    if action == "reject":
        return []
    asked = kind(execution)
    if asked == DOUBT and data.get("outcome") not in OUTCOMES:
        return [f"data.outcome must be one of {', '.join(OUTCOMES)}"]
    if asked == REPEAT and data.get("repeat") not in (AGAIN, USE):
        return [f"data.repeat must be {AGAIN} or {USE}"]
    return misfits(execution.detail, data) if not asked else []


def fields_of(schema: Mapping[str, Any], within: str = "") -> Iterator[dict[str, Any]]:
    """The fields of a JSON Schema; those of an object inside it are named `object.field`."""
    required = schema.get("required")
    for name, one in _properties(schema).items():
        if one.get("type") == "object" and not within:
            yield from fields_of(one, f"{name}.")
        else:
            is_needed = isinstance(required, list) and name in required
            yield {**_field(one), "name": f"{within}{name}", "label": str(one.get("title") or name),
                   "required": is_needed}  # fmt: skip


def unfold(schema: Mapping[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """Data by field names as the schema has it, with its objects made again."""
    objects = {name for name, one in _properties(schema).items() if one.get("type") == "object"}
    found: dict[str, Any] = {}
    for name, value in data.items():
        outer, dot, inner = name.partition(".")
        if dot and outer in objects:
            found.setdefault(outer, {})[inner] = value
        else:
            found[name] = value
    return found


def _properties(schema: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    given = schema.get("properties")
    return {name: one for name, one in given.items() if isinstance(one, dict)} if isinstance(given, dict) else {}


def _field(one: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a field that its own schema says."""
    items = one.get("items")
    is_list = one.get("type") == "array"
    options = _options(items if is_list and isinstance(items, dict) else one)
    field: dict[str, Any] = {"type": _type(one, has_options=bool(options))}
    more = {"options": options, "placeholder": one.get("description"), "default": one.get("default"),
            "min": one.get("minimum"), "max": one.get("maximum")}  # fmt: skip
    return field | {name: value for name, value in more.items() if value not in (None, [])}


def _type(one: Mapping[str, Any], *, has_options: bool) -> str:
    if one.get("type") == "array":
        return "multiselect" if has_options else "textarea"
    if has_options:
        return "select"
    if one.get("type") in ("number", "integer"):
        return "number"
    if one.get("type") == "boolean":
        return "boolean"
    return {"date": "date", "date-time": "datetime"}.get(str(one.get("format")), "text")


def _options(one: Mapping[str, Any]) -> list[dict[str, str]]:
    """Choices, written as plain words or each with a title."""
    words, titles = one.get("enum"), one.get("enumNames")
    if isinstance(words, list):
        named = titles if isinstance(titles, list) and len(titles) == len(words) else words
        return [{"value": str(value), "label": str(label)} for value, label in zip(words, named, strict=True)]
    titled = one.get("oneOf") or one.get("anyOf")
    found = [each for each in titled if isinstance(each, dict) and "const" in each] if isinstance(titled, list) else []
    return [{"value": str(each["const"]), "label": str(each.get("title") or each["const"])} for each in found]
