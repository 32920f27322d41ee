"""Deeds that fail on their way, as somebody with a workflow file and the command line meets them."""

import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.surfaces.command import Detent, until

PEER = Path(__file__).parents[1] / "effects" / "mcp" / "peer.py"
DEPLOY = """\
name: deploy
states:
  deploy:
    type: initial
    actions:
      - id: push
        tool: shell
        params: {argv: [sh, -c, "echo pushed >> pushed; echo half; echo no answer >&2; exit 7"]}
        effect: irreversible
  cleaned: {type: final}
  done: {type: final}
transitions:
  - {from: deploy, to: done}
  - {from: deploy, to: cleaned, condition: "{{ result.push.exit == 7 }}"}
"""
CHECK = """\
name: check
states:
  check:
    type: initial
    actions: [{id: test, tool: shell, params: {argv: [sh, -c, "echo tested >> tested; exit 1"]}}]
  red: {type: final}
  green: {type: final}
transitions:
  - {from: check, to: green}
  - {from: check, to: check, condition: "{{ attempt < 1 }}"}
  - {from: check, to: red, condition: "{{ result.test.exit == 1 }}"}
"""
PAY = """\
name: pay
states:
  pay:
    type: initial
    actions: [{id: pay, python: "bank:pay", params: {amount: 5}, side_effect: true}]
  paid: {type: final}
  unpaid: {type: final}
transitions: [{from: pay, to: paid}]
error_handlers:
  - {on_state: pay, action: retry_with_backoff, max_retries: 3, delay: 0, fallback_state: unpaid}
"""
BANK = """\
from pathlib import Path

def pay(amount):
    with Path("paid").open("a") as booked:
        booked.write(f"{amount}\\n")
    return int("a receipt that is no number")
"""


def lines(folder: Path, name: str) -> int:
    """How often a program has done something."""
    return len((folder / name).read_text().splitlines())


def asked(run: dict[str, Any]) -> dict[str, Any]:
    (question,) = run["waiting"]
    assert isinstance(question, dict)
    return question


def test_a_deploy_that_failed_is_asked_about_with_its_exit_code_and_output(tmp_path: Path) -> None:
    detent = Detent(tmp_path)
    (tmp_path / "deploy.yaml").write_text(DEPLOY)
    first = detent("run", "deploy.yaml", "--json").json
    assert (first["status"], first["state"], lines(tmp_path, "pushed")) == ("completed", "cleaned", 1)
    second = detent("run", "deploy.yaml", "--json", code=3).json
    question = asked(second)
    assert "exit code 7: no answer" in question["question"]
    earlier = question["earlier"]
    assert (earlier["run_id"], earlier["status"]) == (first["run_id"], "possible")
    assert (earlier["result"]["exit"], earlier["result"]["stdout"]) == (7, "half\n")
    assert "exit code 7" in detent("show", "last", code=None).out
    assert lines(tmp_path, "pushed") == 1, "nothing is done before somebody says so"
    again = detent("approve", "last", "--json").json
    assert (again["state"], lines(tmp_path, "pushed")) == ("cleaned", 2)


def test_red_tests_are_run_again_without_a_question(tmp_path: Path) -> None:
    detent = Detent(tmp_path)
    (tmp_path / "check.yaml").write_text(CHECK)
    for count in (2, 4):
        run = detent("run", "check.yaml", "--json").json
        assert (run["state"], lines(tmp_path, "tested")) == ("red", count)


def test_one_approval_is_one_payment_though_the_receipt_cannot_be_read(tmp_path: Path) -> None:
    detent = Detent(tmp_path)
    (tmp_path / "pay.yaml").write_text(PAY)
    (tmp_path / "bank.py").write_text(BANK)
    detent("run", "pay.yaml", "--json", code=3)
    run = detent("approve", "last", "--json", code=3).json
    question = asked(run)
    assert (question["reason"], lines(tmp_path, "paid")) == ("outcome_unknown", 1)
    assert "a receipt that is no number" in question["data"]["cause"]["message"]
    assert question["data"]["lands_until"] > question["since"]
    detent("answer", "last", "--outcome", "happened", "--result", '{"receipt": 9}')
    assert lines(tmp_path, "paid") == 1


