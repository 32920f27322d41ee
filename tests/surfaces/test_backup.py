"""Backups, restores, moves and anchors as somebody at the command line meets them."""

import json
import shutil
import sqlite3
import subprocess
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.surfaces.command import Detent, until

PAY = """\
name: pay
input: {to: {type: string}}
states:
  work:
    type: initial
    actions:
      - id: pay
        tool: shell
        params: {argv: [sh, -c, "echo {{ context.to }} >> paid"]}
        effect: irreversible
        key: "pay {{ context.to }}"
  done: {type: final}
transitions:
  - {from: work, to: done}
"""


@pytest.fixture
def detent(tmp_path: Path) -> Detent:
    (tmp_path / "pay.yaml").write_text(PAY)
    return Detent(tmp_path)


def pay(detent: Detent, to: str, code: int = 0) -> str:
    return detent("run", "pay.yaml", "--set", f"to={to}", code=code).run_id


def paid(detent: Detent) -> list[str]:
    return (detent.folder / "paid").read_text().split()


def test_what_was_done_after_a_backup_is_asked_about_until_the_gap_is_closed(detent: Detent) -> None:
    pay(detent, "bob")
    assert "hashes and claims checked" in detent("backup", "kept").out
    assert "--force" in detent("backup", "kept", code=2).err
    pay(detent, "eve")
    assert "--over" in detent("restore", "kept", code=2).err
    said = detent("restore", "kept", "--over").out
    assert "epoch 2" in said
    assert "detent restore --close-gap" in said
    waiting = detent("run", "pay.yaml", "--set", "to=eve", code=3)
    assert "may have been done between" in waiting.out
    assert "has the restore on record" in waiting.out
    assert "do it:" in waiting.out
    assert "`detent restore --close-gap`" in detent("doctor", code=None).out
    assert paid(detent) == ["bob", "eve"]
    detent("answer", waiting.run_id, "--outcome", "use", "--result", '{"exit": 0}')
    record = next(one for one in detent("list", "--json").json["runs"] if one["name"] == "restored")
    assert "--close-gap" in detent("cancel", record["run_id"], code=2).err
    assert detent("restore", "--close-gap", "--comment", "looked", "--json").json["closed"] == [record["run_id"]]
    assert "looked" in detent("log", record["run_id"], "--json").out
    lines = detent("audit", "--run", record["run_id"], "--json").out.splitlines()
    restored, closed = (json.loads(line) for line in lines[:-1])
    assert (restored["decision"], restored["by"], restored["outcome"]) == ("restore", "kim", "done")
    assert restored["given"]["epoch"] == 2
    assert restored["given"]["since"] <= restored["given"]["until"] <= restored["at"]
    assert (closed["decision"], closed["by"], closed["reason"]) == ("close_gap", "kim", "looked")
    told = detent("audit").out
    assert "restore “2" in told
    assert "close_gap “looked”" in told
    pay(detent, "kim")
    assert paid(detent) == ["bob", "eve", "kim"]
    assert "there is no gap" in detent("restore", "--close-gap").out
    detent("log", "--all", "--verify")


def test_a_list_warns_of_an_older_copy_that_a_run_refuses(detent: Detent) -> None:
    home, older = detent.folder / ".detent", detent.folder / "older.db"
    bob = pay(detent, "bob")
    shutil.copy(home / "journal.db", older)
    pay(detent, "eve")
    assert "Warning" not in detent("list").err
    shutil.copy(older, home / "journal.db")
    listed = detent("list")
    assert bob in listed.out
    assert "older or another copy" in listed.err
    assert "older or another copy" in detent("run", "pay.yaml", "--set", "to=kim", code=None).err
    (home / "journal.db").write_bytes(b"")
    assert detent("list", code=None).err == detent("run", "pay.yaml", "--set", "to=kim", code=None).err


def test_a_home_moves_and_a_second_copy_is_warned_of(detent: Detent) -> None:
    run_id = pay(detent, "bob")
    assert "say --all" in detent("move", "--to", "postgresql://db/detent", code=2).err
    assert "postgresql://HOST" in detent("move", "--to", "ssh://db/detent", code=2).err
    detent("move", "--to", "elsewhere/home")
    assert not detent.has(".detent")
    assert "if it was moved" in detent("run", "pay.yaml", "--set", "to=bob", code=None).err
    assert paid(detent) == ["bob"]
    detent("move", "--to", ".detent", "--home", "elsewhere/home")
    detent("move", "--to", "elsewhere/home")
    detent("show", run_id, "--home", "elsewhere/home")
    shutil.copytree(detent.folder / "elsewhere/home", detent.folder / "copy")
    said = detent("run", "pay.yaml", "--set", "to=eve", "--home", "copy").err
    assert "use only one of them" in said
    assert "use only one of them" in detent("doctor", "--home", "copy", code=1).out


