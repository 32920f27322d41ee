"""Answers signed on the command line, and checked by a small program that knows only ssh-keygen and the export."""

import json
import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from detent.host.ssh_signature import make_signature
from tests import doctext
from tests.surfaces.command import Detent

USER = pwd.getpwuid(os.getuid()).pw_name
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "journal-export.md"
pytestmark = pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="ssh-keygen is missing (openssh-client)")
PAY = """\
name: pay
states:
  begin: {type: initial}
  pay:
    actions:
      - id: pay
        tool: shell
        effect: irreversible
        params: {argv: [sh, -c, "echo {{ context.amount }} >> paid"]}
        approval: {question: "Pay?", require_signature: true}
  done: {type: final}
transitions:
  - {from: begin, to: pay}
  - {from: pay, to: done}
"""


def make_key(folder: Path, name: str) -> Path:
    file = folder / name
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", file], check=True)
    return file


@pytest.fixture
def detent(tmp_path: Path) -> Detent:
    (tmp_path / "pay.yaml").write_text(PAY)
    make_key(tmp_path, "ann")
    make_key(tmp_path, "other")
    detent = Detent(tmp_path)
    detent("people", "add", "ann", "--role", "approver", "--role", "admin", "--os-user", USER, "--key", "ann.pub")
    return detent


def ask(detent: Detent, run: str, amount: int) -> None:
    detent("run", "pay.yaml", "--id", run, "--set", f"amount={amount}", code=3)


def test_only_a_signed_answer_does(detent: Detent) -> None:
    ask(detent, "pay1", 1)
    assert "detent approve pay1 pay/pay/1 --sign" in detent("show", "pay1").out
    for verb in ("approve", "reject"):
        assert f"detent {verb} pay1 pay/pay/1 --sign" in detent(verb, "pay1", code=2).err
    assert "not of `ann`" in detent("approve", "pay1", "--sign", "other", code=2).err
    detent("approve", "pay1", "--sign", "ann")
    assert (detent.folder / "paid").read_text() == "1\n"
    assert detent("log", "pay1", "--verify", "--json").json["signed"] == 1
    told = detent("log", "pay1").out
    assert "signed" in told
    assert "an attempt to answer by ann" in told


def test_a_key_is_found_by_setting_or_in_the_agent(detent: Detent) -> None:
    ask(detent, "pay1", 1)
    environment = {"HOME": str(detent.folder), "SSH_AUTH_SOCK": ""}
    assert "DETENT_SIGN_KEY" in detent("approve", "pay1", "--sign", code=2, **environment).err
    detent("approve", "pay1", "--sign", code=0, **environment, DETENT_SIGN_KEY=str(detent.folder / "ann"))
    (detent.folder / ".ssh").mkdir()
    for name in ("ann", "ann.pub"):
        shutil.copy2(detent.folder / name, detent.folder / ".ssh" / name)
    ask(detent, "pay2", 2)
    detent("reject", "pay2", "--sign", code=4, **environment)
    shutil.rmtree(detent.folder / ".ssh")
    socket = detent.folder / "agent"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", socket], stdout=subprocess.PIPE)
    try:
        assert agent.stdout is not None
        agent.stdout.readline()  # it says where it listens once it does
        agents = environment | {"SSH_AUTH_SOCK": str(socket)}
        subprocess.run(["ssh-add", "-q", detent.folder / "ann"], check=True, env=os.environ | agents)
        ask(detent, "pay3", 3)
        detent("approve", "pay3", "--sign", code=0, **agents)
    finally:
        agent.terminate()
        agent.communicate()
    assert (detent.folder / "paid").read_text() == "1\n3\n"


def test_an_answer_is_signed_on_another_machine(detent: Detent) -> None:
    ask(detent, "pay1", 1)
    payload = detent("approve", "pay1", "--comment", "seen", "--print-payload").out
    (detent.folder / "answer.json").write_text(payload)
    command = ["ssh-keygen", "-q", "-Y", "sign", "-n", "detent", "-f", "ann", "answer.json"]
    subprocess.run(command, cwd=detent.folder, check=True, capture_output=True)
    assert "another answer" in detent("approve", "pay1", "--signature", "answer.json.sig", code=2).err
    detent("approve", "pay1", "--comment", "seen", "--signature", "answer.json.sig")
    assert detent("log", "pay1", "--verify", "--json").json["signed"] == 1
    ask(detent, "pay2", 2)
    assert "another run" in detent("approve", "pay2", "--comment", "seen", "--signature", "answer.json.sig", code=2).err


