"""A run, its child and its grandchild after a SIGKILL: one `detent resume` takes up all, whichever is named."""

import signal
from pathlib import Path

import pytest

from tests.surfaces.command import Detent, until

LEAF = """
name: leaf
states:
  work:
    type: initial
    actions:
      - id: step
        tool: shell
        effect: idempotent
        params:
          argv: [sh, -c, "touch began; while [ ! -e go ]; do sleep 0.05; done; echo leaf >> did"]
  done: {type: final}
transitions: [{from: work, to: done}]
"""
ABOVE = """
name: NAME
states:
  work: {type: initial, actions: [{id: sub, workflow: CHILD.yaml}]}
  after: {actions: [{id: note, tool: shell, effect: idempotent, params: {argv: [sh, -c, "echo NAME >> did"]}}]}
  ask: {actions: [{id: fine, tool: ask, approval: {question: "Is it fine?"}}]}
  done: {type: final}
transitions:
  - {from: work, to: after}
  - {from: after, to: ask, condition: "{{ context.asks }}"}
  - {from: after, to: done, condition: "{{ true }}"}
  - {from: ask, to: done}
"""
CHILD, GRANDCHILD = "top.work.sub.1", "top.work.sub.1.work.sub.1"


@pytest.fixture
def detent(tmp_path: Path) -> Detent:
    (tmp_path / "leaf.yaml").write_text(LEAF)
    for name, child in (("middle", "leaf"), ("top", "middle")):
        (tmp_path / f"{name}.yaml").write_text(ABOVE.replace("NAME", name).replace("CHILD", child))
    return Detent(tmp_path)


def cut_off(detent: Detent, *words: str) -> None:
    """Kill the process that drives the family while its grandchild's step is at work."""
    with detent.going("run", "top.yaml", "--id", "top", *words) as process:
        until(lambda: detent.has("began"))
        process.send_signal(signal.SIGKILL)
        process.wait()
    detent.touch("go")


def statuses(detent: Detent) -> dict[str, str]:
    return {run["run_id"]: run["status"] for run in detent("list", "--json").json["runs"]}


@pytest.mark.parametrize("run", ["top", CHILD, GRANDCHILD, ""], ids=["parent", "child", "grandchild", "everything"])
def test_one_resume_takes_the_whole_family_to_its_end(detent: Detent, run: str) -> None:
    cut_off(detent)
    said = detent("resume", *([run] if run else []), "--json").json
    if not run:
        (said,) = said["runs"]
    assert (said["run_id"], said["status"]) == (run or "top", "completed")
    assert statuses(detent) == {"top": "completed", CHILD: "completed", GRANDCHILD: "completed"}
    lines = (detent.folder / "did").read_text().splitlines()
    assert lines[-2:] == ["middle", "top"]
    assert set(lines[:-2]) == {"leaf"}  # what is idempotent may be done again
    assert "has ended" in detent("resume", "top", code=2).err


def test_resume_ends_where_the_family_waits_for_a_person(detent: Detent) -> None:
    cut_off(detent, "--set", "asks=true")
    done = detent("resume", GRANDCHILD)  # its own code: it has completed
    assert "Is it fine?" in done.out
    assert statuses(detent)["top"] == "waiting"
    assert detent("resume", "top", "--json", code=3).json["waiting"][0]["action"] == "fine"
    assert detent("resume", CHILD, "--json").json["status"] == "completed"  # ended, but its family has not
    assert detent("approve", "top", "--json").json["status"] == "completed"


def test_an_answer_to_a_child_takes_its_parents_on(detent: Detent) -> None:
    (detent.folder / "leaf.yaml").write_text(
        "name: leaf\nstates:\n"
        "  work: {type: initial, actions: [{id: fit, tool: ask, approval: true}]}\n"
        "  done: {type: final}\ntransitions: [{from: work, to: done}]\n"
    )
    detent("run", "top.yaml", "--id", "top", code=3)
    done = detent("approve", GRANDCHILD)
    assert done.out.splitlines()[-1].startswith("top  top  done  completed")
    assert set(statuses(detent).values()) == {"completed"}
