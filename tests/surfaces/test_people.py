"""People on the command line: a name is who the system or a token says, and nothing that a step has started answers."""

import contextlib
import json
import os
import pwd
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.surfaces.command import SCRIPT, Detent

USER = pwd.getpwuid(os.getuid()).pw_name
PAY = """\
name: pay
states:
  begin: {type: initial}
  pay:
    actions:
      - id: pay
        tool: shell
        effect: irreversible
        params: {argv: [sh, -c, "echo paid >> paid"]}
        approval: {approvers: [ann, kim, bob], quorum: 2, different_from_initiator: true}
  done: {type: final}
transitions:
  - {from: begin, to: pay}
  - {from: pay, to: done}
"""
STEP = """\
name: sneak
states:
  begin: {type: initial}
  go:
    actions:
      - id: sneak
        tool: shell
        params: {argv: [PYTHON, sneak.py, "{{ context.way }}", "{{ context.run }}"]}
        sandbox: "off"  # in one it would not even see the home
  done: {type: final}
output: "{{ result.sneak.stdout }}"
transitions:
  - {from: begin, to: go}
  - {from: go, to: done}
"""
# Every way out that a step has: as it is, without its marks, and as an orphan of another session without them.
SNEAK = """\
import os, subprocess, sys

way, run = sys.argv[1:]
argv = ["SCRIPT", "approve", run, "--by", "ann", "--no-wait"]
bare = {"PATH": os.environ["PATH"], "HOME": "/"}
if way == "curl":
    address, contract = run.split()
    argv = ["curl", "-s", "-H", "Content-Type: application/json", "-d", '{"approved": true, "by": "ann"}']
    argv.append(f"{address}/contracts/{contract}/answer")
    print(subprocess.run(argv, capture_output=True, text=True, env=bare).stdout)
elif way == "plain":
    done = subprocess.run(argv, capture_output=True, text=True)
    print(done.returncode, done.stderr)
elif way == "bare":
    done = subprocess.run(argv, capture_output=True, text=True, env=bare)
    print(done.returncode, done.stderr)
else:
    told, tell = os.pipe()
    orphaned, gone = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.close(gone)
        os.read(orphaned, 1)  # until the step's first child, our parent, was buried
        os.dup2(tell, 1), os.dup2(tell, 2)
        os.execve(argv[0], argv, bare)
    os.wait()
    os.close(gone), os.close(tell)
    said = b""
    while part := os.read(told, 4096):
        said += part
    print(said.decode())
"""


@pytest.fixture
def detent(tmp_path: Path) -> Detent:
    made = Detent(tmp_path)
    (tmp_path / "pay.yaml").write_text(PAY)
    (tmp_path / "step.yaml").write_text(STEP.replace("PYTHON", sys.executable))
    (tmp_path / "sneak.py").write_text(SNEAK.replace("SCRIPT", SCRIPT))
    return made


def token(detent: Detent, name: str, *more: str) -> str:
    return str(detent("people", "add", name, "--role", "approver", "--token", "--json", *more).json["token"])


def events(detent: Detent, run_id: str) -> list[dict[str, Any]]:
    return [json.loads(line)["event"] for line in detent("log", run_id, "--json").out.splitlines()]


def test_two_persons_meet_a_quorum_and_one_does_not(detent: Detent) -> None:
    ann, kim = token(detent, "ann"), token(detent, "kim")
    run_id = detent("run", "pay.yaml", code=3).run_id
    detent("approve", run_id, "--no-wait", DETENT_TOKEN=ann, code=3)
    again = detent("approve", run_id, "--no-wait", DETENT_TOKEN=ann, code=2)
    assert "`ann` has already approved" in again.err
    for name in ("kim", "bob"):
        assert "not for" in detent("approve", run_id, "--by", name, DETENT_TOKEN=ann, code=2).err
    assert not detent.has("paid")
    detent("approve", run_id, DETENT_TOKEN=kim)
    assert (detent.folder / "paid").read_text() == "paid\n"
    detent("log", run_id, "--verify")


