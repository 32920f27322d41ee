"""The same file, input and answers give the same journal, apart from times and ids, a hundred times."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROCESSES, TIMES = 5, 20
TOOLS = """
seen = 0


def price(order, tags):
    return {"price": order * 10, "tags": sorted(set(tags)), "z": 1, "a": 2}


def flaky(order):
    global seen
    seen += 1
    if seen % 2:
        raise RuntimeError("not the first time")
    return {"fine": order}
"""
CHILD = """
states:
  go:
    type: initial
    actions: [{id: price, python: "order_tools:price", effect: pure, params: {order: "{{ context.n }}", tags: [c]}}]
  end: {type: final}
transitions: [{from: go, to: end}]
output: {price: "{{ result.price.price }}"}
"""
FLOW = """
name: everything
variables: {max_retries: 2}
states:
  begin:
    type: initial
    variables: {n: 0}
    actions:
      - {id: first, python: "order_tools:price", effect: pure, params: {order: 7, tags: [b, a, b]}}
      - {type: set_variable, name: sum, value: "{{ result.first.price }}"}
      - {type: log, message: "{{ context.z | tojson }}"}
  loop:
    actions: [{id: flaky, python: "order_tools:flaky", effect: idempotent, params: {order: 7}}]
  each:
    actions:
      - id: orders
        for_each: "{{ context.orders }}"
        concurrency: 1
        actions:
          - {id: priced, python: "order_tools:price", effect: pure, params: {order: "{{ branch.item }}", tags: [x]}}
  both:
    type: parallel
    branches:
      left: [{id: left, tool: ask, approval: {question: "Left?"}}, {type: set_variable, name: l, value: 1}]
      right: [{id: right, tool: ask, approval: {question: "Right?"}}, {type: set_variable, name: r, value: 2}]
  kid:
    actions: [{id: kid, workflow: kid.yaml, input: {n: 4}}]
  pay:
    actions:
      - {id: pay, python: "order_tools:price", params: {order: 9, tags: []}, approval: {quorum: 2, question: "Pay?"}}
  wait: {type: wait, for: [{event: paid, match: "{{ event.data.order == 7 }}"}]}
  nap: {type: wait, duration: 0.01}
  end: {type: final}
transitions:
  - from: begin
    to: begin
    condition: "{{ state.n < 2 }}"
    on_transition: [{action: increment_variable, variable: state.n}]
  - {from: begin, to: loop}
  - {from: loop, to: each, condition: "{{ result.flaky.success }}"}
  - {from: loop, to: retry, condition: "{{ attempt < variables.max_retries }}"}
  - {from: each, to: both}
  - {from: both, to: kid}
  - {from: kid, to: pay}
  - {from: pay, to: wait, condition: "{{ result.pay.success }}"}
  - {from: wait, to: nap}
  - {from: nap, to: end}
error_handlers:
  - {action: log_error, fallback_state: error}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "order_tools.py").write_text(TOOLS)
    (tmp_path / "kid.yaml").write_text(CHILD)
    (tmp_path / "flow.yaml").write_text(FLOW)
    return tmp_path / "flow.yaml"


def test_a_hundred_runs_write_the_same_journal(file: Path) -> None:
    command = [sys.executable, "-m", "tests.simulation.repeat", str(file), str(TIMES)]
    said = []
    for seed in range(PROCESSES):
        env = {**os.environ, "PYTHONHASHSEED": str(seed * 1234)}
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
        assert not done.returncode, done.stderr
        said += [json.loads(line) for line in done.stdout.splitlines()]
    assert len(said) == PROCESSES * TIMES == 100
    first = said[0]["lines"]
    for one in said[::TIMES]:
        assert one["lines"] == first
    assert {one["sha256"] for one in said} == {said[0]["sha256"]}
    events = "\n".join(first)
    assert len(first) >= 20
    for part in ("price", "left", "paid", "flaky", "kid", "RUN"):
        assert part in events, f"the journal tells of {part}"