def test_an_anchor_in_a_file_finds_a_run_that_was_deleted(detent: Detent, tmp_path: Path) -> None:
    run_id = pay(detent, "bob")
    head = detent("log", "--head", "--json").json
    assert (head["runs"], head["claims"], len(head["head"])) == (1, 1, 64)
    detent("anchor", "--to", "anchors")
    assert detent("log", "--head").out.split()[0] == json.loads((tmp_path / "anchors").read_text())["head"]
    pay(detent, "eve")
    detent("anchor", "--to", "anchors")
    assert "all 2 runs are as they were" in detent("log", "--verify", "--anchor", "anchors").out
    with closing(sqlite3.connect(tmp_path / ".detent/journal.db", isolation_level=None)) as db:
        db.execute("delete from events where run = (select no from runs where run_id = ?)", (run_id,))
        db.execute("delete from runs where run_id = ?", (run_id,))
    detent("log", "--all", "--verify", code=None)
    assert f"run {run_id}" in detent("log", "--verify", "--anchor", "anchors", code=1).out
    proof = detent("log", "--verify", "--anchor", "anchors", "--json", code=1).out.splitlines()
    assert [json.loads(line)["ok"] for line in proof] == [False, False]


def test_the_list_is_of_work_and_not_of_what_detent_records_of_itself(detent: Detent, tmp_path: Path) -> None:
    with (detent.folder / "flows.py").open("a") as flows:
        flows.write('ANCHORED = simple("anchored", NOTE)\n')  # an author's own machine of that name
    detent("run", "flows.py:ANCHORED", "--set", "text=a")
    detent("anchor", "--to", str(tmp_path / "anchors"))
    detent("people", "add", "ann", "--role", "admin", "--os-user", "somebody")
    assert [run["name"] for run in detent("list", "--json").json["runs"]] == ["anchored"]
    every = [run["name"] for run in detent("list", "--system", "--json").json["runs"]]
    assert sorted(every) == ["anchored", "anchored", "detent_people"]


def test_an_anchor_in_git_changes_nothing_that_is_checked_out(detent: Detent, tmp_path: Path) -> None:
    def git(*words: str) -> str:
        command = ["git", "-C", str(tmp_path / "repository"), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    (tmp_path / "repository").mkdir()
    git("init", "-q")
    pay(detent, "bob")
    for _ in range(2):
        detent("anchor", "--to", "git:repository")
    assert git("rev-list", "--count", "refs/detent/anchors").strip() == "2"
    assert git("status", "--porcelain") == ""
    assert detent("log", "--verify", "--anchor", "git:repository").out.count("all 1 runs") == 2
    assert "git" in detent("anchor", "--to", "git:nowhere", code=2).err


def test_an_anchor_is_posted_and_an_address_that_does_not_take_it_is_said(detent: Detent) -> None:
    taken = []

    class Keeper(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            taken.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204 if self.path == "/anchors" else 500)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Keeper)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    pay(detent, "bob")
    address = f"http://127.0.0.1:{server.server_port}"
    detent("anchor", "--to", f"{address}/anchors")
    assert "did not take the anchor" in detent("anchor", "--to", f"{address}/broken", code=2).err
    server.shutdown()
    server.server_close()
    assert (taken[0]["runs"], taken[0]["epoch"]) == (2, 1)


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="needs OpenSSH")
def test_a_signed_anchor_says_who_signed_it_and_a_changed_one_does_not_pass(detent: Detent, tmp_path: Path) -> None:
    for name in ("key", "other"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(tmp_path / name)]
        subprocess.run(command, check=True)
    (tmp_path / "signers").write_text(f"ann {(tmp_path / 'key.pub').read_text()}")
    pay(detent, "bob")
    detent("anchor", "--to", "anchors", "--key", "key")
    verify = ("log", "--verify", "--anchor", "anchors")
    assert "signed by ann" in detent(*verify, "--signers", "signers").out
    detent(*verify)
    line = json.loads((tmp_path / "anchors").read_text())
    (tmp_path / "anchors").write_text(json.dumps(line | {"at": line["at"] + 1}) + "\n")
    detent(*verify, code=1)
    (tmp_path / "anchors").unlink()
    detent("anchor", "--to", "anchors", "--key", "other")
    detent(*verify, "--signers", "signers", code=1)
    (tmp_path / "anchors").unlink()
    detent("anchor", "--to", "anchors")
    assert "it is not signed" in detent(*verify, "--signers", "signers", code=1).out


def test_a_server_backs_up_and_anchors_by_itself(detent: Detent, tmp_path: Path) -> None:
    (tmp_path / "detent.serve.yaml").write_text("anchor: {to: anchors, every: 1h}\n")
    pay(detent, "bob")
    with detent.going("serve", "--port", "0", "--backup", "backups", "--every", "1s", "--keep", "1"):
        until(lambda: any((tmp_path / "backups").glob("*.detent")) and detent.has("anchors"))
        first = {path.name for path in (tmp_path / "backups").glob("*.detent")}
        until(lambda: {path.name for path in (tmp_path / "backups").glob("*.detent")} - first)
        until(lambda: len(list((tmp_path / "backups").glob("*.detent"))) == 1)
    (tmp_path / "detent.serve.yaml").write_text("backup: {to: backups, every: often}\n")
    assert "`often` is not a time" in detent("serve", "--port", "0", code=2).err
    (tmp_path / "detent.serve.yaml").unlink()
    assert "--backup FOLDER" in detent("serve", "--port", "0", "--keep", "3", code=2).err
