"""What a workflow wants to be given is checked before anything begins."""

import os
import pty
import subprocess
from pathlib import Path

import pytest

from tests.surfaces.command import DEADLINE_S, SCRIPT, Detent

FLOW = """\
input:
  order: integer
  kind: {type: string, enum: [big, small], default: small, description: How large it is}
states: {a: {type: initial}, z: {type: final}}
transitions: [{from: a, to: z}]
"""
PARENT = """\
states:
  a: {type: initial, actions: [{id: kid, workflow: flow.yaml, input: {order: "{{ context.order }}"}}]}
  z: {type: final}
transitions: [{from: a, to: z, condition: "{{ result.kid.success }}"}]
"""


@pytest.fixture
def detent(tmp_path: Path) -> Detent:
    (tmp_path / "flow.yaml").write_text(FLOW)
    (tmp_path / "parent.yaml").write_text(PARENT)
    return Detent(tmp_path)


def test_input_that_does_not_fit_is_refused_and_nothing_is_journalled(detent: Detent) -> None:
    said = detent("run", "flow.yaml", "--set", "kind=huge", code=2)
    assert "input.order is missing" in said.err
    assert "(give --set order=…, or --input JSON)" in said.err
    assert "input.kind must be one of 'big', 'small'" in said.err
    assert detent("list", "--json").json["runs"] == []
    detent("run", "flow.yaml", "--dry-run", code=2)


def test_defaults_are_part_of_what_the_run_was_given(detent: Detent) -> None:
    assert detent("run", "flow.yaml", "--set", "order=7", "--json").json["output"] == {"order": 7, "kind": "small"}
    assert '"kind": "small"' in detent("log", "last").out


def test_a_child_is_given_what_it_wants_or_fails_with_a_validation_error(detent: Detent) -> None:
    detent("run", "parent.yaml", "--set", "order=7")
    said = detent("run", "parent.yaml", "--set", "order=many", "--json", code=1).json
    assert said["error"]["type"] == "validation_error"


SECRET = """\
input:
  token: {type: secret, description: What the bank knows us by}
  day: {type: string, enum: [mon, tue], default: mon}
tools:
  use: {shell: [sh, -c, 'printf %s "$1" > got', sh, "{{ params.it }}"], effect: pure, input: {it: string}}
states:
  a:
    type: initial
    actions:
      - {id: look, tool: ask, approval: {question: "Go on?", expires: 1h}}
  b: {actions: [{id: use, tool: use, params: {it: "{{ context.token }}"}}]}
  z: {type: final}
transitions: [{from: a, to: b}, {from: b, to: z}]
"""
VALUE = "correct-horse-battery-staple"


@pytest.fixture
def bank(detent: Detent) -> Detent:
    (detent.folder / "bank.yaml").write_text(SECRET)
    return detent


def kept(detent: Detent) -> list[str]:
    """The files of the home that hold the value, but for the one place where it may be."""
    home = detent.folder / ".detent"
    files = [file for file in home.rglob("*") if file.is_file()]
    return [str(file) for file in files if VALUE.encode() in file.read_bytes() and file.parent.name != "secrets"]


def test_a_secret_is_kept_beside_the_journal_until_its_run_has_completed(bank: Detent) -> None:
    run = bank("run", "bank.yaml", "--set", f"token={VALUE}", "--json", code=3).json
    (file,) = (bank.folder / ".detent" / "secrets").iterdir()
    assert (file.name, oct(file.stat().st_mode & 0o777)) == (run["run_id"], "0o600")
    assert kept(bank) == []
    bank("backup", "copy.detent")
    assert VALUE.encode() not in (bank.folder / "copy.detent").read_bytes()
    bank("approve", "last")
    assert (bank.folder / "got").read_text() == VALUE
    assert kept(bank) == []
    assert not file.exists()
    assert VALUE not in bank("log", "last").out
    bank("log", "last", "--verify")


def test_a_secret_of_the_environment_need_not_be_given_and_a_missing_one_is_named(bank: Detent) -> None:
    said = bank("run", "bank.yaml", code=2).err
    assert "the secret `token` is missing: give it with the input, or set token in the environment" in said
    assert bank("list", "--json").json["runs"] == []
    bank("run", "bank.yaml", code=3, token=VALUE)
    bank("approve", "last", token=VALUE)
    assert (bank.folder / "got").read_text() == VALUE
    assert kept(bank) == []


def test_a_dry_run_needs_no_secret_and_shows_none(bank: Detent) -> None:
    said = bank("run", "bank.yaml", "--dry-run", "--set", f"token={VALUE}").out
    assert "secret-token" in said, "something made up"
    assert VALUE not in said
    bank("run", "bank.yaml", "--dry-run")


def test_at_a_terminal_a_secret_is_asked_for_and_not_shown(bank: Detent) -> None:
    ours, theirs = pty.openpty()
    argv, env = [SCRIPT, "run", "bank.yaml"], bank.env | {"TERM": "dumb"}
    process = subprocess.Popen(argv, cwd=bank.folder, env=env, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    said, is_typed = b"", False
    try:
        while chunk := os.read(ours, 65536):
            said += chunk
            if b"What the bank knows us by" in said and not is_typed:
                is_typed = True
                os.write(ours, f"{VALUE}\n".encode())
            if b"Go on?" in said:
                os.write(ours, b"\x03")
                break
    except OSError:
        pass
    finally:
        process.wait(DEADLINE_S)
        os.close(ours)
    assert is_typed
    assert VALUE.encode() not in said
    assert kept(bank) == []


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (("params: {it: ", "params: {it: 'x {{ context.token }}', other: "), "`context.token` is a secret"),
        (("transitions:", 'output: "{{ context.token }}"\ntransitions:'), "`context.token` is a secret"),
        (("type: secret,", "type: secret, default: x,"), "the secret `token` has a default"),
    ],
)
def test_a_secret_is_handed_to_a_call_whole_and_nothing_else_is_done_with_it(
    bank: Detent, wrong: tuple[str, str], problem: str
) -> None:
    (bank.folder / "wrong.yaml").write_text(SECRET.replace(*wrong))
    assert problem in bank("validate", "wrong.yaml", code=2).err


def test_a_child_has_the_secret_that_its_parent_hands_on(bank: Detent) -> None:
    asks = 'tool: ask, approval: {question: "Go on?", expires: 1h}'
    (bank.folder / "child.yaml").write_text(SECRET.replace(asks, 'tool: shell, params: {argv: ["true"]}, effect: pure'))
    (bank.folder / "above.yaml").write_text(
        "input: {key: secret}\n"
        "states:\n"
        '  a: {type: initial, actions: [{id: kid, workflow: child.yaml, input: {token: "{{ context.key }}"}}]}\n'
        "  z: {type: final}\n"
        "transitions: [{from: a, to: z}]\n"
    )
    bank("run", "above.yaml", "--set", f"key={VALUE}")
    assert (bank.folder / "got").read_text() == VALUE
    assert kept(bank) == []
    assert list((bank.folder / ".detent" / "secrets").iterdir()) == []
