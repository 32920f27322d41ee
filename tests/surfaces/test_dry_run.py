"""`detent run --dry-run`: the real control flow, made-up answers, and nothing touched."""

from pathlib import Path

import pytest

from tests.surfaces.command import Detent

FLOW = """\
states:
  a: {type: initial, actions: [{id: look, tool: shell, effect: pure, params: {argv: [ls, "{{ context.place }}"]}}]}
  b:
    actions:
      - id: pay
        tool: http
        params: {url: "http://x.test"}
        approval: {question: "Pay?", approvers: [ann, bob], quorum: 2}
  c: {type: wait, duration: 7d}
  d: {type: wait, for: [done, dropped]}
  z: {type: final}
  bad: {type: error}
transitions:
  - {from: a, to: b, condition: "{{ result.look.success }}"}
  - {from: a, to: bad, on: error}
  - {from: b, to: c, condition: "{{ result.pay.success }}"}
  - {from: c, to: d}
  - {from: d, to: z}
"""


@pytest.fixture
def detent(tmp_path: Path) -> Detent:
    made = Detent(tmp_path)
    (tmp_path / "flow.yaml").write_text(FLOW)
    return made


def test_a_dry_run_shows_what_would_be_called_and_asked(detent: Detent) -> None:
    before = sorted(detent.folder.iterdir())
    assert detent("run", "flow.yaml", "--dry-run", "--set", "place=here", code=3).out.splitlines() == [
        "in `a`",
        '  would call shell {"argv": ["ls", "here"]}',
        "in `b`",
        "  would ask at pay: Pay?",
        '  would call http {"url": "http://x.test"}',
        "in `c`",
        "  would sleep for 7 d",
        "in `d`",
        "  would wait for a signal: done, dropped",
        "dry run: waiting in `d`; nothing was touched",
    ]
    assert sorted(detent.folder.iterdir()) == before


def test_tools_answer_from_a_file(detent: Detent) -> None:
    (detent.folder / "answers.yaml").write_text("shell: [{output: {success: false}}]\n")
    said = detent("run", "flow.yaml", "--dry-run", "--answers", "answers.yaml", "--json", code=1).json
    assert (said["ok"], said["dry_run"], said["state"], said["status"]) == (False, True, "bad", "failed")
    assert [(step["kind"], step["name"]) for step in said["steps"]] == [
        ("state", "a"),
        ("call", "shell"),
        ("state", "bad"),
    ]


def test_answers_that_cannot_be_read_are_told_with_their_place(detent: Detent) -> None:
    (detent.folder / "answers.yaml").write_text("shell: [{outptu: {}}]\n")
    said = detent("run", "flow.yaml", "--dry-run", "--answers", "answers.yaml", code=2)
    assert "answers.yaml:1:9: an answer has exactly one of" in said.err
    assert "--dry-run" in detent("run", "flow.yaml", "--answers", "answers.yaml", code=2).err
    assert not detent.has(".detent")


def test_a_form_is_filled_in_and_a_loop_that_sleeps_ends(detent: Detent) -> None:
    text = """
states:
  a: {type: initial, actions: [{id: who, tool: ask, approval: {question: Who?, form: {name: string, age: integer}}}]}
  nap: {type: wait, duration: 60}
transitions: [{from: a, to: nap, condition: "{{ result.who.data.age == 1 }}"}, {from: nap, to: a}]
"""
    (detent.folder / "loop.yaml").write_text(text)
    said = detent("run", "loop.yaml", "--dry-run", "--json", code=3).json
    assert [step["kind"] for step in said["steps"]] == [
        "state",
        "ask",
        "state",
        "sleep",
        "state",
        "ask",
        "state",
        "again",
    ]


def test_a_python_machine_can_be_rehearsed_too(detent: Detent) -> None:
    said = detent("run", "flows.py:PLEA", "--set", "to=ann", "--dry-run").out
    assert '  would call mail.send {"to": "ann"}' in said
    assert not detent.has("sent")
    assert "  would wait for a signal: SEND" in detent("run", "flows.py:MAIL", "--dry-run", code=3).out
    assert '"to": "kid"' in detent("run", "flows.py:CHILD", "--dry-run").out


