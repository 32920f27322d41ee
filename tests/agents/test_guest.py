"""An agent of another package is a guest: installed it has everything the others have, and without it its runs wait."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import Implementation

from tests import doctext
from tests.agents.guest import ROOT, TIDY, install, make_logs
from tests.effort import PATIENCE_S
from tests.surfaces.command import SCRIPT, Detent

LINES_MAX = 300
LOOK_ALIKE = """
name: tidy
states:
  removing: {type: initial, actions: [{id: sure, tool: ask, approval: {question: "Sure?"}}]}
  clean: {type: final}
transitions: [{from: removing, to: clean, condition: "{{ result.sure.success }}"}]
output: {removed: [nothing], changed: []}
"""
CRASHES = """
from detent_tidy.machine import TIDY
from detent.testing import Story, World, crash_anywhere

FILES = [{"name": "a.log", "bytes": 1, "changed_at": 1.0}]

def world():
    made = World()
    made.effect("tidy.look", kind="pure", answers=[{"files": FILES}])
    made.effect("tidy.remove", kind="irreversible", answers=[{"removed": ["a.log"], "changed": []}])
    return made

def check(world, run):
    assert run.state == "clean" and run.output["removed"] == ["a.log"]

assert crash_anywhere(Story(TIDY, {"folder": "logs", "days": 30}), world, check).points > 10
"""
GREEDY = """
import click
from detent.kit.agent import Agent

