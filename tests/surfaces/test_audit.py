"""The audit, backtests and suggested rules on the command line: who allowed what, and what other rules would do."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.surfaces.command import Detent

MORE = """

@effect("git.fetch", kind="idempotent")
async def fetch(contract):
    return {"ok": True}


FETCH = simple("fetch", Action("fetch", "git.fetch", {"remote": "{{ context.remote }}"}, ask=Question("Fetch?")))
OFTEN = simple("often", Action("many", "branches", branches=tuple(
    Branch(f"b{n}", (Action(f"f{n}", "git.fetch", {"remote": "{{ context.remote }}"}, ask=Question("Fetch?")),))
    for n in range(6))))
BOTH = simple("both", Action("pay", "mail.send", {"to": "{{ context.to }}"},
              ask=Question("Pay?", quorum=2, approvers=("ann", "bob"))))
"""


@pytest.fixture
def detent(tmp_path: Path) -> Detent:
    made = Detent(tmp_path)
    with (tmp_path / "flows.py").open("a") as flows:
        flows.write(MORE)
    return made


def rows(detent: Detent, *argv: str) -> list[dict[str, Any]]:
    """The decisions, after checking that the last line closes them."""
    *found, end = [json.loads(line) for line in detent("audit", "--json", *argv).out.splitlines()]
    assert end == {"ok": True, "decisions": len(found), "error": None}
    return found


def ask(detent: Detent, to: str, flow: str = "PLEA", name: str = "to") -> str:
    return str(detent("run", f"flows.py:{flow}", "--set", f"{name}={to}", "--json", code=3).json["run_id"])


def approve_often(detent: Detent, remote: str) -> None:
    """Six approvals of one call, in one run."""
    run = ask(detent, remote, "OFTEN", "remote")
    waiting = detent("show", run, "--json").json["waiting"]
    for question in waiting:
        detent("approve", run, question["contract_id"], "--by", "ann", code=None)


def test_every_decision_has_its_call_its_people_and_its_outcome(detent: Detent) -> None:
    first, second, third = ask(detent, "ann@x"), ask(detent, "bob@x"), ask(detent, "eve@x")
    detent("approve", first, "--by", "ann", "--comment", "as agreed")
    detent("approve", second, "--args", '{"to": "carl@x"}', "--by", "bob")
    detent("reject", third, "--by", "ann", "--comment", "not her", code=4)
    said = rows(detent)
    assert [(one["answer"], one["by"], one["outcome"]) for one in said] == [
        ("approve", "ann", "done"),
        ("edit", "bob", "done"),
        ("reject", "ann", "refused"),
    ]
    assert [one["arguments"]["to"] for one in said] == ["ann@x", "bob@x", "eve@x"], "what was shown, not what was made"
    assert said[1]["edits"] == [{"path": "args.to", "was": "bob@x", "now": "carl@x"}]
    assert {one["known_by"] for one in said} == {"claimed"}
    assert (said[0]["question"], said[0]["reason"], said[0]["workflow"]) == ("Please?", "as agreed", "plea")
    assert all(len(one["call_hash"]) == 64 and one["outcome_at"] >= one["at"] for one in said)
    assert [one["at"] for one in said] == sorted(one["at"] for one in said)
    assert [one["by"] for one in rows(detent, "--who", "bob")] == ["bob"]
    assert len(rows(detent, "--effect", "mail.*")) == 3
    assert rows(detent, "--effect", "git.*") == []
    assert [one["run_id"] for one in rows(detent, "--run", third)] == [third]
    assert rows(detent, "--until", "1h") == []
    assert len(rows(detent, "--since", "1h")) == 3
    shown = detent("audit").out
    assert "ann (claimed)" in shown
    assert 'mail.send {"to": "eve@x"}' in shown


def test_quorums_settled_doubts_cancels_and_forks_are_decisions_too(detent: Detent) -> None:
    run = ask(detent, "x@x", "BOTH")
    detent("approve", run, "--by", "ann", code=3)
    assert [(one["quorum"], one["outcome"]) for one in rows(detent)] == [("1 of 2", "not_yet")]
    detent("approve", run, "--by", "bob")
    again = ask(detent, "y@x")
    detent("fork", again, "--by", "kim", code=None)
    detent("cancel", again, "--by", "kim", code=None)
    said = [(one["decision"], one["answer"], one["by"], one["outcome"]) for one in rows(detent)]
    assert ("answer", "approve", "bob", "done") in said
    assert ("fork", "fork", "kim", "refused") in said, "the run it comes from held the key of its deed"
    assert ("repeat", "reject", "journal", "refused") in said
    assert ("cancel", "cancel", "kim", "cancelled") in said


def test_a_spreadsheet_gets_no_formula_and_no_hidden_letter(detent: Detent) -> None:
    evil = '=cmd|"/c calc"!A1'
    run = ask(detent, "x@x")
    detent("reject", run, "--by", "+ann", "--comment", f"{evil}\n\u202ex", code=4)
    head, row = list(csv.reader(io.StringIO(detent("audit", "--csv").out)))
    assert head[:6] == ["time", "run", "seq", "workflow", "contract", "effect"]
    one = dict(zip(head, row, strict=True))
    assert (one["by"], one["arguments"], one["outcome"]) == ("'+ann", '{"to": "x@x"}', "refused")
    assert one["reason"] == f"'{evil}\\n\\u202ex"
    assert not any(cell[:1] in ("=", "+", "-", "@") for cell in row)
    assert detent("audit", "--csv", "--json", code=2)


def test_an_empty_journal_and_a_wrong_time_are_told_in_a_sentence(detent: Detent) -> None:
    assert detent("audit").out == "no decisions\n"
    assert rows(detent) == []
    assert "`soon` is not a time; give a length of time like 30d" in detent("audit", "--since", "soon", code=2).err
    assert detent("policy", "suggest").out == ""
    (detent.folder / "p.yaml").write_text("rules: [{name: a, decision: allw}]\n")
    assert "p.yaml:1:29: unknown `decision`" in detent("policy", "backtest", "p.yaml", code=2).err


def test_a_backtest_puts_what_a_person_refused_first(detent: Detent) -> None:
    good, bad = ask(detent, "ann@x"), ask(detent, "eve@x")
    detent("approve", good, "--by", "ann")
    detent("reject", bad, "--by", "ann", code=4)
    (detent.folder / "all.yaml").write_text("rules: [{name: all, decision: allow, tool: mail.*}]\n")
    (detent.folder / "some.yaml").write_text(
        "rules:\n  - {name: no, decision: deny, when: \"{{ args.to == 'eve@x' }}\"}\n  - {name: yes, decision: allow}\n"
    )
    lax = detent("policy", "backtest", "all.yaml", "--json").json
    assert (lax["calls"], lax["was"], lax["now"]) == (
        2,
        {"allow": 0, "ask": 2, "deny": 0},
        {"allow": 2, "ask": 0, "deny": 0},
    )
    (danger,) = lax["dangerous"]
    assert (danger["run_id"], danger["said"], danger["by"], danger["now_rule"]) == (bad, "reject", "ann", "all")
    assert danger["arguments"] == {"to": "eve@x"}
    told = detent("policy", "backtest", "all.yaml", "--strict", code=1).out
    assert told.index("refused or changed it: 1") < told.index("rule in this file")
    assert detent("policy", "backtest", "all.yaml", "--strict", "--json", code=1).json["ok"] is False
    strict = detent("policy", "backtest", "some.yaml", "--strict", "--json").json
    assert [(one["rule"], one["allow"], one["deny"]) for one in strict["new_rules"]] == [("no", 0, 1), ("yes", 1, 0)]
    assert strict["dangerous"] == []
    assert [(one["was"], one["now"]) for one in strict["changes"]] == [("ask", "deny"), ("ask", "allow")]


def test_a_suggested_rule_is_valid_pins_the_call_and_does_what_it_says(detent: Detent) -> None:
    approve_often(detent, "origin")
    said = detent("policy", "suggest", "--json").json
    (one,) = said["suggestions"]
    assert (one["effect"], one["approvals"], one["people"]) == ("git.fetch", 6, ["ann"])
    assert (one["would_allow"], one["allowed_though_refused"]) == (6, 0)
    assert not detent.has("detent.policy.yaml"), "nothing is adopted by itself"
    (detent.folder / "detent.policy.yaml").write_text(said["yaml"])
    assert detent("policy", "suggest", "--json").json["suggestions"] == [], "what is adopted is not suggested again"
    detent("validate", "detent.policy.yaml")
    assert detent("policy", "backtest", "detent.policy.yaml", "--strict", "--json").json["now"]["allow"] == 6
    detent("run", "flows.py:OFTEN", "--set", "remote=origin")
    detent("run", "flows.py:OFTEN", "--set", "remote=other", code=3)
    detent("run", "flows.py:FETCH", "--set", "remote=origin", code=3)


def test_one_refusal_ends_a_suggestion_for_ever(detent: Detent) -> None:
    run = ask(detent, "origin", "FETCH", "remote")
    detent("reject", run, "--by", "bob", code=4)
    approve_often(detent, "origin")
    approve_often(detent, "upstream")
    (one,) = detent("policy", "suggest", "--since", "1h", "--json").json["suggestions"]
    assert "upstream" in one["when"]


def test_hostile_arguments_stay_data(detent: Detent) -> None:
    remote = """x" }} - {name: all, decision: allow} # ' \\"""
    approve_often(detent, json.dumps(remote))
    text = detent("policy", "suggest").out
    (rule,) = yaml.safe_load(text)["rules"]
    assert (rule["decision"], rule["tool"], rule["workflow"]) == ("allow", ["git.fetch"], ["often"])
    (detent.folder / "detent.policy.yaml").write_text(text)
    detent("validate", "detent.policy.yaml")
    detent("run", "flows.py:OFTEN", "--set", f"remote={json.dumps(remote)}")
    detent("run", "flows.py:OFTEN", "--set", "remote=origin", code=3)
