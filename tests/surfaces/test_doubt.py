"""Doubts, repeats and alarms at the real command line: what is shown, which answers fit, and settling many at once."""

import asyncio
import json
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from detent.core.events import EVIDENCE, Signalled
from detent.host.embedded import EmbeddedHost
from tests.surfaces.command import Detent
from tests.surfaces.test_cli import on_a_terminal

BANK = """
from pathlib import Path

from detent import Action, EffectFailed, Machine, Outcome, OutcomeUnknown, Question, Status, effect, table

LEDGER = Path("ledger")


def booked(contract):
    return LEDGER.exists() and contract.input["to"] in LEDGER.read_text().split()


async def look(contract):
    if Path("closed").exists():
        return None
    if booked(contract):
        return Outcome({"receipt": contract.input["to"]})
    raise EffectFailed("there is no such payment")


async def pay(contract):
    if Path("dead").exists():
        raise OutcomeUnknown("the bank did not answer", {"status": 502})
    with LEDGER.open("a") as ledger:
        ledger.write(contract.input["to"] + "\\n")
    return {"receipt": contract.input["to"]}


@effect("bank.order", settle_s=3600.0)
async def order(contract):
    raise OutcomeUnknown("the line went dead")


plain = effect("bank.pay", settle_s=0.0)(pay)
probed = effect("bank.wire", settle_s=0.0, reconcile=look)(pay)


def one(name, effect, **given):
    action = Action("pay", effect, {"to": "{{ context.to }}"}, **given)
    output = {"receipt": "{{ result.pay.receipt or '' }}"}
    rows = table("working - done\\nworking !approval_rejected stopped")
    ends = {"done": Status.COMPLETED, "stopped": Status.REJECTED}
    return Machine(name, "working", rows, work={"working": (action,)}, ends=ends, output=output)


PAY = one("pay", "bank.pay")
WIRE = one("wire", "bank.wire")
ORDER = one("order", "bank.order")
ASKED = one("asked", "bank.pay", ask=Question("May I pay?"))
"""
SHELL = """
name: deploy
states:
  deploying:
    type: initial
    actions:
      - id: deploy
        tool: shell
        effect: irreversible
        params:
          argv: [sh, -c, "echo copying; echo no space >&2; exit 7"]
  done:
    type: final
transitions:
  - from: deploying
    to: done
"""


@pytest.fixture
def detent(tmp_path: Path) -> Detent:
    (tmp_path / "bank.py").write_text(BANK)
    (tmp_path / "deploy.yaml").write_text(SHELL)
    return Detent(tmp_path)


def lost(detent: Detent, *names: str, machine: str = "PAY") -> list[str]:
    """Runs of which nobody knows whether they have paid."""
    detent.touch("dead")
    runs = [detent("run", f"bank.py:{machine}", "--set", f"to={name}", "--json", code=3).json for name in names]
    (detent.folder / "dead").unlink()
    return [str(run["run_id"]) for run in runs]


def paid(detent: Detent, name: str, machine: str = "PAY") -> Any:
    return detent("run", f"bank.py:{machine}", "--set", f"to={name}", "--json").json


def ledger(detent: Detent) -> list[str]:
    path = detent.folder / "ledger"
    return path.read_text().split() if path.exists() else []


def alarm(detent: Detent, run_id: str, is_second: bool = True) -> None:
    """What a host writes when a call that was given up turns out to have been done, and done again meanwhile."""

    async def tell() -> None:
        async with EmbeddedHost(detent.folder / ".detent") as host:
            data = {"contract_id": "working/pay/1", "said": "it was done all the same", "is_second": is_second}
            host.fold(host.load(run_id), Signalled(EVIDENCE, data, "evidence", time.time()))

    asyncio.run(tell())


# one question


def test_a_doubt_says_why_what_came_back_and_how_to_answer(detent: Detent) -> None:
    (run_id,) = lost(detent, "ann")
    shown = detent("show", run_id).out
    assert "the bank did not answer" in shown
    assert '"status": 502' in shown
    assert "--outcome not-happened" in shown
    assert detent("show", run_id, "--json").json["waiting"][0]["data"]["cause"]["message"].endswith("did not answer")
    assert "原因" in detent("show", run_id, DETENT_LANG="zh").out
    assert "--outcome happened|not-happened|give-up" in detent("answer", run_id, "--outcome", "use", code=2).err
    assert detent("answer", run_id, "--outcome", "not-happened", "--json").json["status"] == "completed"
    assert ledger(detent) == ["ann"]


def test_a_call_that_may_still_land_says_until_when_and_a_no_is_refused_until_then(detent: Detent) -> None:
    (run_id,) = lost(detent, "ann", machine="ORDER")
    assert "may land   until" in detent("show", run_id).out
    assert "may still land" in detent("answer", run_id, "--outcome", "not-happened", code=2).err
    done = detent("answer", run_id, "--outcome", "happened", "--result", '{"receipt": "o-1"}', "--json").json
    assert done["output"] == {"receipt": "o-1"}