def test_what_a_workflow_wants_as_a_text_stays_one(detent: Detent) -> None:
    flow = "input: {version: string, count: integer}\nstates: {a: {type: initial}, z: {type: final}}\n"
    (detent.folder / "flow.yaml").write_text(flow + "transitions: [{from: a, to: z}]\n")
    said = detent("run", "flow.yaml", "--set", "version=1.0", "--set", "count=2", "--json").json
    assert said["output"] == {"version": "1.0", "count": 2}
    said = detent("run", "flow.yaml", "--set", 'version="x"', "--set", "count=2", "--json").json
    assert said["output"]["version"] == "x"


POLICY = """\
roles: {ops: [ann, bob]}
default: {irreversible: ask}
rules:
  - {name: looking, decision: allow, tool: shell}
  - {name: spending, decision: ask, tool: http, approvers: [role:ops], quorum: 2, different_from_initiator: true}
"""


def test_a_dry_run_shows_what_the_policy_would_say_and_by_which_rule(detent: Detent) -> None:
    (detent.folder / "detent.policy.yaml").write_text(POLICY)
    flow = FLOW.replace('        approval: {question: "Pay?", approvers: [ann, bob], quorum: 2}\n', "")
    (detent.folder / "flow.yaml").write_text(flow)
    said = detent("run", "flow.yaml", "--dry-run", "--by", "carl", "--json", code=3).json
    steps = [(step["kind"], step["name"]) for step in said["steps"]]
    assert steps[:6] == [("state", "a"), ("rule", "shell"), ("call", "shell"), ("state", "b"), ("rule", "http"),
                         ("ask", "pay")]  # fmt: skip
    rules = [(step["detail"]["decision"], step["detail"]["rule"]) for step in said["steps"] if step["kind"] == "rule"]
    assert rules == [("allow", "looking"), ("ask", "spending")]
    assert ("call", "http") in steps, "everybody is made to say yes"
    alone = detent("run", "flow.yaml", "--dry-run", "--by", "ann", code=3).out
    assert "  would need an answer at pay: 2 people must say yes, and only bob may" in alone
    (detent.folder / "other.yaml").write_text("rules: [{name: never, decision: deny, tool: '*', message: closed}]\n")
    denied = detent("run", "flow.yaml", "--dry-run", "--policy", "other.yaml", code=1).out
    assert '  the policy\'s rule `never` would deny shell {"argv": ["ls", null]}: closed' in denied
    assert sorted(path.name for path in detent.folder.iterdir()) == [
        "detent.policy.yaml", "flow.yaml", "flows.py", "other.yaml",
    ]  # fmt: skip


def test_the_kind_of_the_real_effect_decides_not_that_of_the_stub(detent: Detent) -> None:
    (detent.folder / "detent.policy.yaml").write_text("default: {irreversible: deny}\n")
    (detent.folder / "one.yaml").write_text(
        "states:\n  a: {type: initial, actions: [{id: t, tool: files.write, params: {path: x, text: y}},"
        " {id: u, tool: files.append, params: {path: x, text: y}}]}\n  z: {type: final}\n"
        'transitions: [{from: a, to: z, condition: "{{ result.u.success }}"}]\n'
    )
    said = detent("run", "one.yaml", "--dry-run", "--json", code=4).json
    assert [(step["kind"], step["name"]) for step in said["steps"]] == [
        ("state", "a"), ("call", "files.write"), ("rule", "files.append"),
    ]  # fmt: skip


def test_a_broken_policy_is_a_problem_for_the_doctor_and_stops_a_dry_run(detent: Detent) -> None:
    (detent.folder / "detent.policy.yaml").write_text("rules: [{name: x, decision: alow}]\nroels: {}\n")
    checks = detent("doctor", "--json", code=1).json["checks"]
    found = [check["text"] for check in checks if check["name"] == "policy"]
    assert len(found) == 2
    assert "did you mean `allow`?" in found[0]
    assert "did you mean `roles`?" in found[1]
    assert "detent.policy.yaml:1:" in detent("run", "flow.yaml", "--dry-run", code=2).err
    (detent.folder / "detent.policy.yaml").write_text(POLICY)
    found = [check for check in detent("doctor", "--json").json["checks"] if check["name"] == "policy"]
    assert found == [{"name": "policy", "level": "ok", "text": "detent.policy.yaml, 2 rules"}]
