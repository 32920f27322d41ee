"""Plans as people and other tools write them, read into one form.

Read are: the canonical list, a list with checkboxes and nested lines, a table, spec-kit's and OpenSpec's task lists
(all Markdown, LF or CRLF, with or without a byte order mark), and Taskmaster's `tasks.json`.
"""

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import yaml

from detent.agents.coding.plan import TEXT_MAX, Task, TaskPlan, check_plan
from detent.errors import Refused

SOURCE_MAX = 2 * 1024 * 1024
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times faster where libyaml is there
_ID = r"(?:[A-Za-z]+-?\d+(?:\.\d+)*|\d+(?:\.\d+)*\.?)"
_ITEM = re.compile(
    rf"^(?P<indent>\s*)[-*+]\s+\[(?P<mark>[ xX~!-])\]\s+(?:\*\*)?(?P<id>{_ID})(?:\*\*)?[:.)]?\s+(?P<rest>\S.*)$"
)
_LOOSE = re.compile(r"^(?P<indent>\s*)[-*+]\s+\[(?P<mark>[ xX~!-])\]\s+(?P<rest>\S.*)$")
_NESTED = re.compile(r"^\s+[-*+]?\s*(?:\*\*)?(?P<key>[\w ]+?)(?:\*\*)?\s*[:：]\s*(?P<value>.*)$")
_PRIORITY = re.compile(r"^[\[(]\s*P(?P<p>\d)\s*[\])]\s*|^P(?P<q>\d)\s+")
_TAG = re.compile(r"^\[(?:P|US\d+|Story \d+)\]\s*")
_CODE = re.compile(r"`([^`]+)`")
_HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*\s*$")
_FRONT = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)

SECTIONS = {
    "goal": "goal", "overview": "goal", "目标": "goal", "概述": "goal",
    "scope": "scope", "范围": "scope",
    "out of scope": "out_of_scope", "non-goals": "out_of_scope", "不在范围": "out_of_scope",
    "risks": "risks", "风险": "risks",
    "tasks": "tasks", "task queue": "tasks", "任务": "tasks", "任务列表": "tasks",
    "notes": "notes", "备注": "notes",
}  # fmt: skip
KEYS = {
    "verify": "verify", "验证": "verify", "test": "verify",
    "files": "files", "file": "files", "文件": "files",
    "depends": "depends", "depends on": "depends", "dependencies": "depends", "依赖": "depends",
    "accept": "acceptance", "acceptance": "acceptance", "验收": "acceptance", "验收标准": "acceptance",
    "fewer tests": "fewer_tests", "no change": "no_change",
    "mends": "mends", "mend": "mends", "修复": "mends",
    "priority": "priority", "优先级": "priority",
}  # fmt: skip
COLUMNS = {
    "id": "id", "编号": "id", "task id": "id", "任务id": "id",
    "name": "title", "title": "title", "task": "title", "名称": "title", "任务": "title", "任务名称": "title",
    "status": "status", "状态": "status",
    "description": "about", "描述": "about", "说明": "about",
    "dependencies": "depends", "depends": "depends", "依赖": "depends",
    "acceptance": "acceptance", "验收": "acceptance", "验收标准": "acceptance",
    "priority": "priority", "优先级": "priority",
    "files": "files", "文件": "files", "verify": "verify", "验证": "verify",
}  # fmt: skip
WORDS = {"high": 0, "medium": 1, "low": 2, "critical": 0}
DONE = ("done", "completed", "x", "✅", "完成", "已完成")


def read(source: str, title: str = "") -> TaskPlan:
    """The plan in a document; refused with what is missing or wrong."""
    if len(source) > SOURCE_MAX:
        raise Refused(f"the plan has {len(source):,} characters; at most {SOURCE_MAX:,} are read")
    text = source.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if "\n<<<<<<< " in f"\n{text}" and "\n>>>>>>> " in text:
        raise Refused("the plan has conflict markers in it (`<<<<<<<`); settle them first")
    if text.lstrip().startswith(("{", "[")):
        return check_plan(_taskmaster(text, title))
    return check_plan(_markdown(text, title))