def test_a_repeat_shows_what_was_done_before_and_the_three_answers(detent: Detent) -> None:
    first = paid(detent, "bob")["run_id"]
    again = detent("run", "bank.py:PAY", "--set", "to=bob", code=3)
    for text in (f"of run {first}", "started by kim", '"receipt": "bob"', "do it again:", "--outcome use", "stop:"):
        assert text in again.out, again.out
    assert "再做一次" in detent("show", again.run_id, DETENT_LANG="zh").out
    earlier = detent("show", again.run_id, "--json").json["waiting"][0]["earlier"]
    assert (earlier["run_id"], earlier["status"], earlier["result"]) == (first, "completed", {"receipt": "bob"})
    assert "--outcome use" in detent("answer", again.run_id, "--outcome", "happened", code=2).err
    used = detent("answer", again.run_id, "--outcome", "use", "--json").json
    assert (used["status"], used["output"], ledger(detent)) == ("completed", {"receipt": "bob"}, ["bob"])


def test_a_repeat_is_done_again_stopped_or_given_another_result(detent: Detent) -> None:
    paid(detent, "bob")
    ask = ("run", "bank.py:PAY", "--set", "to=bob", "--json")
    given = '{"receipt": "by hand"}'
    named = detent(*ask, code=3).json["run_id"]
    assert detent("answer", named, "--outcome", "use", "--result", given, "--json").json["output"] == json.loads(given)
    stopped = detent(*ask, code=3).json["run_id"]
    assert detent("reject", stopped, "--json", code=4).json["status"] == "rejected"
    assert ledger(detent) == ["bob"]
    again = detent(*ask, code=3).json["run_id"]
    assert detent("approve", again, "--json").json["status"] == "completed"
    assert ledger(detent) == ["bob", "bob"]


def test_an_approval_and_a_repeat_are_one_question_that_names_who_approved(detent: Detent) -> None:
    first = detent("run", "bank.py:ASKED", "--set", "to=bob", "--json", code=3).json
    assert "earlier" not in first["waiting"][0]
    assert "no result to use" in detent("answer", first["run_id"], "--outcome", "use", code=2).err
    detent("approve", first["run_id"], "--by", "ann")
    again = detent("run", "bank.py:ASKED", "--set", "to=bob", code=3)
    assert "May I pay?" in again.out
    assert "approved by ann" in again.out
    assert detent("answer", again.run_id, "--outcome", "use", "--json").json["status"] == "completed"


def test_a_program_that_failed_on_its_way_shows_its_exit_code_and_output_before_it_runs_again(detent: Detent) -> None:
    detent("run", "deploy.yaml", "--json", code=1)
    again = detent("run", "deploy.yaml", code=3)
    for text in ("perhaps done", "tool_failure.exit", '"exit": 7', "stdout   copying", "stderr   no space"):
        assert text in again.out, again.out


# many at once


def test_all_doubts_are_listed_by_effect_with_their_causes(detent: Detent) -> None:
    assert detent("settle").out == "no open doubts\n"
    lost(detent, "ann", "bob")
    lost(detent, "eve", machine="ORDER")
    said = detent("settle").out
    for text in ("bank.pay: 2 in doubt", "bank.order: 1 in doubt", "the bank did not answer (2)", "may land   until"):
        assert text in said, said
    assert "--effect bank.pay --outcome happened|not-happened|give-up" in said
    told = detent("settle", "--effect", "bank.order", "--json").json
    assert [(one["effect"], one["count"]) for one in told["effects"]] == [("bank.order", 1)]
    assert told["doubts"][0]["lands_until"] > time.time()
    assert "存疑" in detent("settle", DETENT_LANG="zh").out


def test_many_doubts_are_settled_by_one_command_and_each_is_recorded(detent: Detent) -> None:
    runs = lost(detent, "ann", "bob", "eve")
    done = detent("settle", "--all", "--outcome", "not-happened", "--comment", "looked", "--by", "ann", "--json").json
    assert (done["ok"], done["settled"], done["left"]) == (True, 3, 0)
    assert {one["status"] for one in done["doubts"]} == {"completed"}
    assert sorted(ledger(detent)) == ["ann", "bob", "eve"]
    for run_id in runs:
        answers = [json.loads(line)["event"].get("result") for line in detent("log", run_id, "--json").out.splitlines()]
        said = [one for one in answers if isinstance(one, dict) and one.get("outcome")]
        assert [(one["outcome"], one["by"], one["comment"]) for one in said] == [("not_happened", "ann", "looked")]
        assert detent("log", run_id, "--verify").code == 0
    assert "no open doubts" in detent("settle", "--all", "--outcome", "happened").out


