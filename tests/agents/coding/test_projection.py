"""`active_context.md`: a view of the journal that people may write into."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from detent.agents.coding import active_context
from detent.agents.coding.active_context import Hand, Stored, compare, page_of, project, take_edits
from detent.agents.coding.job import Blocked, Job, Planned, update_task
from detent.agents.coding.plan import Task, TaskPlan
from detent.agents.coding.plan_parser import front_matter
from tests.agents.coding.world import configured, office, worker
from tests.agents.coding.world import project as made
from tests.effort import examples


def job(root: Path) -> Job:
    tasks = (Task("T-001", "First"), Task("T-002", "Second"), Task("T-003", "Third"))
    planned = Planned(TaskPlan("Title", "The goal.", tasks=tasks), "d1gest")
    return update_task(Job(root=str(root), plan=planned, last_checkpoint="chk-1"), "T-001", status="DONE", repairs=2)


def edit(root: Path, old: str, new: str) -> None:
    page = page_of(str(root))
    text = page.read_text()
    assert old in text
    page.write_text(text.replace(old, new))


def test_the_page_has_the_seeds_front_matter(tmp_path: Path) -> None:
    project(job(tmp_path), "run1", "EXECUTING")
    front, body = front_matter(page_of(str(tmp_path)).read_text())
    assert front["session_id"] == "run1"
    assert (front["task_status"], front["auto_fix_attempts"]) == ("EXECUTING", 0)
    assert front["last_checkpoint"] == "chk-1"
    assert "- [x] T-001 (P1) First\n- [ ] T-002 (P1) Second" in body
    text = page_of(str(tmp_path)).read_text()
    project(job(tmp_path), "run1", "EXECUTING")
    assert page_of(str(tmp_path)).read_text() == text  # nothing changed, so neither did the page


def test_notes_and_keys_of_ones_own_are_kept_for_ever(tmp_path: Path) -> None:
    project(job(tmp_path), "run1", "EXECUTING")
    edit(tmp_path, "## Scratchpad\n", "## Scratchpad\n\nRemember the milk.\n\n### Mine\n- a\n")
    edit(tmp_path, "paused: false", "paused: false\nmood: fine")
    for state in ("AUTO_FIX", "BLOCKED", "IDLE"):
        hand = project(job(tmp_path), "run1", state)
        assert hand.scratchpad == "Remember the milk.\n\n### Mine\n- a"
        assert hand.keys == {"mood": "fine"}
        assert not hand.overruled
    page = page_of(str(tmp_path)).read_text()
    assert "Remember the milk." in page
    assert "mood: fine" in page
    assert "task_status: IDLE" in page


def test_facts_are_overruled_reported_and_saved_beside(tmp_path: Path) -> None:
    project(job(tmp_path), "run1", "EXECUTING")
    edit(tmp_path, "task_status: EXECUTING", "task_status: IDLE")
    edit(tmp_path, "- [ ] T-002", "- [x] T-002")
    hand = project(job(tmp_path), "run1", "EXECUTING")
    assert len(hand.overruled) == 2
    page = page_of(str(tmp_path)).read_text()
    assert "task_status: EXECUTING" in page
    assert "- [ ] T-002" in page
    assert "> detent: `task_status` was changed by hand" in page
    (aside,) = page_of(str(tmp_path)).parent.glob("active_context.edited-*.md")
    assert "task_status: IDLE" in aside.read_text()
    project(job(tmp_path), "run1", "AUTO_FIX")
    assert "> detent:" in page_of(str(tmp_path)).read_text()  # it stays where people will see it


def test_edits_of_open_tasks_are_handed_on_and_others_are_not(tmp_path: Path) -> None:
    project(job(tmp_path), "run1", "EXECUTING")
    edit(tmp_path, "- [ ] T-002 (P1) Second", "- [ ] T-002 (P0) Second, better\n- [ ] T-009 (P2) New")
    edit(tmp_path, "- [ ] T-003 (P1) Third\n", "")
    edit(tmp_path, "T-001 (P1) First", "T-001 (P1) Changed")
    hand = project(job(tmp_path), "run1", "EXECUTING")
    assert hand.overruled == ("T-001 is running or done and was not changed",)
    taken = take_edits(page_of(str(tmp_path)).parent / "run1")
    assert [(e.id, e.what, e.priority) for e in taken] == [
        ("T-002", "changed", 0),
        ("T-009", "added", 2),
        ("T-003", "removed", 1),
    ]
    assert take_edits(page_of(str(tmp_path)).parent / "run1") == ()


@pytest.mark.parametrize(
    "text", ["", "nonsense", "---\n: [broken\n---\n", "---\nno end", "<<<<<<< a\n=======\n>>>>>>> b\n"]
)
def test_a_page_that_is_gone_or_broken_comes_back(text: str, tmp_path: Path) -> None:
    given = project(job(tmp_path), "run1", "EXECUTING")
    edit(tmp_path, "## Scratchpad\n", "## Scratchpad\n\nkeep me\n")
    project(job(tmp_path), "run1", "EXECUTING")
    page_of(str(tmp_path)).write_text(text)
    project(job(tmp_path), "run1", "BLOCKED")
    page = page_of(str(tmp_path)).read_text()
    assert "task_status: BLOCKED" in page
    assert "keep me" in page
    assert given.keys == {}


def test_windows_line_ends_are_no_edit(tmp_path: Path) -> None:
    project(job(tmp_path), "run1", "EXECUTING")
    page = page_of(str(tmp_path))
    page.write_bytes(b"\xef\xbb\xbf" + page.read_bytes().replace(b"\n", b"\r\n"))
    assert not project(job(tmp_path), "run1", "AUTO_FIX").overruled


def test_a_page_from_before_a_crash_is_no_edit(tmp_path: Path) -> None:
    project(job(tmp_path), "run1", "EXECUTING")
    older = page_of(str(tmp_path)).read_text()
    project(job(tmp_path), "run1", "AUTO_FIX")
    page_of(str(tmp_path)).write_text(older)  # the journal and the stored copy were written, the page was not
    assert not project(job(tmp_path), "run1", "AUTO_FIX").overruled
    assert "task_status: AUTO_FIX" in page_of(str(tmp_path)).read_text()


@given(st.text(max_size=300), st.text(max_size=300))
@settings(max_examples=examples(60))
def test_no_page_makes_the_reader_fall_over(was: str, now: str) -> None:
    assert isinstance(compare(Stored(was), now), Hand)


def test_a_blocked_job_says_why(tmp_path: Path) -> None:
    from msgspec.structs import replace

    blocked = replace(job(tmp_path), blocked=Blocked("attempts", "x", "T-001"))
    project(blocked, "run1", "BLOCKED", is_paused=True)
    front, _ = front_matter(page_of(str(tmp_path)).read_text())
    assert (front["blocked_reason"], front["current_task"], front["auto_fix_attempts"]) == ("attempts", "T-001", 2)
    assert front["paused"] is True


async def test_what_a_worker_does_to_the_page_is_undone_and_a_persons_edit_is_taken(tmp_path: Path) -> None:
    root = made(tmp_path)
    plan = tmp_path / "plan.md"
    plan.write_text("# P\n\n## Tasks\n- [ ] T-001 (P0) One\n- [ ] T-002 (P1) Two\n")
    script = """
page = Path(".detent/code/active_context.md")
page.write_text(page.read_text().replace("- [ ] T-002", "- [x] T-002").replace("EXECUTING", "IDLE"))
if task == "T-001": say(status="blocked", summary="wait")
else: Path(task).write_text(sys.stdin.read())
"""
    in_place: dict[str, Any] = {"sandbox": {"level": "off"}, "workspace": {"use": "in_place"}}
    async with office(root) as desk:
        await desk.go(configured(worker(tmp_path, script), plan, **in_place))  # else it has no page
        text = page_of(str(root)).read_text()
        assert "- [ ] T-002 (P1) Two" in text
        assert "> detent:" not in text
        assert list(page_of(str(root)).parent.glob("active_context.worker-job-*.md"))
        edit(root, "T-002 (P1) Two", "T-002 (P1) Two, as I like it")
        run = await desk.say("SKIP_TASK")
        found = await desk.job()
    assert run.output["outcome"] == "archived"
    assert found.plan is not None
    assert found.plan.body.task("T-002").title == "Two, as I like it"
    assert "Two, as I like it" in (root / "T-002").read_text()
    assert active_context.MARKS["DONE"] == "x"
