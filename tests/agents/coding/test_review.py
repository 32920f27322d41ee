"""Before work lands a person sees it, hunk by hunk; what they reject goes back to the worker with their words."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent.agents.coding import hunk
from detent.core.run import Run
from tests.agents.coding.world import BAD, GOOD, Office, configured, copy_of, git, office, project, worker
from tests.surfaces.test_code import Shell

TWICE = """
told = sys.stdin.read()
if task == "FINAL":
    assert "-    return a - b" in told and "shorter, please" in told
    calc.write_text(GOOD)
else:
    calc.write_text(GOOD + "# a long remark\\n"); Path("more").mkdir(); Path("more/x y.txt").write_text("x\\n")
"""


async def begin(here: Office, script: str, folder: Path, **given: Any) -> Run:
    await here.start(configured(worker(folder, script), **given))
    plan = (await here.job()).plan
    assert plan is not None
    return await here.say("USER_CONFIRM", plan=plan.digest, attended=True)


async def answer(here: Office, **said: Any) -> Run:
    (asked,) = (await here.host.show(here.run_id)).waiting
    await here.host.answer(here.run_id, asked.id, {"by": "kim", **said})
    return await here.host.settled(here.run_id)


async def test_what_is_rejected_goes_back_and_what_is_accepted_lands(tmp_path: Path) -> None:
    root = project(tmp_path, BAD)
    async with office(root) as here:
        run = await begin(here, TWICE, tmp_path)
        assert (run.state, (root / "calc.py").read_text()) == ("ARCHIVING", BAD)
        (asked,) = run.waiting
        assert asked.question is not None
        found = asked.question.data
        assert found["files"] == ["calc.py", "more/x y.txt"]
        first = hunk.split_patch(git(root, "diff", "--no-color", "HEAD", found["tree"], "--", "calc.py"))[0]
        assert first.path == "calc.py"
        # An answer to another difference, and one about a hunk that is not there, are none.
        for void in ({"diff": "0" * 16}, {"diff": found["diff"], "reject": [{"hunk": "nothing"}]}):
            run = await answer(here, approved=True, data=void)
            assert (run.state, run.waiting[0].question) == ("ARCHIVING", asked.question)
        rejected = [{"hunk": first.id, "comment": "shorter, please"}]
        run = await answer(here, approved=False, data={"diff": found["diff"], "reject": rejected})
        assert run.state == "ARCHIVING", (await here.job()).blocked
        assert (root / "calc.py").read_text() == BAD
        assert run.waiting[0].question is not None
        assert run.waiting[0].question.data["diff"] != found["diff"]
        run = await answer(here, approved=True)
        assert run.output["outcome"] == "archived"
    assert (root / "calc.py").read_text() == GOOD
    assert (root / "more/x y.txt").read_text() == "x\n"


async def test_an_approval_is_for_the_tree_that_was_shown(tmp_path: Path) -> None:
    root = project(tmp_path)
    async with office(root) as here:
        run = await begin(here, "calc.write_text(GOOD + '# one\\n')", tmp_path)
        assert run.state == "ARCHIVING"
        (copy_of(root) / "calc.py").write_text(GOOD + "# slipped in\n")
        run = await answer(here, approved=True)
        assert run.state == "ARCHIVING"  # it asks again, about what there is now
        run = await answer(here, approved=True)
        job = await here.job()
        assert (run.state, job.blocked and job.blocked.reason) == ("BLOCKED", "changed")  # and that was never verified
    assert (root / "calc.py").read_text() == GOOD


@pytest.mark.parametrize(("ask", "attended", "state"), [("always", False, "ARCHIVING"), ("never", True, "IDLE")])
async def test_the_settings_say_whether_anybody_is_asked(ask: str, attended: bool, state: str, tmp_path: Path) -> None:
    root = project(tmp_path)
    async with office(root) as here:
        chosen = configured(worker(tmp_path, "calc.write_text(GOOD + '#')"), workspace={"ask": ask})
        await here.start(chosen)
        plan = (await here.job()).plan
        assert plan is not None
        run = await here.say("USER_CONFIRM", plan=plan.digest, attended=attended)
        assert run.state == state


def test_a_review_on_the_command_line(tmp_path: Path) -> None:
    shell = Shell(tmp_path, TWICE)
    file = shell.root / "detent.code.yaml"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"workspace": {"ask": "always"}}))
    waiting = shell.json("start", "Mend it", "--yes", code=3)
    assert (waiting["state"], waiting["job"]["operations"]) == ("ARCHIVING", ["review"])
    assert "the change waits for your review: detent code review" in shell("status", code=3).out
    shown = shell.json("review")
    (changed, _new) = shown["hunks"]
    assert "+# a long remark" in shell("review").out
    assert "there is no hunk `x`" in shell("review", "--reject", "x", code=2).err
    assert "look at it again" in shell("review", "--accept", "--diff", "0", code=2).err
    assert "say one of" in shell("review", "--accept", "--stop", code=2).err
    again = shell.json("review", "--reject", changed["id"], "--comment", "shorter, please", code=3)
    assert again["state"] == "ARCHIVING"
    now = shell.json("review")
    assert now["diff"] != shown["diff"]
    stopped = shell.json("review", "--stop", code=3)
    assert stopped["job"]["blocked"]["reason"] == "stopped"
    assert shell.json("fix", code=3)["state"] == "ARCHIVING"
    done = shell.json("review", "--accept", "--diff", now["diff"])
    assert done["job"]["outcome"] == "archived"
    assert (shell.root / "calc.py").read_text() == GOOD


LINES = st.lists(st.sampled_from(["a", "b", "@@ x", "diff --git a/x b/x", "--- a/y", "+++ b/z", ""]), max_size=30)


@given(LINES, LINES)
def test_every_line_of_a_patch_is_in_exactly_one_hunk(before: list[str], after: list[str]) -> None:
    import difflib

    body = "\n".join(difflib.unified_diff(before, after, "a/f", "b/f", lineterm=""))
    patch = f"diff --git a/f b/f\n{body}\n" if body else ""
    found = hunk.split_patch(patch)
    assert {one.path for one in found} <= {"f"}
    assert patch.endswith("".join(one.text for one in found))