def test_without_people_a_name_is_claimed_and_everything_works_as_before(detent: Detent) -> None:
    run_id = detent("run", "pay.yaml", code=3).run_id
    detent("approve", run_id, "--by", "ann", code=3)
    detent("approve", run_id, "--by", "bob")
    assert detent.has("paid")
    assert "names are only claimed" in detent("people", "list").out


def test_the_user_of_this_machine_is_a_person_and_speaks_for_those_they_may(detent: Detent) -> None:
    detent("people", "add", "ann", "--role", "admin", "--role", "approver", "--os-user", USER)
    token(detent, "kim")
    run_id = detent("run", "pay.yaml", code=3).run_id
    assert "may speak for yourself" in detent("approve", run_id, "--by", "kim", code=2).err
    assert "started this run" in detent("approve", run_id, code=2).err
    detent("people", "change", "ann", "--speaks-for", "kim")
    assert "`ann` started this run" in detent("approve", run_id, "--by", "kim", code=2).err
    started = events(detent, run_id)[0]
    assert (started["by"], started["known_by"]) == ("ann", "os_user")


def test_the_first_person_makes_the_file_and_its_maker_an_admin(detent: Detent) -> None:
    said = detent("people", "add", "ann", "--role", "approver", "--group", "finance", "--token")
    assert f"You ({USER}) are an admin" in said.out
    path = detent.folder / ".detent" / "detent.people.yaml"
    assert path.stat().st_mode & 0o777 == 0o600
    shown = said.out.split()[-1]
    assert shown.startswith("ann.")
    assert shown not in path.read_text()
    detent("people", "role", USER, "admin", "--drop", code=2)
    detent("people", "remove", USER, code=2)
    detent("validate", str(path))
    old = shown
    new = detent("people", "token", "ann", "--json").json["token"]
    run_id = detent("run", "pay.yaml", code=3).run_id
    assert "nobody's" in detent("approve", run_id, DETENT_TOKEN=old, code=2).err
    detent("approve", run_id, "--no-wait", DETENT_TOKEN=new, code=3)
    text = str(events(detent, "detent_people"))
    assert new not in text
    assert "scrypt" not in text


def test_an_edit_by_hand_holds_and_is_told_until_it_is_adopted(detent: Detent) -> None:
    detent("people", "add", "ann", "--role", "approver")
    path = detent.folder / ".detent" / "detent.people.yaml"
    assert "people" in detent("doctor", code=None).out
    path.write_text(path.read_text() + "  eve:\n    roles: [approver]\n")
    assert "changed by hand" in detent("doctor", code=None).out
    detent("people", "adopt")
    assert "changed by hand" not in detent("doctor", code=None).out
    path.write_text("people: {eve: {roles: [chief]}}\n")
    assert "unknown role `chief`" in detent("run", "pay.yaml", code=2).err
    path.unlink()
    assert "their file is gone" in detent("run", "pay.yaml", code=None).err
    detent("people", "adopt")
    detent("run", "pay.yaml", code=3)


