"""Several machines on one database, as somebody at the command line meets them: each folder here is a machine."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.host.test_postgres import Databases, databases, server  # noqa: F401  # fixtures
from tests.postgres import why_not
from tests.surfaces.command import DEADLINE_S, Detent, ended, until

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())

STEPS = """\
name: steps
states:
  first:
    type: initial
    actions:
      - {id: one, tool: shell, params: {argv: [sh, -c, "echo 1 >> log"]}, effect: idempotent}
  asking:
    actions: [{id: ask, tool: ask, approval: {question: "Go on?"}}]
  second:
    actions:
      - {id: two, tool: shell, params: {argv: [sh, -c, "echo 2 >> log; test ! -e broken"]}, effect: idempotent}
  done: {type: final}
transitions:
  - {from: first, to: asking}
  - {from: asking, to: second}
  - {from: second, to: done}
"""


class Machines:
    """Folders that stand for machines, and one database."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder, self.address = folder, address

    def __call__(self, name: str, **env: str) -> Detent:
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        found = Detent(folder)
        found.env |= {"DETENT_HOME": self.address, **env}
        return found

    def log(self, name: str) -> str:
        file = self.folder / name / "log"
        return file.read_text() if file.exists() else ""


@pytest.fixture
def machines(databases: Databases, tmp_path: Path) -> Machines:  # noqa: F811
    return Machines(tmp_path, databases.address(tmp_path))


@contextmanager
def worker(machine: Detent, name: str) -> Iterator["subprocess.Popen[str]"]:
    with machine.going("worker", "--name", name, "--lease", "1", "--json") as process:
        assert process.stdout is not None
        assert f'"place":"{name}"' in process.stdout.readline().replace(" ", "")
        yield process
        process.send_signal(signal.SIGTERM)  # a worker that stops says so, and nobody waits for its heartbeat
        process.wait(DEADLINE_S)


def test_a_run_stays_where_its_files_are_and_asks_when_that_place_is_away(machines: Machines) -> None:
    front = machines("front", DETENT_SLOTS="0")
    (front.folder / "steps.yaml").write_text(STEPS)
    with ExitStack() as workers:
        at_work = {name: workers.enter_context(worker(machines(name), name)) for name in ("one", "two")}
        run_id = front("run", "steps.yaml", code=3).run_id
        (home,) = [name for name in at_work if machines.log(name)]
        (other,) = {*at_work} - {home}
        at_work[home].send_signal(signal.SIGTERM)
        assert ended(at_work[home]).code == 0
        asked = front("approve", run_id, code=3)
        assert f"belongs to `{home}`" in asked.out
        assert "do it elsewhere:" in asked.out
        front("answer", run_id, "second/two/1", "--outcome", "not-happened")
        assert (machines.log(home), machines.log(other)) == ("1\n", "2\n")
        assert front("log", run_id, "--verify").code == 0


def test_a_place_that_comes_back_goes_on_by_itself(machines: Machines) -> None:
    front = machines("front", DETENT_SLOTS="0")
    (front.folder / "steps.yaml").write_text(STEPS)
    with worker(machines("one"), "one"):
        run_id = front("run", "steps.yaml", code=3).run_id
    with worker(machines("two"), "two"):
        assert "belongs to `one`" in front("approve", run_id, code=3).out
        with worker(machines("one"), "one"):
            until(lambda: front("show", run_id, "--json", code=None).json["status"] == "completed")
    assert (machines.log("one"), machines.log("two")) == ("1\n2\n", "")


def test_a_definition_travels_with_its_run(machines: Machines) -> None:
    one, two = machines("one", DETENT_PLACE="shared"), machines("two", DETENT_PLACE="shared")
    (one.folder / "steps.yaml").write_text(STEPS)
    run_id = one("run", "steps.yaml", code=3).run_id
    (one.folder / "steps.yaml").unlink()
    two.touch("broken")
    assert "tool_failure.exit" in two("approve", run_id, code=1).out
    (two.folder / "broken").unlink()
    assert "completed" in two("retry", run_id).out
    assert machines.log("two") == "2\n2\n"
    assert "second" in two("graph", run_id).out
    assert two("log", run_id, "--verify").code == 0


def test_a_run_is_migrated_on_a_machine_that_never_had_its_file(machines: Machines) -> None:
    one, two = machines("one", DETENT_PLACE="shared"), machines("two", DETENT_PLACE="shared")
    (one.folder / "steps.yaml").write_text(STEPS)
    run_id = one("run", "steps.yaml", code=3).run_id
    (one.folder / "steps.yaml").unlink()
    (two.folder / "newer.yaml").write_text(STEPS.replace("echo 2", "echo 3"))
    two("migrate", run_id, "newer.yaml", code=3)
    two("approve", run_id)
    assert machines.log("two") == "3\n"


def test_a_command_says_that_nobody_here_has_an_effect_and_leaves_the_call(machines: Machines) -> None:
    one, two = machines("one"), machines("two")
    run_id = one("run", f"{one.folder}/flows.py:PLEA", "--set", "to=ann", code=3).run_id
    (one.folder / "flows.py").rename(one.folder / "away.py")
    told = two("approve", run_id, code=3)
    assert "no worker here has the effect `mail.send`" in told.out
    said = two("doctor", code=None).out
    assert "no worker here has the effect `mail.send`" in said
    assert "lock:" not in said, "nobody writes alone there"
    (one.folder / "away.py").rename(one.folder / "flows.py")
    assert "completed" in one("resume", run_id).out
    assert (one.folder / "sent").read_text() == "ann\n"


def test_people_are_the_same_on_every_machine(machines: Machines) -> None:
    one, two = machines("one"), machines("two")
    one("people", "add", "bob", "--role", "viewer")
    one("people", "add", "ann", "--role", "approver")
    two("run", f"{two.folder}/flows.py:QUICK", "--set", "text=x", code=None)
    files = [next(machine.folder.glob(".detent-*")) / "detent.people.yaml" for machine in (one, two)]
    assert files[0].read_text() == files[1].read_text()


def test_a_database_that_was_restored_asks_about_what_it_cannot_know(machines: Machines) -> None:
    one = machines("one")
    (one.folder / "steps.yaml").write_text(STEPS.replace("effect: idempotent", "effect: irreversible, key: k", 1))
    one("db", "restored", code=2)
    assert "epoch 2" in one("db", "restored", "--since", "1h").out
    asked = one("run", "steps.yaml", code=3)
    assert "may have been done between" in asked.out
    assert "closed" in one("restore", "--close-gap").out


def test_a_home_moves_into_a_database_and_its_questions_stay_open(machines: Machines) -> None:
    one = machines("one")
    here = machines("one", DETENT_HOME=".detent")
    (one.folder / "steps.yaml").write_text(STEPS)
    run_id = here("run", "steps.yaml", code=3).run_id
    assert "all equal on both sides" in here("move", "--all", "--to", machines.address).out
    assert "was moved to" in here("list").err
    assert machines.address in here("approve", run_id, code=None).err
    assert here("log", run_id, "--verify", "--json").json == one("log", run_id, "--verify", "--json").json
    assert "completed" in one("approve", run_id).out
    assert machines.log("one") == "1\n2\n"
