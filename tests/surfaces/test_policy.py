"""The policy on the command line: found beside the home, named by hand, checked, and seen in what it did."""

from pathlib import Path

import pytest

from tests.surfaces.command import Detent, until

LAW = """\
roles: {ops: [ann, bob]}
rules:
  - {name: to-eve, decision: deny, tool: mail.*, when: "{{ args.to == 'eve' }}", message: not to her}
  - {name: to-bob, decision: allow, tool: mail.*, when: "{{ args.to == 'bob' }}"}
  - {name: others, decision: ask, tool: mail.*, approvers: [role:ops], message: "Mail {{ args.to }}?"}
"""


@pytest.fixture
def detent(tmp_path: Path) -> Detent:
    made = Detent(tmp_path)
    (tmp_path / "detent.policy.yaml").write_text(LAW)
    return made


def test_the_file_beside_the_home_decides_and_the_log_says_which_rule(detent: Detent) -> None:
    said = detent("run", "flows.py:PLEA", "--set", "to=eve", "--json", code=4).json
    assert said["error"]["type"] == "approval_rejected"
    assert said["error"]["data"]["policy"]["rule"] == "to-eve"
    assert "the policy's rule `to-eve` says deny" in detent("log", "last").out
    assert "the policy's rule `to-eve` says deny" in detent("show", "last", "--why").out
    detent("run", "flows.py:PLEA", "--set", "to=bob")
    assert "by policy:to-bob" in detent("log", "last").out
    assert (detent.folder / "sent").read_text() == "bob\n"
    detent("log", "last", "--verify")


def test_a_question_of_the_policy_is_shown_with_its_rule_and_its_people(detent: Detent) -> None:
    said = detent("run", "flows.py:PLEA", "--set", "to=carl", code=3)
    assert "Mail carl?" in said.out
    assert "others" in said.out
    assert "ann, bob" in said.out
    detent("approve", said.run_id, "--by", "eve", code=2)
    detent("approve", said.run_id, "--by", "ann")
    assert (detent.folder / "sent").read_text() == "carl\n"


def test_a_policy_can_be_named(detent: Detent) -> None:
    (detent.folder / "strict.policy.yaml").write_text("rules: [{name: none, decision: deny}]\n")
    (detent.folder / "empty.policy.yaml").write_text("rules:\n")
    argv = ("run", "flows.py:PLEA", "--set", "to=bob", "--json")
    assert detent(*argv, "--policy", "strict.policy.yaml", code=4).json["error"]["data"]["policy"]["rule"] == "none"
    assert detent(*argv, code=4, DETENT_POLICY="strict.policy.yaml").json["error"]["data"]["policy"]["rule"] == "none"
    assert detent(*argv, "--policy", "empty.policy.yaml", code=3, DETENT_POLICY="strict.policy.yaml").json["waiting"]


@pytest.mark.parametrize("text", ["rules: [", "rules: [{name: a, decision: allw}]"])
def test_a_broken_policy_is_never_no_policy(detent: Detent, text: str) -> None:
    (detent.folder / "detent.policy.yaml").write_text(text)
    said = detent("run", "flows.py:QUICK", code=2)
    assert "Error: detent.policy.yaml:" in said.err
    assert "Traceback" not in said.err
    assert not detent.has("sent")
    assert not detent.has(".detent/journal.db")
    detent("run", "flows.py:QUICK", "--policy", "nowhere.yaml", code=2)


def test_a_policy_is_checked_and_its_schema_printed(detent: Detent) -> None:
    assert detent("validate", "detent.policy.yaml").out == "ok: a policy with 3 rules\n"
    assert detent("validate", "detent.policy.yaml", "--json").json["rules"] == ["to-eve", "to-bob", "others"]
    (detent.folder / "bad.policy.yaml").write_text("rules: [{name: a, decision: allw}]\n")
    assert "bad.policy.yaml:1:29: unknown `decision`: `allw`" in detent("validate", "bad.policy.yaml", code=2).err
    assert detent("schema", "policy", "--json").json["title"] == "detent policy"
    assert detent("schema", "--json").json["title"] == "detent workflow"


def test_another_policy_than_that_of_the_process_that_drives_is_refused(detent: Detent) -> None:
    with detent.going("run", "flows.py:STEADY"):
        until(lambda: detent.has("began"))
        said = detent("run", "flows.py:QUICK", "--policy", "detent.policy.yaml", code=2)
        assert "under its own policy" in said.err
        detent.touch("go")