@pytest.mark.parametrize("way", ["plain", "bare", "orphan"])
@pytest.mark.parametrize("has_people", [False, True])
def test_a_step_cannot_approve_another_run(detent: Detent, way: str, has_people: bool) -> None:
    if has_people:
        detent("people", "add", "ann", "--role", "admin", "--role", "approver", "--os-user", USER)
        detent("people", "add", "opal", "--role", "operator")
    run_id = detent("run", "pay.yaml", code=3).run_id
    said = detent("run", "step.yaml", "--set", f'run="{run_id}"', "--set", f"way={way}", "--json").json
    assert "nothing that a step has started may answer" in said["output"]
    standing = detent("show", run_id, "--json").json
    assert not standing["waiting"][0].get("approved_by")
    tried = events(detent, run_id)
    assert [one["data"]["verb"] for one in tried if one.get("name") == "@attempt"] == ["answer"]


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
@pytest.mark.parametrize("has_people", [False, True])
def test_a_step_cannot_approve_through_a_server_of_this_machine(detent: Detent, has_people: bool) -> None:
    if has_people:
        detent("people", "add", "ann", "--role", "admin", "--role", "approver", "--os-user", USER)
        detent("people", "add", "opal", "--role", "operator")
    run_id = detent("run", "pay.yaml", code=3).run_id
    with detent.going("serve", "--port", "0", "--json") as server:
        assert server.stdout is not None
        address = json.loads(server.stdout.readline())["address"]
        where = f"{address}/api/runs/{run_id} pay/pay/1"
        said = detent("run", "step.yaml", "--set", f"run={where}", "--set", "way=curl", "--json").json
        refused = json.loads(said["output"])["error"]
        assert refused["type"] == "not_permitted"
        assert "nothing that a step has started may answer" in refused["message"]
        assert not detent("show", run_id, "--json").json["waiting"][0].get("approved_by")
        body = json.dumps({"approved": True, "by": "ann"})
        argv = [
            "curl",
            "-s",
            "-d",
            body,
            "-H",
            "Content-Type: application/json",
            where.replace(" ", "/contracts/") + "/answer",
        ]
        done = subprocess.run(argv, capture_output=True, text=True, check=True)
        if has_people:
            assert "started this run" in json.loads(done.stdout)["error"]["message"]
        else:
            assert json.loads(done.stdout)["waiting"][0]["approved_by"] == ["ann"]
        done = subprocess.run(["unshare", "--user", *argv], capture_output=True, text=True, check=False)
        if done.returncode == 0:  # where namespaces can be made
            assert "does not show where this comes from" in json.loads(done.stdout)["error"]["message"]
    attempts = [one["known_by"] for one in events(detent, run_id) if one.get("name") == "@attempt"]
    assert "step" in attempts
    assert "unknown" in attempts or done.returncode


def test_a_server_for_others_wants_people(detent: Detent) -> None:
    said = detent("serve", "--host", "::", "--port", "0", code=2)
    assert "detent people add" in said.err


def test_only_an_admin_restores_moves_or_forgets_a_home(detent: Detent) -> None:
    detent("people", "add", "ada", "--role", "admin", "--os-user", USER)
    ann = token(detent, "ann")
    detent("backup", "copy.db")
    for words in (("restore", "copy.db", "--over"), ("move", "--to", "elsewhere"), ("doctor", "--forget")):
        assert "takes the role admin" in detent(*words, DETENT_TOKEN=ann, code=2).err
    assert not detent.has("elsewhere")
    detent("restore", "copy.db", "--over")
    (record,) = [run for run in detent("list", "--system", "--json").json["runs"] if run["name"] == "restored"]
    started = events(detent, record["run_id"])[0]
    assert (started["by"], started["known_by"]) == ("ada", "os_user")


def test_a_link_is_made_for_oneself_or_by_an_admin_and_journalled(detent: Detent) -> None:
    detent("people", "add", "ann", "--role", "admin", "--os-user", USER)
    bob = token(detent, "bob")
    made = detent("people", "link", "bob", "--address", "https://control.example/", "--json").json["link"]
    assert made.startswith("https://control.example/#login=bob.")
    detent("people", "link", "bob", DETENT_TOKEN=bob)
    assert "takes the role admin" in detent("people", "link", "ann", DETENT_TOKEN=bob, code=2).err
    assert "nobody called" in detent("people", "link", "eve", code=2).err
    written = events(detent, "detent_people")
    assert [one["by"] for one in written if one.get("name") == "LINKED"] == ["ann", "bob"]
    tried = [(one["by"], one["known_by"]) for one in written if one.get("name") == "ATTEMPTED"]
    assert tried == [("bob", "token")]
    assert made.partition("bob.")[2] not in str(written)
    assert len(list((detent.folder / ".detent" / "links").iterdir())) == 2
    detent("backup", "copy.db")  # a link that was used since must not work again after a restore
    with contextlib.closing(sqlite3.connect(detent.folder / "copy.db")) as copy:
        kept = [name for (name,) in copy.execute("select path from home_files")]
    assert "detent.people.yaml" in kept
    assert [name for name in kept if name.startswith(("links", "sessions"))] == []
