"""`detent test --record RUN` and `--fuzz N`: cases from real runs, and from made-up ones that fail."""

from pathlib import Path

import pytest
import yaml

from tests.surfaces.command import Detent

FLOW = """
name: flow
states:
  a: {type: initial, actions: [{id: look, tool: shell, effect: pure, params: {argv: [echo, hello]}}]}
  b: {type: wait, for: go, timeout: 1h}
  c: {actions: [{id: ship, tool: shell, side_effect: true, params: {argv: [echo, "{{ context.x }}"]}}]}
  z: {type: final}
  no: {type: final}
transitions:
  - {from: a, to: b}
  - {from: b, to: c}
  - {from: c, to: z}
  - {from: c, to: no, on: error}
"""
BUG = """
name: bug
input: {amount: integer}
states:
  check: {type: initial, actions: [{id: risk, tool: risk_of, params: {n: "{{ context.amount }}"}}]}
  held: {type: wait, for: cleared, timeout: 1d}
  z: {type: final}
transitions:
  - {from: check, to: z, condition: "{{ result.risk.level == 'low' }}"}
  - {from: check, to: held, condition: "{{ result.risk.level == 'high' and context.amount > 500 }}"}
  - {from: check, to: z, condition: "{{ result.risk.level not in ['low', 'high'] }}"}
  - {from: held, to: z}
"""


def test_a_run_becomes_a_case_that_holds(tmp_path: Path) -> None:
    detent = Detent(tmp_path)
    (tmp_path / "flow.yaml").write_text(FLOW)
    run = detent("run", "flow.yaml", "--input", '{"x": "1"}', "--json", code=3).json["run_id"]
    detent("signal", run, "go", "--data", '{"n": 1}', code=3)
    detent("reject", run, "--by", "ann", code=0)
    (case,) = yaml.safe_load(detent("test", "--record", run).out)
    assert case["script"] == [{"event": "go", "data": {"n": 1}}, {"reject": "ship", "by": "ann"}]
    assert case["tools"]["shell"][0]["output"]["stdout"] == "hello\n"
    assert case["expect"]["path"] == ["a", "b", "c", "no"]
    assert case["expect"]["calls"] == {"shell": 1}
    detent("test", "--record", run, "flow.test.yaml")
    detent("test", "--record", run, "flow.test.yaml", code=0)
    (tmp_path / "flow.test.yaml").write_text(yaml.safe_dump([case | {"workflow": "flow.yaml"}]))
    assert "1 passed" in detent("test", "flow.test.yaml").out
    (tmp_path / "flow.yaml").write_text(FLOW.replace("to: no, on: error", "to: z, on: error"))
    said = detent("test", "--record", run, code=1)
    assert 'state: came     "z"' in said.out + said.err


TIMERS = """
name: timers
states:
  a:
    type: initial
    actions:
      - {id: f2588, tool: shell, effect: idempotent, retry: {max_retries: 3, delay: 0.5},
         params: {argv: [sh, -c, "echo x >> n; test $(wc -l < n) -ge 3"]}}
  w: {type: wait, duration: 0.3}
  x: {type: wait, for: [{event: go}], timeout: 1h}
  z: {type: final}
transitions: [{from: a, to: w}, {from: w, to: x}, {from: x, to: z}]
"""


def test_a_run_with_pauses_and_sleeps_becomes_a_case_that_holds(tmp_path: Path) -> None:
    detent = Detent(tmp_path)
    (tmp_path / "timers.yaml").write_text(TIMERS)
    for attempt in range(3):  # each run draws its pauses anew, and the case draws long ones
        (tmp_path / "n").unlink(missing_ok=True)
        detent("run", "timers.yaml", "--id", f"r{attempt}", code=3)
        case = yaml.safe_load(detent("test", "--record", f"r{attempt}").out)[0]
        assert (case["expect"]["state"], case["expect"]["calls"]) == ("x", {"shell": 3})


def test_the_smallest_story_that_fails_is_a_case_one_can_paste(tmp_path: Path) -> None:
    pytest.importorskip("hypothesis")
    detent = Detent(tmp_path)
    (tmp_path / "bug.yaml").write_text(BUG)
    report = detent("test", "--fuzz", "200", "bug.yaml", "--json", code=1).json
    (found,) = report["files"]
    assert "it ends with no_transition in `check`" in found["problem"]
    assert found["case"]["tools"] == {"risk_of": [{"output": {"level": "high"}}]}
    assert found["case"]["input"] == {"amount": 0}
    assert "script" not in found["case"]
    (tmp_path / "bug.test.yaml").write_text(yaml.safe_dump([found["case"]]))
    assert 'error: came     "no_transition"' in detent("test", "bug.test.yaml", code=1).out
    mended = BUG.replace(" and context.amount > 500", "")
    (tmp_path / "bug.yaml").write_text(mended)
    assert detent("test", "--fuzz", "40", "bug.yaml", "--json").json["ok"]
