"""`active_context.md`: a page that shows where a job stands, and what becomes of what people write into it.

The journal is the truth and the page is a view of it, rewritten as a whole. Free text in the scratchpad and front
matter that is not ours is kept for ever; edits of open tasks are handed on; edits of facts are noticed, saved beside
the page and overruled. Whatever the page looks like, reading it never fails.
"""

import difflib
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import yaml

from detent.agents.coding.job import FINAL, Job, TaskStatus
from detent.agents.coding.plan_parser import front_matter, parse_list
from detent.core.value import digest
from detent.whole_file import FOR_ALL, write_whole

FILE, STORED, EDITS = "active_context.md", ".projection.json", "task-edits.json"
READ_MAX = 4 * 1024 * 1024
SCRATCH_MAX = 200_000
HISTORY_LINES = 5
OWN_KEYS = (
    "session_id", "task_status", "auto_fix_attempts", "last_checkpoint", "revision", "plan_digest", "current_task",
    "blocked_reason", "paused",
)  # fmt: skip
MARKS: dict[TaskStatus, str] = {"DONE": "x", "SKIPPED": "-", "BLOCKED": "!", "IN_PROGRESS": "~", "PENDING": " "}
_NOTICE = "> detent: "


DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class TaskEdit(msgspec.Struct, frozen=True, omit_defaults=True):
    """What somebody did to one line of the queue."""

    id: str
    what: str  # changed, added, removed
    title: str = ""
    priority: int = 1


class Stored(msgspec.Struct, frozen=True):
    """The last page that was written, and the digest of the one before it."""

    text: str = ""
    before: str = ""
    revision: int = 0
    run_id: str = ""
    notice: str = ""
    scratchpad: str = ""
    keys: dict[str, Any] = {}


class Hand(msgspec.Struct, frozen=True):
    """What people wrote into the page since."""

    scratchpad: str = ""
    keys: dict[str, Any] = {}
    tasks: tuple[TaskEdit, ...] = ()
    overruled: tuple[str, ...] = ()
    is_lost: bool = False  # the page was gone or unreadable


def page_of(root: str) -> Path:
    """Where the page is."""
    return Path(root) / ".detent" / "code" / FILE


def project(job: Job, run_id: str, state: str, *, is_paused: bool = False) -> Hand:
    """Bring the page up to date; returns what people had written into it."""
    page = page_of(job.root)
    page.parent.mkdir(parents=True, exist_ok=True)
    stored, present = _read_stored(page), _text(page)
    hand = compare(stored, present)
    if hand.tasks:
        _keep_edits(page.parent / run_id, hand.tasks)
    notice = stored.notice if stored.run_id == run_id else ""
    if hand.overruled:
        aside = _aside(page, present)
        notice = f"{'; '.join(hand.overruled)} – the journal decides; what was here is in {aside.name}"
    if not hand.scratchpad and hand.is_lost:
        hand = msgspec.structs.replace(hand, scratchpad=job.scratchpad)
    facts = _facts(job, run_id, state, is_paused)
    text = render(job, facts, hand, stored.revision, notice)
    if text == present:
        return hand
    revision = stored.revision + 1
    text = render(job, facts, hand, revision, notice)
    keys = _plain(hand.keys)
    kept = Stored(text, digest(stored.text), revision, run_id, notice, hand.scratchpad, keys)
    # The journal has all but what people wrote: only that must be on disk, and once is enough.
    write(page.with_name(STORED), msgspec.json.encode(kept), is_durable=bool(hand.scratchpad or keys))
    write(page, text.encode(), is_durable=False)
    return hand


def compare(stored: Stored, present: str) -> Hand:
    """What in the page is not ours."""
    if present == stored.text:
        return Hand(stored.scratchpad, stored.keys)
    was_front, was_body = front_matter(stored.text)
    front, body = front_matter(present)
    keys = {str(key): value for key, value in front.items() if key not in OWN_KEYS}
    scratch = _section(body, "Scratchpad")
    if digest(present) == stored.before:
        return Hand(scratch, keys)  # ours, from before a crash
    if not present.strip() or not front:
        kept = {str(key): value for key, value in was_front.items() if key not in OWN_KEYS}
        told = ("its front matter was gone or broken",) if present.strip() else ()
        return Hand(scratch or _section(was_body, "Scratchpad"), keys or kept, overruled=told, is_lost=True)
    overruled = [
        f"`{key}` was changed by hand"
        for key in OWN_KEYS
        if stored.text and front.get(key) != was_front.get(key) and key != "revision"
    ]
    tasks, refused = _task_edits(_section(was_body, "Task Queue"), _section(body, "Task Queue"))
    for name in ("Current Goal", "History"):
        if stored.text and _section(body, name) != _section(was_body, name):
            overruled.append(f"`{name}` was changed by hand")
    if re.search(r"^(<{7}|>{7}) ", body, re.MULTILINE):
        overruled.append("there were conflict markers")
    return Hand(scratch, keys, tuple(tasks), (*overruled, *refused))