LOOK = """\
name: look
states:
  look: {type: initial, actions: [{id: look, tool: peer.look, params: {word: tree}}]}
  done: {type: final}
transitions: [{from: look, to: done}]
"""


@pytest.mark.limit(300)  # real processes, on a machine that may be busy
def test_a_read_of_an_untrusted_server_asks_until_somebody_declares_it(tmp_path: Path) -> None:
    detent = Detent(tmp_path)
    (tmp_path / "look.yaml").write_text(LOOK)
    server = f"servers:\n  peer:\n    command: {sys.executable}\n    args: [{PEER}]\n    env: {{PEER_NOTES: notes}}\n"
    (tmp_path / "detent.mcp.yaml").write_text(server)
    detent("run", "look.yaml")
    question = asked(detent("run", "look.yaml", "--json", code=3).json)
    assert "write `look: {effect: pure}` under `tools` of `peer` in detent.mcp.yaml" in question["question"]
    assert question["earlier"]["result"]["text"] == "seen tree"
    assert "`TOOL: {effect: pure}` under `tools` of `peer` in detent.mcp.yaml" in detent("mcp", "tools", "peer").out
    assert "`工具名: {effect: pure}`" in detent("mcp", "tools", "peer", DETENT_LANG="zh").out
    (tmp_path / "detent.mcp.yaml").write_text(f"{server}    tools: {{look: {{effect: pure}}}}\n")
    for _ in range(2):
        assert detent("run", "look.yaml", "--json").json["status"] == "completed"
    assert "look" not in detent("mcp", "tools", "peer", "--json").json["servers"][0]["undeclared"]


LAST = """\
name: last
finally: [{id: tell, tool: shell, params: {argv: [sh, -c, "echo told >> told"]}}]
states:
  go:
    type: initial
    actions:
      - {id: first, tool: shell, params: {argv: [sh, -c, "echo first >> first"]}}
      - {id: second, tool: shell, params: {argv: [test, -f, ok]}}
  done: {type: final}
transitions: [{from: go, to: done}]
"""


def test_a_run_is_tried_again_after_its_finally_which_is_done_at_the_next_end_too(tmp_path: Path) -> None:
    detent = Detent(tmp_path)
    (tmp_path / "last.yaml").write_text(LAST)
    assert "detent retry" in detent("run", "last.yaml", code=1).out
    detent.touch("ok")
    assert "completed" in detent("retry", "last").out
    assert (tmp_path / "first").read_text() == "first\n"
    assert (tmp_path / "told").read_text() == "told\ntold\n"


PACED = """\
name: paced
states:
  go:
    type: initial
    actions:
      - id: all
        for_each: [1, 2, 3, 4, 5, 6]
        actions: [{id: call, tool: TOOL, RATE params: {argv: [sh, -c, "date +%s.%N >> times; echo {}"]}}]
  done: {type: final}
transitions: [{from: go, to: done}]
"""
OF_ALL = """\
tools: {paced: {shell: [sh, -c, "date +%s.%N >> times; echo {}"], effect: pure, rate: 1/800ms}}
"""


@pytest.mark.parametrize("is_shared", [False, True])
def test_a_rate_holds_for_calls_that_were_due_while_nobody_was_there(tmp_path: Path, is_shared: bool) -> None:
    detent, times = Detent(tmp_path), tmp_path / "times"
    text = PACED.replace("TOOL, RATE params", "paced, params") if is_shared else PACED.replace("TOOL", "shell")
    text = text.replace("RATE", "rate: 1/800ms, effect: pure,")
    (tmp_path / "paced.yaml").write_text(text + (OF_ALL if is_shared else ""))
    with detent.going("run", "paced.yaml"):
        until(times.exists)
    began = time.time()
    until(lambda: time.time() > began + 2)  # two were due meanwhile
    detent("resume")
    after = [one for one in sorted(float(line) for line in times.read_text().split()) if one > began + 2]
    assert len(after) >= 4
    assert after[-1] - after[0] > (len(after) - 1) * 0.8 - 0.4, "a program takes a moment to begin"