COMMANDS = {name: click.Command(name, callback=lambda: click.echo("shadowed")) for name in ("run", "show", "greedy")}
GREEDY = Agent("greedy", commands=dict.fromkeys(COMMANDS, "Take what is not ours."), program="greedy:COMMANDS")
BROKEN = Agent("broken", commands={"broken": "Fail."}, program="greedy:NO", routes="greedy:NO", words="nowhere:NO")
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package, installed into a folder of its own by pip."""
    return install(tmp_path_factory.mktemp("guest"))


class Guest(Detent):
    """`detent` in a folder with old logs, where the package is installed or not."""

    def __init__(self, folder: Path, site: Path) -> None:
        super().__init__(folder)
        self.site = site
        make_logs(folder / "logs")
        self.install()

    def install(self, *sites: Path) -> None:
        self.env["PYTHONPATH"] = os.pathsep.join(map(str, sites or (self.site,)))

    def uninstall(self) -> None:
        del self.env["PYTHONPATH"]

    @property
    def logs(self) -> list[str]:
        """The files that are there."""
        return sorted(path.name for path in (self.folder / "logs").iterdir())

    @contextlib.contextmanager
    def serving(self) -> Iterator[str]:
        """A server; its address."""
        with self.going("serve", "--json", "--port", "0") as process:
            assert process.stdout is not None
            yield str(json.loads(process.stdout.readline())["address"])


@pytest.fixture
def detent(tmp_path: Path, site: Path) -> Guest:
    return Guest(tmp_path, site)


def fetch(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=PATIENCE_S) as answer:  # noqa: S310  # our own server
        return bytes(answer.read())


def test_it_is_small() -> None:
    lines = sum(len(path.read_text().splitlines()) for path in TIDY.rglob("*.py"))
    assert lines <= LINES_MAX


def test_it_knows_no_surface_and_no_agent_of_ours() -> None:
    said = "".join(path.read_text() for path in TIDY.rglob("*.py"))
    known = set(re.findall(r"^from (detent[\w.]*) import", said, re.MULTILINE))
    allowed = ("detent.kit", "detent.core", "detent.errors", "detent.host.port", "detent_tidy")
    assert [name for name in known if name != "detent" and not name.startswith(allowed)] == []


def test_the_how_to_shows_it_as_it_is() -> None:
    document = ROOT / "docs" / "how-to" / "write-an-agent.md"
    shown = [block for block in doctext.blocks(document.read_text()) if block.file.startswith("examples/")]
    assert {block.file: block.text for block in shown} == {
        block.file: (ROOT / block.file).read_text() for block in shown
    }
    assert len(shown) > 3


def test_its_command_asks_and_any_process_may_answer(detent: Guest) -> None:
    asked = detent("tidy", "logs", code=3)
    assert [name in asked.out for name in ("tidy.remove", "a.log", "new.log")] == [True, True, False]
    shown = detent("show", asked.run_id, "--json").json
    assert (shown["state"], shown["waiting"][0]["call"]["effect"]) == ("removing", "tidy.remove")
    assert "Removed: a.log, b.log" in detent("approve", asked.run_id).out
    assert detent.logs == ["new.log"]
    detent("log", asked.run_id, "--verify")
    assert "没有这么旧的文件" in detent("tidy", "logs", DETENT_LANG="zh").out
    assert [line.split()[0] for line in detent("--help").out.splitlines() if "Find old files" in line] == ["tidy"]
    detent.uninstall()
    assert "tidy" not in detent("--help").out
    detent.install()
    assert "nowhere" in detent("tidy", "nowhere", code=2).err


def test_a_rejected_removal_and_a_file_changed_meanwhile_lose_nothing(detent: Guest) -> None:
    run_id = detent("tidy", "logs", code=3).run_id
    detent("reject", run_id, code=4)
    assert detent.logs == ["a.log", "b.log", "new.log"]
    again = detent("tidy", "logs", code=3).run_id
    (detent.folder / "logs" / "a.log").write_text("no longer old")
    assert "left alone: a.log" in detent("approve", again).out
    assert detent.logs == ["a.log", "new.log"]


def test_a_workflow_of_the_same_name_is_not_taken_for_it(detent: Guest) -> None:
    (detent.folder / "tidy.yaml").write_text(LOOK_ALIKE)
    run_id = detent("run", "tidy.yaml", code=3).run_id
    done = detent("approve", run_id)
    assert "output:" in done.out  # in the way of all runs
    assert "Removed:" not in done.out
    with detent.serving() as address, pytest.raises(urllib.error.HTTPError) as refused:
        fetch(f"{address}/api/runs/{run_id}/tidy")
    assert refused.value.code == 409
    refused.value.close()


def test_its_address_and_its_view_are_served(detent: Guest) -> None:
    run_id = detent("tidy", "logs", code=3).run_id
    with detent.serving() as address:
        detent("approve", run_id)
        sheet = json.loads(fetch(f"{address}/api/runs/{run_id}/tidy"))
        assert (sheet["removed"], sheet["bytes_freed"]) == (["a.log", "b.log"], 6)
        assert "/api/runs/{run_id}/tidy" in json.loads(fetch(f"{address}/api/openapi.json"))["paths"]
        assert b"export function View" in fetch(f"{address}/agents/tidy/view.js")
        for nobody in ("coding", "nobody", "..%2ftidy"):
            with pytest.raises(urllib.error.HTTPError) as missing:
                fetch(f"{address}/agents/{nobody}/view.js")
            assert missing.value.code == 404
            missing.value.close()


async def test_an_mcp_client_sees_its_run(detent: Guest) -> None:
    run_id = detent("tidy", "logs", code=3).run_id
    server = StdioServerParameters(command=SCRIPT, args=["mcp"], cwd=detent.folder, env=detent.env)
    with (detent.folder / "stderr").open("a") as log:
        who = Implementation(name="tester", version="1")
        async with Client(stdio_client(server, errlog=log), client_info=who) as client:
            got: Any = (await client.call_tool("run_get", {"run": run_id})).structured_content
    assert (got["state"], got["status"]) == ("removing", "waiting")


def test_no_crash_removes_twice(detent: Guest) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CRASHES], cwd=detent.folder, env=detent.env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_without_it_its_run_waits_as_it_is_until_it_is_back(detent: Guest) -> None:
    shutil.copytree(detent.folder / "logs", detent.folder / "more_logs")
    run_id, other = detent("tidy", "logs", code=3).run_id, detent("tidy", "more_logs", code=3).run_id
    before = detent("log", run_id, "--json").out
    detent.uninstall()
    assert "tidy" in detent("tidy", "logs", code=2).err
    assert "its agent `tidy` is not here" in detent("show", run_id).out
    assert "智能体 `tidy`" in detent("show", run_id, DETENT_LANG="zh").out
    for words in (("approve", run_id), ("reject", run_id), ("pause", run_id)):
        assert "agent `tidy` is not installed here" in detent(*words, code=2).err
    detent("resume", code=None)
    detent("run", "flows.py:QUICK")  # others go on
    assert detent("log", run_id, "--json").out == before
    detent("log", run_id, "--verify")
    assert "cancelled" in detent("cancel", other).out
    detent.install()
    assert "Removed: a.log, b.log" in detent("approve", run_id).out
    detent("log", run_id, "--verify")


def test_a_guest_takes_nothing_that_is_not_its_own_and_a_broken_one_harms_nobody(detent: Guest) -> None:
    greedy = detent.folder / "greedy_site"
    info = greedy / "greedy-1.dist-info"
    info.mkdir(parents=True)
    (greedy / "greedy.py").write_text(GREEDY)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: greedy\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[detent.agents]\ngreedy = greedy:GREEDY\nbroken = greedy:BROKEN\ncoding = greedy:GREEDY\n"
    )
    detent.install(greedy, detent.site)
    assert "shadowed" in detent("greedy").out
    listed = [line.split()[0] for line in detent("--help").out.splitlines() if line.startswith("  ")]
    assert [listed.count(name) for name in ("run", "show", "greedy", "broken", "tidy", "code")] == [1] * 6
    done = detent("run", "flows.py:QUICK")
    assert "shadowed" not in done.out + detent("show", done.run_id).out
    assert "agent `broken`" in detent("broken", code=2).err
    assert "broken" in detent("doctor", code=1).out
    assert detent("tidy", "logs", code=3, DETENT_LANG="zh").run_id
    with detent.serving() as address:
        assert json.loads(fetch(f"{address}/api/runs"))["runs"]
