"""Policy files: what they say, and every problem of one at its place."""

import json
from pathlib import Path

import pytest

from detent.core.policy import Policy, Rule
from detent.define.document import read_document
from detent.define.policy import compile_policy, load_policy, policy_schema
from detent.errors import DefinitionError

WHOLE = """\
version: 3
description: what may be done here
roles: {ops: [ann, bob], boss: eve}
default: {irreversible: ask, pure: allow}
rules:
  - {name: small, decision: allow, tool: bank.*, when: "{{ args.amount < 100 }}", named_too: true}
  - name: big
    decision: ask
    description: two of us
    tool: [bank.pay, bank.send]
    workflow: billing
    initiator: [bot-*, ci]
    kind: irreversible
    cost_over: 2.5
    message: "Pay {{ args.amount }}?"
    approvers: [role:ops, carol]
    quorum: 2
    different_from_initiator: true
    expires: 1h30m
  - {name: never, decision: deny, tool: shell, message: no shell}
"""


def test_a_policy_says_what_its_file_says(tmp_path: Path) -> None:
    (tmp_path / "detent.policy.yaml").write_text(WHOLE)
    assert load_policy(tmp_path / "detent.policy.yaml") == Policy(
        rules=(
            Rule("small", "allow", tools=("bank.*",), when="{{ args.amount < 100 }}", is_for_named=True),
            Rule(
                "big",
                "ask",
                tools=("bank.pay", "bank.send"),
                workflows=("billing",),
                initiators=("bot-*", "ci"),
                kinds=("irreversible",),
                cost_over=2.5,
                message="Pay {{ args.amount }}?",
                approvers=("role:ops", "carol"),
                quorum=2,
                separate=True,
                expires_s=5400.0,
            ),
            Rule("never", "deny", tools=("shell",), message="no shell"),
        ),
        default={"irreversible": "ask", "pure": "allow"},
        roles={"ops": ("ann", "bob"), "boss": ("eve",)},
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[]", "p:1:1: a policy must be a mapping"),
        ("rule: []", "p:1:1: unknown key of a policy: `rule`; did you mean `rules`?"),
        ("rules: {}", "p:1:8: `rules` must be a list"),
        ("rules: [{decision: deny}]", "p:1:9: rule 1 needs `name`"),
        ("rules: [{name: a}]", "p:1:9: rule 1 needs `decision`"),
        ("rules: [{name: a, decision: forbid}]", "p:1:29: unknown `decision`: `forbid`"),
        ("rules: [{name: a, decision: deny, quorum: 2}]", "p:1:35: `quorum` belongs to `ask`, and rule 1 is `deny`"),
        ("rules: [{name: a, decision: ask, named_too: true}]", "`named_too` belongs to `allow`"),
        ("rules: [{name: a, decision: ask, tools: x}]", "did you mean `tool`?"),
        ("rules: [{name: a, decision: ask, kind: pur}]", "p:1:40: unknown kind `pur`; did you mean `pure`?"),
        ('rules: [{name: a, decision: deny, when: "{{ arg.x }}"}]', "unknown name `arg`; did you mean `args`?"),
        ('rules: [{name: a, decision: deny, when: "{{ args. }}"}]', "p:1:41: "),
        ('rules: [{name: a, decision: deny, message: "{{ context.x }}"}]', "unknown name `context`"),
        ("rules: [{name: a, decision: ask, approvers: [role:ops]}]", "unknown role `ops`"),
        ("rules: [{name: a, decision: ask, approvers: [x], quorum: 2}]", "a quorum of 2 can never be reached"),
        ("{roles: {o: [x]}, rules: [{name: a, decision: ask, approvers: [role:o], quorum: 2}]}", "never be reached"),
        ("rules: [{name: a, decision: ask, expires: soon}]", "`expires` must be a number of seconds or a text"),
        ("rules: [{name: a, decision: deny}, {name: a, decision: ask}]", "p:1:43: a second rule is called `a`"),
        ("rules: [{name: 'default:pure', decision: deny}]", "cannot be a rule's name"),
        ("default: {irreversible: perhaps}", "p:1:25: unknown `irreversible`: `perhaps`"),
        ("default: {harmless: allow}", "unknown key of `default`: `harmless`"),
        ("roles: {ops: [role:dev]}", "`role:dev` is not a person"),
        ("mcp_may_approve_irreversible: sometimes", "p:1:31: `mcp_may_approve_irreversible` must be `true` or `false`"),
        ("roles: {ops: []}", "`ops` must be a text or a list of texts"),
        ("rules: []\nrules: []", "p:2:1: "),
        (f"rules: [{{name: a, decision: deny, tool: '{'x' * 201}'}}]", "a pattern of more than 200 characters"),
    ],
)
def test_what_is_wrong_is_told_with_its_place_and_the_way_out(text: str, problem: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        compile_policy(read_document(text, "p"))
    assert problem in str(caught.value)


def test_every_problem_is_told_at_once() -> None:
    with pytest.raises(DefinitionError) as caught:
        compile_policy(
            read_document("rules:\n  - {name: a, decision: x}\n  - {nam: b, decision: deny}\nroles: 5\n", "p")
        )
    assert [line.partition(" ")[0] for line in str(caught.value).splitlines() if line.startswith("p:")] == [
        "p:2:25:",
        "p:3:5:",
        "p:3:6:",
        "p:4:8:",
    ]


def test_an_empty_policy_says_nothing() -> None:
    assert compile_policy(read_document("rules:\n", "p")) == Policy()


def test_mcp_clients_approve_what_cannot_be_undone_only_where_the_policy_says_so() -> None:
    assert compile_policy(read_document("mcp_may_approve_irreversible: true", "p")).mcp_may_approve_irreversible is True
    assert compile_policy(read_document("mcp_may_approve_irreversible: false", "p")) == Policy()


def test_the_schema_names_every_key() -> None:
    schema = policy_schema()
    assert json.loads(json.dumps(schema)) == schema
    assert set(schema["properties"]) == {"version", "description", "rules", "default", "roles",
                                         "mcp_may_approve_irreversible", "sandbox"}  # fmt: skip
    assert schema["$defs"]["rule"]["required"] == ["name", "decision"]
    assert schema["$defs"]["rule"]["additionalProperties"] is False
