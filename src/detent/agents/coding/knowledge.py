"""What past jobs, failures, reviews and people's hints taught about a project: `.detent/knowledge.md`.

The file belongs to people: they read it, change it and delete from it. Every line that detent adds says where it came
from. Planner and worker are given it as material: some of it was said by workers and tests, so nothing in it is an
order.
"""

import re
import time
from collections.abc import Iterable
from pathlib import Path

from detent.agents.coding import active_context
from detent.agents.coding.job import FINAL, Job

FILE = Path(".detent", "knowledge.md")
READ_MAX = 256 * 1024
SHOWN_MAX = 4000
LINE_MAX = 400
OWN_LINES_MAX = 200  # of ours; people's own lines are never dropped
HEAD = """\
# What is known about this project

Lines that begin with a date were added by detent when a job ended. Change or delete what is wrong, and add your own.
Planner and worker get this text as material.

"""
_OWN = re.compile(r"^- \d{4}-\d{2}-\d{2} job \S+ \(")


def read_knowledge(root: str | Path) -> str:
    """The file; empty where there is none."""
    try:
        with (Path(root) / FILE).open("rb") as file:
            return file.read(READ_MAX).decode("utf-8", "replace")
    except OSError:
        return ""


def describe_knowledge(root: str | Path) -> str:
    """The newest of it, for a prompt: quoted line by line, so that nothing in it can pass for a part of the prompt."""
    lines = [line for line in read_knowledge(root).splitlines() if line.strip() and not line.startswith("#")]
    lines = [line for line in lines if line not in HEAD.splitlines()]
    kept: list[str] = []
    for line in reversed(lines):
        if sum(map(len, kept)) + len(line) > SHOWN_MAX:
            break
        kept.append(f"> {line[:LINE_MAX]}")
    return "\n".join(reversed(kept))


def learn(root: str | Path, lines: Iterable[str]) -> int:
    """Add lines that are not there yet; how many."""
    known = read_knowledge(root) or HEAD
    there = set(known.splitlines())
    new = [line for line in dict.fromkeys(lines) if line not in there]
    if not new:
        return 0
    kept = (known.rstrip("\n") + "\n" if known.strip() else HEAD).splitlines() + new
    extra = sum(bool(_OWN.match(line)) for line in kept) - OWN_LINES_MAX
    text = []
    for line in kept:
        if extra > 0 and _OWN.match(line):
            extra -= 1
            continue
        text.append(line)
    active_context.write(Path(root) / FILE, ("\n".join(text) + "\n").encode())
    return len(new)


def list_lessons(job: Job, run_id: str, outcome: str, at: float) -> list[str]:
    """What a job that has ended taught: what people said, what blocked it, what was flaky or missing."""
    found: list[tuple[str, str]] = []
    for task_id, progress in job.tasks.items():
        said = (hint.partition("\n")[0] for hint in progress.hints)  # a remark, without the hunk it was about
        found += [("review" if task_id == FINAL else f"hint for {task_id}", words) for words in said]
        if progress.repairs and progress.faults:
            first = progress.faults[0]
            found.append((f"{task_id} failed", f"{first.step} {first.test}: {first.message}"))
    if job.blocked is not None and outcome != "archived":
        found.append((f"{outcome}, {job.blocked.reason}", f"{job.requirement}: {job.blocked.detail}"))
    elif outcome != "archived":
        found.append((outcome, job.requirement))
    for evidence in filter(None, (job.final, *(one.evidence for one in job.tasks.values()))):
        found += [("checks", note) for note in evidence.notes if note.startswith("flaky")]
    if job.baseline is not None and job.baseline.only_here:
        names = ", ".join(one.test for one in job.baseline.only_here[:3])
        found.append(("checks", f"these tests pass only in the user's own tree: {names}"))
    day = time.strftime("%Y-%m-%d", time.gmtime(at))
    told = ((why, " ".join(text.split())[:LINE_MAX]) for why, text in found)
    return list(dict.fromkeys(f"- {day} job {run_id[:12]} ({why}): {text}" for why, text in told if text))