def test_what_is_refused_is_told_and_does_not_stop_the_others(detent: Detent) -> None:
    (sure,) = lost(detent, "ann")
    (under_way,) = lost(detent, "bob", machine="ORDER")
    idle = paid(detent, "eve")["run_id"]
    done = detent("settle", sure, under_way, idle, "--outcome", "not-happened", code=3)
    assert f"{under_way}  working/pay/1" in done.out
    assert "may still land" in done.out
    assert f"run {idle} has no open doubt" in done.out
    assert "settled 1 of 3" in done.out
    assert detent("show", sure, "--json").json["status"] == "completed"
    told = detent("settle", "--all", "--outcome", "give-up", "--json").json
    assert [(one["run_id"], one["is_settled"]) for one in told["doubts"]] == [(under_way, True)]


def test_the_probe_settles_what_it_knows(detent: Detent) -> None:
    detent.touch("closed")
    yes, no = lost(detent, "ann", "bob", machine="WIRE")
    (dumb,) = lost(detent, "eve")
    assert "cannot tell" in detent("settle", "--all", "--probe", code=3).out
    (detent.folder / "closed").unlink()
    (detent.folder / "ledger").write_text("ann\n")
    told = detent("settle", "--all", "--probe", "--json", code=3).json
    assert {one["run_id"]: one["is_settled"] for one in told["doubts"]} == {yes: True, no: True, dumb: False}
    assert detent("show", yes, "--json").json["output"] == {"receipt": "ann"}
    assert detent("show", no, "--json").json["error"]["type"] == "timeout.action"
    assert ledger(detent) == ["ann"]


@pytest.mark.parametrize(
    "words",
    [
        "--outcome happened",
        "--probe",
        "--all --effect bank.pay --probe",
        "--all --outcome happened --probe",
        "--all --outcome give-up --result 1",
    ],
)
def test_a_settle_that_cannot_be_meant_says_what_is_missing(detent: Detent, words: str) -> None:
    (run_id,) = lost(detent, "ann")
    assert "Error:" in detent("settle", *words.split(), code=2).err
    assert detent("show", run_id, "--json").json["status"] == "waiting"


# claims


def test_doctor_says_which_claims_differ_from_the_events_and_repairs_them(detent: Detent) -> None:
    run_id = paid(detent, "ann")["run_id"]
    assert "they match the events" in detent("doctor").out
    with sqlite3.connect(detent.folder / ".detent" / "journal.db") as db:
        db.execute("delete from claims")
        db.execute("insert into claims values ('global', 'bank.pay:made-up', ?, 'working/pay/9', '', 0)", (run_id,))
    db.close()
    told = detent("doctor", "--json", code=1).json
    problems = [one["text"] for one in told["checks"] if (one["name"], one["level"]) == ("claims", "problem")]
    assert sorted("claim is gone" in text for text in problems) == [False, True]
    assert "claim is gone" in detent("log", run_id, "--verify", code=1).out
    assert "made-up" in detent("log", "--all", "--verify", code=1).out
    repaired = detent("doctor", "--repair").out
    assert repaired.count("repaired:") == 2
    assert "they match the events" in detent("doctor").out
    detent("log", "--all", "--verify")
    again = detent("run", "bank.py:PAY", "--set", "to=ann", "--json", code=3).json
    assert again["waiting"][0]["earlier"]["run_id"] == run_id, "the deed is known again"


def test_a_journal_that_has_lost_its_claims_takes_no_run_until_they_are_rebuilt(detent: Detent) -> None:
    run_id = paid(detent, "ann")["run_id"]
    with sqlite3.connect(detent.folder / ".detent" / "journal.db") as db:
        db.execute("delete from claims")
    db.close()
    assert "detent doctor --repair" in detent("run", "bank.py:PAY", "--set", "to=ann", code=1).err
    detent("doctor", "--repair")
    again = detent("run", "bank.py:PAY", "--set", "to=ann", "--json", code=3).json
    assert again["waiting"][0]["earlier"]["run_id"] == run_id


# alarms


def test_a_deed_that_may_have_been_done_twice_is_told_loudly(detent: Detent) -> None:
    quiet, loud = (paid(detent, name)["run_id"] for name in ("ann", "bob"))
    alarm(detent, quiet, is_second=False)
    alarm(detent, loud)
    text = "`working/pay/1` may have been done twice: it was done all the same"
    shown, listed = detent("show", loud), detent("list")
    assert f"ALARM: {text}" in shown.out
    assert [line for line in listed.out.splitlines() if "ALARM" in line] == [
        line for line in listed.out.splitlines() if line.startswith(loud)
    ]
    assert "ALARM" not in detent("show", quiet).out
    assert detent("show", loud, "--json").json["alarms"] == [text]
    runs = {one["run_id"]: one["alarms"] for one in detent("list", "--json").json["runs"]}
    assert runs == {loud: [text], quiet: []}
    assert "警报" in detent("list", DETENT_LANG="zh").out
    assert text in detent("doctor").out
    for words in (("show", loud), ("list",)):
        assert "\x1b[31m" in on_a_terminal(detent, *words), "in red"
    assert detent("log", loud, "--verify").code == 0