def _task_edits(was: str, now: str) -> tuple[list[TaskEdit], list[str]]:
    if was == now or not was:
        return [], []
    before = {task.id: task for task in parse_list(was.split("\n"))}
    after = {task.id: task for task in parse_list(now.split("\n"))}
    open_ids = {task_id for mark, task_id in re.findall(r"^- \[(.)\] (\S+)", was, re.MULTILINE) if mark == " "}
    edits: list[TaskEdit] = []
    refused: list[str] = []
    for task_id, task in after.items():
        old = before.get(task_id)
        if old is None:
            edits.append(TaskEdit(task_id, "added", task.title, task.priority))
        elif (old.title, old.priority) != (task.title, task.priority):
            if task_id in open_ids:
                edits.append(TaskEdit(task_id, "changed", task.title, task.priority))
            else:
                refused.append(f"{task_id} is running or done and was not changed")
        elif old.is_done != task.is_done:
            refused.append(f"{task_id} was ticked by hand; only evidence does that")
    for task_id in before.keys() - after.keys():
        if task_id in open_ids:
            edits.append(TaskEdit(task_id, "removed"))
        else:
            refused.append(f"{task_id} is running or done and stays")
    return edits, refused


def take_edits(folder: Path) -> tuple[TaskEdit, ...]:
    """The edits of open tasks that wait to be applied; they are then gone from here."""
    path = folder / EDITS
    try:
        edits = msgspec.json.decode(path.read_bytes(), type=tuple[TaskEdit, ...])
    except (OSError, msgspec.MsgspecError):
        return ()
    path.unlink(missing_ok=True)
    return edits


def _keep_edits(folder: Path, edits: tuple[TaskEdit, ...]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    waiting = take_edits(folder)
    write(folder / EDITS, msgspec.json.encode((*waiting, *edits)))


def put_back(root: str, run_id: str) -> bool:
    """Undo what was done to the page while a worker was at work: whether there was anything."""
    page = page_of(root)
    stored = _read_stored(page)
    if not stored.text or _text(page) == stored.text:
        return False
    _aside(page, _text(page), f"worker-{run_id}")
    write(page, stored.text.encode())
    return True


def _facts(job: Job, run_id: str, state: str, is_paused: bool) -> dict[str, Any]:
    task = job.step.task or (job.blocked.task if job.blocked else "")
    return {
        "session_id": run_id,
        "task_status": state,
        "auto_fix_attempts": job.progress(task).repairs if task else 0,
        "last_checkpoint": job.last_checkpoint,
        "plan_digest": job.plan.digest if job.plan else "",
        "current_task": task,
        "blocked_reason": job.blocked.reason if job.blocked and state == "BLOCKED" else "",
        "paused": is_paused,
    }


def render(job: Job, facts: dict[str, Any], hand: Hand, revision: int, notice: str) -> str:
    """The page."""
    front = yaml.dump({**facts, "revision": revision, **hand.keys}, Dumper=DUMPER, sort_keys=False, allow_unicode=True)
    goal = (job.plan.body.goal or job.plan.body.title) if job.plan else job.requirement
    lines = ["---", front.strip(), "---", ""]
    if notice:
        lines += [f"{_NOTICE}{notice}", ""]
    lines += ["# Active context", "", "## Current Goal", "", goal.strip() or "–", "", "## Task Queue", ""]
    for task in job.plan.body.tasks if job.plan else ():
        progress = job.progress(task.id)
        lines.append(f"- [{MARKS[progress.status]}] {task.id} (P{task.priority}) {task.title}")
    if FINAL in job.tasks:
        lines.append(f"  Final verification: {job.tasks[FINAL].status}")
    lines += ["", "## Scratchpad", "", hand.scratchpad[:SCRATCH_MAX], "", "## History", ""]
    lines += [f"- {note.text}" for note in job.log[-HISTORY_LINES:]]
    return "\n".join(lines).rstrip() + "\n"


def _plain(keys: dict[str, Any]) -> dict[str, Any]:
    """Front matter of people's own as JSON: dates and the like as text."""
    plain: dict[str, Any] = json.loads(json.dumps(keys, default=str))
    return plain


def _section(body: str, name: str) -> str:
    """What stands under a heading, up to the next one of ours."""
    own = "Current Goal|Task Queue|Scratchpad|History"
    found = re.search(rf"^## {name}[ \t]*\n(.*?)(?=^## (?:{own})[ \t]*$|\Z)", body, re.DOTALL | re.MULTILINE)
    return found.group(1).strip("\n") if found else ""


def _read_stored(page: Path) -> Stored:
    try:
        return msgspec.json.decode(page.with_name(STORED).read_bytes(), type=Stored)
    except (OSError, msgspec.MsgspecError):
        return Stored()


def _text(page: Path) -> str:
    try:
        with page.open("rb") as file:
            return file.read(READ_MAX).decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n")
    except OSError:
        return ""


def _aside(page: Path, text: str, mark: str = "edited") -> Path:
    """Save a page beside itself, once for each different one."""
    aside = page.with_name(f"{page.stem}.{mark}-{digest(text)[:8]}.md")
    if not aside.exists():
        write(aside, text.encode())
    return aside


def write(path: Path, body: bytes, *, is_durable: bool = True) -> None:
    """The whole file or nothing, on disk before it is seen; not `is_durable`: it can be made again."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, body, mode=FOR_ALL, is_durable=is_durable)


def difference_of(before: str, after: str, name: str) -> str:
    """Two texts as a patch, for people."""
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), f"{name} (before)", f"{name} (now)", lineterm=""
    )
    return "\n".join(lines)


def json_file(path: Path, value: Any) -> None:
    """A JSON file, atomically."""
    write(path, json.dumps(value, ensure_ascii=False, indent=1).encode())
