"""Sandboxes and rules about what a call comes to, through the real command."""

import json
from pathlib import Path

import pytest

from detent.effects import sandbox
from tests.surfaces.command import Detent

BROKEN = "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n"
FLOW = """\
name: {name}
version: 1
states:
  a: {{type: initial, actions: [{first}]}}
  b: {{actions: [{second}]}}
  c: {{type: final}}
transitions:
  - {{from: a, to: b}}
  - {{from: b, to: c}}
"""


def step(name: str, script: str, more: str = "") -> str:
    return f'{{id: {name}, tool: shell, effect: pure, params: {{argv: [/bin/sh, -c, "{script}"]}}{more}}}'


@pytest.fixture(params=["none", "broken"])
def detent(tmp_path: Path, request: pytest.FixtureRequest) -> Detent:
    """A machine without bubblewrap, or one whose kernel does not let it work."""
    made = Detent(tmp_path)
    programs = tmp_path / "programs"
    programs.mkdir()
    if request.param == "broken":
        (programs / "bwrap").write_text(BROKEN)
        (programs / "bwrap").chmod(0o755)
    made.env["PATH"] = str(programs)
    return made


def levels(detent: Detent) -> list[str]:
    rows = [json.loads(row) for row in detent("log", "last", "--json").out.splitlines()]
    return [found for row in rows if (found := row.get("event", row).get("sandbox"))]


def test_the_default_degrades_with_one_warning_and_the_journal_says_why(detent: Detent) -> None:
    flow = FLOW.format(name="two", first=step("one", "echo 1 >> made"), second=step("two", "echo 2 >> made"))
    (detent.folder / "two.yaml").write_text(flow)
    said = detent("run", "two.yaml")
    assert said.err.count("programs run without a sandbox and can reach the journal: bubblewrap") == 1, said
    assert (detent.folder / "made").read_text() == "1\n2\n"
    assert [level.startswith("off: bubblewrap") for level in levels(detent)] == [True, True]


@pytest.mark.parametrize("asks", ["home", "strict", "policy"])
def test_a_level_that_somebody_asked_for_is_refused_with_nothing_done(detent: Detent, asks: str) -> None:
    if asks == "policy":
        (detent.folder / "detent.policy.yaml").write_text("sandbox: home\n")
    more = "" if asks == "policy" else f", sandbox: {asks}"
    flow = FLOW.format(name="one", first=step("one", "echo 1 >> made", more), second=step("two", "echo 2 >> made"))
    (detent.folder / "one.yaml").write_text(flow)
    said = detent("run", "one.yaml", "--json", code=1).json
    assert "is not available here: bubblewrap" in said["error"]["message"]
    assert not detent.has("made")


RULES = """\
rules:
  - {name: no-removing, decision: deny, tool: shell, program: PROGRAM}
  - {name: not-there, decision: deny, tool: "*", path: "PLACE/**"}
  - {name: no-calls, decision: deny, tool: http, host: ["*.invalid", 192.0.2.1]}
"""


@pytest.mark.skipif(bool(sandbox.find_problem("home")), reason=sandbox.find_problem("home"))
@pytest.mark.parametrize(
    ("action", "rule"),
    [
        ("tool: shell, params: {argv: [rm, victim]}", "no-removing"),
        ("tool: shell, params: {argv: [/bin/rm, victim]}", "no-removing"),
        ("tool: shell, params: {argv: [./innocent, victim]}", "no-removing"),
        ("tool: shell, params: {argv: [touch, detour/new]}", "not-there"),
        ("tool: shell, params: {argv: [touch, new], cwd: detour}", "not-there"),
        ("tool: files.write, params: {path: detour/new, text: x}", "not-there"),
        ("tool: http, params: {url: 'http://kim@a.invalid./'}", "no-calls"),
        ("tool: http, params: {url: 'http://[::ffff:192.0.2.1]/'}", "no-calls"),
        ("tool: shell, params: {argv: [touch, new]}", ""),
    ],
)
def test_rules_hold_for_what_a_call_comes_to(tmp_path: Path, action: str, rule: str) -> None:
    detent = Detent(tmp_path)
    kept = tmp_path / "kept"
    kept.mkdir()
    (tmp_path / "victim").touch()
    (tmp_path / "detour").symlink_to(kept)
    program = Path("/bin/rm").resolve()
    (tmp_path / "innocent").symlink_to(program)
    law = RULES.replace("PROGRAM", str(program)).replace("PLACE", str(kept))
    (tmp_path / "detent.policy.yaml").write_text(law)
    first = f"{{id: one, effect: pure, {action}}}"
    (tmp_path / "one.yaml").write_text(FLOW.format(name="one", first=first, second=step("two", ":")))
    said = detent("run", "one.yaml", "--json", code=4 if rule else 0).json
    if rule:
        assert said["error"]["data"]["policy"]["rule"] == rule, said
    assert (tmp_path / "victim").exists()
    assert list(kept.iterdir()) == []