def test_http_tells_the_command_and_takes_a_signature_made_elsewhere(detent: Detent) -> None:
    ask(detent, "pay1", 1)
    payload = detent("approve", "pay1", "--print-payload").out
    signature = make_signature(detent.folder / "ann", payload.encode())
    with detent.going("serve", "--port", "0", "--json") as server:
        assert server.stdout is not None
        address = json.loads(server.stdout.readline())["address"]
        url = f"{address}/api/runs/pay1/contracts/pay/pay/1/answer"
        said: dict[str, Any] = {"approved": True}
        (question,) = httpx2.get(f"{address}/api/runs/pay1").json()["waiting"]
        assert question["require_signature"] is True
        unsigned = httpx2.post(url, json=said)
        assert (unsigned.status_code, "--sign" in unsigned.text) == (409, True)
        for other in (payload.replace("true", "false"), payload + " ", "{}", "x" * 2_000_000):
            refused = httpx2.post(url, json=said | {"signature": {"payload": other, "signature": signature}})
            assert refused.status_code in (400, 403, 413, 422), refused.text
        taken = httpx2.post(url, json=said | {"signature": {"payload": payload, "signature": signature}})
        assert taken.status_code == 200, taken.text
    assert detent("log", "pay1", "--verify", "--json").json["signed"] == 1


def test_anybody_verifies_an_export_without_detent(detent: Detent) -> None:
    ask(detent, "pay1", 1)
    detent("approve", "pay1", "--sign", "ann", "--comment", "na\u00efve \u2028")
    detent("people", "change", "ann", "--drop-key", "ann.pub", "--key", "other.pub")
    assert not detent("log", "pay1", "--verify", "--json").json["error"]
    (detent.folder / "signers").write_text(f"ann {(detent.folder / 'other.pub').read_text()}")
    assert "not of" in detent("log", "pay1", "--verify", "--signers", "signers", code=1).out
    (program,) = [block for block in doctext.blocks(PAGE.read_text()) if block.file == "verify_signatures.py"]
    doctext.save(program, detent.folder)
    rows = [json.loads(line) for line in detent("log", "--export", "--all").out.splitlines()]
    assert check(detent, rows) == ""
    for field in ("answer", "by", "call_hash", "contract", "epoch", "journal", "question", "run", "signer", "time"):
        assert "not verified" in check(detent, [forge(row, field) for row in rows]), field
    for row in rows:  # a key that came later makes no old answer good
        if row["line"] == "event" and '"keys"' in row["body"]:
            body = json.loads(row["body"])
            body["at"] += 3600
            row["body"] = json.dumps(body)
    assert "not the signature" in check(detent, rows)


def forge(row: dict[str, str], field: str) -> dict[str, str]:
    """The same row with a payload that says something else, where it has one."""
    body = json.loads(row.get("body", "{}"))
    if row["line"] != "event" or not isinstance(body.get("result"), dict) or "signature" not in body["result"]:
        return row
    said = json.loads(body["result"]["signature"]["payload"])
    said[field] = said[field] + 1 if isinstance(said[field], int) else {} if field == "answer" else said[field] + "x"
    body["result"]["signature"]["payload"] = json.dumps(said, sort_keys=True, separators=(",", ":"))
    return {**row, "body": json.dumps(body)}


def check(detent: Detent, rows: list[dict[str, str]]) -> str:
    (detent.folder / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [sys.executable, "-I", "verify_signatures.py", "x.jsonl"]
    done = subprocess.run(command, cwd=detent.folder, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert bool(done.returncode) == bool(done.stderr)
    assert done.stderr or done.stdout.startswith("signed pay1 pay/pay/1 by ann in journal ")
    return done.stderr