def front_matter(text: str) -> tuple[dict[str, Any], str]:
    """The front matter of a document and the rest; broken front matter counts as none."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    found = _FRONT.match(text)
    if not found:
        return {}, text
    try:
        value = yaml.load(found.group(1), Loader=LOADER)  # noqa: S506  # safe, either of them
    except (yaml.YAMLError, ValueError, RecursionError):
        return {}, text[found.end() :]
    return (value if isinstance(value, dict) else {}), text[found.end() :]


def _markdown(text: str, title: str) -> TaskPlan:
    front, body = front_matter(text)
    parts: dict[str, list[str]] = {}
    section, heading, fence = "", "", False
    for line in body.split("\n"):
        if line.lstrip().startswith("```"):
            fence = not fence
        found = None if fence else _HEADING.match(line)
        if found:
            name = re.sub(r"^\d+[.)]?\s*", "", found.group(2)).strip().rstrip(":：").lower()
            heading = heading or (found.group(2) if len(found.group(1)) == 1 else "")
            section = SECTIONS.get(name, section if section == "tasks" else "")
            continue
        parts.setdefault(section, []).append(line)
    every = [line for lines in parts.values() for line in lines]
    tasks = parse_list(parts.get("tasks", [])) or _parse_table(every) or parse_list(every)
    named = front.get("title") if isinstance(front.get("title"), str) else ""
    return TaskPlan(
        title=_clean(heading or str(named or "") or title or "Plan"),
        goal=_prose(parts.get("goal", [])),
        scope=_items(parts.get("scope", [])),
        out_of_scope=_items(parts.get("out_of_scope", [])),
        risks=_items(parts.get("risks", [])),
        tasks=tuple(tasks),
        notes=_prose(parts.get("notes", [])),
    )


def parse_list(lines: list[str]) -> list[Task]:
    """Tasks written as a list with checkboxes, their facts on nested lines."""
    tasks: list[dict[str, Any]] = []
    depth = -1
    for line in lines:
        found = _ITEM.match(line) or _LOOSE.match(line)
        if found and (depth < 0 or len(found["indent"]) <= depth or "id" in found.re.groupindex):
            depth = len(found["indent"])
            given = found.groupdict()
            tasks.append(_item(given.get("id") or "", given["mark"], given["rest"], len(tasks) + 1))
        elif tasks and line.strip() and line[:1] in " \t":
            _add_fact(tasks[-1], line)
    return [_task(given) for given in tasks]


def _item(task_id: str, mark: str, rest: str, number: int) -> dict[str, Any]:
    given: dict[str, Any] = {"id": task_id.rstrip(".") or f"T-{number:03d}", "is_done": mark in "xX"}
    while found := _PRIORITY.match(rest) or _TAG.match(rest):
        if found.re is _PRIORITY:
            given["priority"] = found["p"] or found["q"]
        elif found.group(0).startswith("[P]"):
            given["is_parallel"] = True
        rest = rest[found.end() :]
    given["title"] = rest
    return given


def _add_fact(task: dict[str, Any], line: str) -> None:
    found = _NESTED.match(line)
    key = KEYS.get(found["key"].strip().lower()) if found else None
    if found and key in ("acceptance", "files", "depends", "mends"):
        task.setdefault(key, []).append(found["value"])
    elif found and key:
        task[key] = found["value"]
    else:
        task.setdefault("about", []).append(line.strip())


def _parse_table(lines: list[str]) -> list[Task]:
    """Tasks written as a table whose head names its columns."""
    tasks: list[Task] = []
    columns: list[str] = []
    for line in lines:
        if "|" not in line:
            columns = [] if line.strip() else columns
            continue
        cells = [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        if all(re.fullmatch(r":?-{2,}:?", cell) for cell in cells):
            continue
        named = [COLUMNS.get(cell.lower(), "") for cell in cells]
        if "id" in named and "title" in named:
            columns = named
        elif columns:
            given: dict[str, Any] = {key: cell for key, cell in zip(columns, cells, strict=False) if key and cell}
            if not re.fullmatch(_ID, given.get("id", "").strip("`*")):
                continue
            given["id"] = given["id"].strip("`*")
            given["is_done"] = any(word in given.pop("status", "").lower() for word in DONE)
            tasks.append(_task(given))
    return tasks


def _taskmaster(text: str, title: str) -> TaskPlan:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refused(f"the plan looks like JSON and is not: {error}") from None
    if isinstance(value, dict) and not isinstance(value.get("tasks"), list):
        value = next((v for v in value.values() if isinstance(v, dict) and isinstance(v.get("tasks"), list)), value)
    items = value.get("tasks") if isinstance(value, dict) else value
    if not isinstance(items, list):
        raise Refused("the plan is JSON without a list of `tasks`")
    tasks: list[Task] = []
    for item in items:
        tasks += _master(item, "")
    return TaskPlan(title=title or "Plan", tasks=tuple(tasks))


def _master(item: Any, above: str) -> list[Task]:
    if not isinstance(item, dict) or "id" not in item:
        raise Refused("an item of `tasks` has no `id`")
    own = f"{above}.{item['id']}" if above else str(item["id"])
    inner = [task for sub in item.get("subtasks") or [] for task in _master(sub, own)]
    prefix = f"{above}." if above else ""
    depends = [f"{prefix}{other}" if "." not in str(other) else str(other) for other in item.get("dependencies") or []]
    about = "\n".join(str(item[key]) for key in ("description", "details") if item.get(key))
    given = {
        "id": own,
        "title": str(item.get("title") or own),
        "priority": str(item.get("priority") or "medium"),
        "about": about.split("\n"),
        "depends": [", ".join([*depends, *(task.id for task in inner if task.id.count(".") == own.count(".") + 1)])],
        "acceptance": [str(item["testStrategy"])] if item.get("testStrategy") else [],
        "no_change": bool(inner),  # its parts are the work
        "is_done": str(item.get("status")) in DONE,
    }
    return [*inner, _task(given)]


def _task(given: dict[str, Any]) -> Task:
    """One task from what was written, whatever way it was written."""
    value: dict[str, Any] = {"id": _clean(given["id"]), "title": _clean(given.get("title") or given["id"])}
    priority = str(given.get("priority", "P1")).strip().lower().lstrip("p")
    value["priority"] = WORDS.get(priority, int(priority[0]) if priority[:1].isdigit() else 1)
    about = given.get("about", "")
    value["about"] = ("\n".join(about) if isinstance(about, list) else str(about)).strip()[:TEXT_MAX]
    value["files"] = _split(given.get("files", []), lambda text: _CODE.findall(text) or re.split(r"[,，;\s]+", text))
    value["mends"] = _split(given.get("mends", []), lambda text: _CODE.findall(text) or re.split(r"[,，;]+", text))
    value["depends"] = _split(given.get("depends", []), lambda text: re.findall(_ID, text))
    accept = given.get("acceptance", [])
    value["acceptance"] = tuple(_clean(item) for item in ([accept] if isinstance(accept, str) else accept) if item)
    value["verify"] = _command(str(given.get("verify", "")))
    if str(given.get("fewer_tests", "")).isdecimal():
        value["fewer_tests"] = int(given["fewer_tests"])
    value["no_change"] = bool(given.get("no_change"))
    value["is_done"] = bool(given.get("is_done"))
    value["is_parallel"] = bool(given.get("is_parallel"))
    try:
        return msgspec.convert(value, Task, strict=False)
    except msgspec.ValidationError as error:
        raise Refused(f"task {value['id']}: {error}") from None


def _split(given: str | Iterable[str], pieces: Callable[[str], list[str]]) -> tuple[str, ...]:
    texts = [given] if isinstance(given, str) else list(given)
    found = [piece.strip().rstrip(".") for text in texts for piece in pieces(text)]
    return tuple(dict.fromkeys(piece for piece in found if piece))


def _command(text: str) -> str:
    """A verify line is a command only where it is written as one; prose is for people."""
    found = _CODE.search(text)
    if found:
        return found.group(1).strip()
    return ""


def _clean(text: str) -> str:
    return " ".join(str(text).split())[:TEXT_MAX].strip()


def _items(lines: list[str]) -> tuple[str, ...]:
    found = [re.sub(r"^\s*(?:[-*+]|\d+[.)])\s+", "", line).strip() for line in lines]
    return tuple(item for item in found if item)


def _prose(lines: list[str]) -> str:
    return "\n".join(line.rstrip() for line in lines).strip()[:TEXT_MAX]
