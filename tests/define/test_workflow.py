"""Workflow files and the tables they compile to, and a Python example in our own nouns."""

# ruff: noqa: E501 - a file of a few words reads best on one line

from pathlib import Path
from typing import Any

import msgspec
import pytest

from detent import Action, Limits, Machine, Question, Retry, Status, Transition, Wait
from detent.core.duration import seconds_of
from detent.core.machine import Await, Branch
from detent.define import load
from detent.define.document import read_document
from detent.define.workflow import compile_document, load_workflow, read_workflow
from detent.errors import DefinitionError
from detent.host.parts.loaded_run import load as load_run
from detent.host.parts.replay import verify
from detent.testing import World, simulate
from tests.define.stage import FILES, approve, event, later, play


def table(machine: Machine) -> str:
    """A machine as text that a person can compare: its rows, its work, its ends."""
    lines = [f"machine {machine.name} from {machine.initial}"]
    for row in machine.transitions:
        on = f"!{row.error}" if row.error else row.on or "-"
        marks = [word for word in ("even_failed", "only_failed", "is_retry", "is_kill") if getattr(row, word)]
        marks += [f"priority={row.priority}"] if row.priority else []
        when = f" if {row.when}" if row.when else ""
        lines.append(f"  {row.source} {on} {row.target}{when}" + (f" ({' '.join(marks)})" if marks else ""))
        lines += [f"    then {line}" for action in row.then for line in shown(action)]
    for state, actions in machine.work.items():
        lines.append(f"  in {state}")
        lines += [f"    {line}" for action in actions for line in shown(action)]
    lines += [f"  end {state} {status.value}" for state, status in machine.ends.items()]
    for name in ("variables", "local", "timeouts_s", "keeps", "limits", "output", "title", "version"):
        held = msgspec.to_builtins(getattr(machine, name))
        if held:
            lines.append(f"  {name} {msgspec.json.encode(held, order='sorted').decode()}")
    return "\n".join(lines) + "\n"


def shown(action: Action) -> list[str]:
    held = msgspec.to_builtins(action)
    machine = held["input"].pop("machine", None) if action.effect == "child" else None
    branches = held.pop("branches", ())
    rest = {key: value for key, value in held.items() if key not in ("id", "effect")}
    lines = [f"{action.id} = {action.effect} {msgspec.json.encode(rest, order='sorted').decode()}"]
    for branch, _ in zip(action.branches, branches, strict=True):
        lines.append(f"  branch {branch.name}")
        lines += [f"    {line}" for inner in branch.actions for line in shown(inner)]
    if machine is not None:
        lines += [f"  | {line}" for line in table(msgspec.convert(machine, Machine)).splitlines()]
    return lines


GOLDEN = {"seed_1_basic": False, "seed_2_branches": True, "seed_3_retry": True, "seed_1_and_4": False, "release": False,
          "parallel": False, "parent": False}  # fmt: skip


@pytest.mark.parametrize("name", GOLDEN)
def test_a_file_compiles_to_its_table(name: str) -> None:
    made = table(load_workflow(FILES / f"{name}.yaml", fragment=GOLDEN[name]).machine)
    assert made == (FILES / f"{name}.table").read_text()


def test_the_blocks_of_the_seed_are_there_word_for_word() -> None:
    first = (FILES / "seed_1_basic.yaml").read_text()
    assert first.startswith('version: "1.0"\nname: "工作流名称"\n')
    assert first.endswith("    action: log_error\n    fallback_state: error_state\n")
    assert "increment_variable" in (FILES / "seed_3_retry.yaml").read_text()
    merged, fourth = (FILES / "seed_1_and_4.yaml").read_text(), (FILES / "seed_4_handlers.yaml").read_text()
    assert merged.endswith(fourth)
    assert first[: first.index("## 错误处理")].split("## 转移定义\n")[1].strip() in merged


def test_a_workflow_is_a_definition_like_any_other() -> None:
    made = load(str(FILES / "parent.yaml"))
    assert made.machine == load_workflow(FILES / "parent.yaml").machine
    assert made.input == {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    assert (made.effects, made.source) == ({}, str(FILES / "parent.yaml"))
    assert [text.rpartition("/")[2] for text in load(str(FILES / "seed_1_basic.yaml")).warnings] == [
        "seed_1_basic.yaml:8:3: warning: the variable `timeout` is never read",
        "seed_1_basic.yaml:24:3: warning: `execute` has no default branch: the run fails with `no_transition` if no"
        ' condition holds; add a last transition with `condition: "{{ true }}"`',
    ]


def test_a_document_inside_another_keeps_its_lines_and_finds_its_children() -> None:
    text = "cases:\n  - id: one\n    definition:\n      states: {a: {type: initial, actions: [{id: x, workflow: child.yaml}]}}\n"
    text += "      transitions: [{from: a, to: %s}]\n"
    part = read_document(text % "error", "cases.yaml").part("cases", 0, "definition")
    assert compile_document(part, folder=FILES).machine.ends == {"error": Status.FAILED}
    with pytest.raises(DefinitionError, match=r"cases.yaml:4:63: a text that is not in a file cannot name other files"):
        compile_document(part)
    part = read_document(text % "eror", "cases.yaml").part("cases", 0, "definition")
    with pytest.raises(DefinitionError, match=r"cases.yaml:5:35: unknown state `eror`; did you mean `error`\?"):
        compile_document(part, folder=FILES)


def test_the_release_runs_from_end_to_end() -> None:
    said = [approve("upload", by="ann"), approve("upload", by="bob"), event("confirmed", tag="v1")]
    tools = {"shell": [{"seconds": 5}], "http": [{"status": 201}]}
    told = play(FILES / "release.yaml", tools, said, {"tag": "v1", "readers": ["x", "y"]}, by="eva")
    assert (told.status, told.run.output) == ("completed", {"tag": "v1", "done": True})
    assert told.logs == (("debug", "quick: 5 s"),)
    assert play(FILES / "release.yaml", tools, [later(7201)], {"tag": "v1"}, by="eva").run.state == "given_up"
    told = play(FILES / "release.yaml", tools, [*said[:2], event("withdrawn")], {"tag": "v1"}, by="eva")
    assert told.run.state == "withdrawn"


ONE = """
states:
  a:
    type: initial
    actions:
      - {}
  z: {{type: final}}
transitions: [{{from: a, to: z, condition: "{{{{ not error }}}}"}}]
"""


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("{id: x, tool: shell, params: {argv: [ls]}}", Action("x", "shell", {"argv": ["ls"]})),
        ("{id: x, python: mod:fun, params: {a: 1}}", Action("x", "python", {"function": "mod:fun", "args": {"a": 1}})),
        ("{id: x, tool: t, side_effect: true}", Action("x", "t", kind="irreversible", ask=Question())),
        ("{id: x, tool: t, side_effect: true, effect: pure}", Action("x", "t", kind="pure", ask=Question())),
        ("{id: x, tool: t, effect: irreversible}", Action("x", "t", kind="irreversible")),
        ("{id: x, tool: t, approval: true}", Action("x", "t", ask=Question())),
        (
            "{id: x, tool: t, approval: {approvers: ann, roles: [ops], quorum: 2, expires: 1h30m, question: Go?}}",
            Action("x", "t", ask=Question("Go?", approvers=("ann", "role:ops"), quorum=2, expires_s=5400.0)),
        ),
        ("{id: x, tool: t, timeout: 90s, key: 7, scope: run}", Action("x", "t", timeout_s=90.0, key="7", scope="run")),
        ('{id: x, tool: t, repeat: "{{ context.why }}"}', Action("x", "t", repeat="{{ context.why }}")),
        ("{id: x, tool: t, retry: {max_retries: 2, on: timeout, delay: 5s}}", Action("x", "t", retry=Retry(2, ("timeout",), 5.0))),
        ('{id: x, tool: "{{ context.tool }}"}', Action("x", "{{ context.tool }}")),
        ('{id: x, tool: t, params: "{{ context.params }}"}', Action("x", "t", "{{ context.params }}")),
        ("{id: x, type: conditional, params: {condition: true}}", Action("x", "choose", {"condition": "true"})),
        ("{type: set_variable, variable: a.b, value: [1]}", Action("set_variable_1", "set", {"name": "a.b", "value": [1]})),
        ("{type: log, params: {message: hi, level: error}}", Action("log_1", "log", {"message": "hi", "level": "error"})),
        (
            "{id: x, type: parallel, join: any, branches: [{name: one, actions: [{id: y, tool: t}]}, [{id: z, tool: t}]]}",
            Action(
                "x",
                "branches",
                branches=(Branch("one", (Action("y", "t"),)), Branch("branch_2", (Action("z", "t"),))),
                join="any",
            ),
        ),
        (
            "{id: x, type: parallel, branches: [{id: one, actions: [{id: y, tool: t}]}, {id: two, name: two, actions: [{id: z, tool: t}]}]}",
            Action("x", "branches", branches=(Branch("one", (Action("y", "t"),)), Branch("two", (Action("z", "t"),)))),
        ),
        (
            "{id: x, for_each: {items: [1, null, {a: true}], concurrency: 2, actions: [{id: y, tool: t}]}}",
            Action(
                "x",
                "branches",
                branches=(Branch("each", (Action("y", "t"),)),),
                each="{{ [1, none, {'a': true}] }}",
                at_once=2,
            ),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_an_action_means_this(written: str, meant: Action) -> None:
    assert read_workflow(ONE.format(written)).machine.work["a"] == (meant,)


def test_a_wait_is_an_action_called_like_its_state() -> None:
    text = "states: {a: {type: initial}, w: {type: wait, for: [x, {event: y, match: context.ok}], timeout: 1h}, z: {type: final}}\n"
    made = read_workflow(text + "transitions: [{from: a, to: w}, {from: w, to: z, on: x}, {from: w, to: z}]").machine
    assert made.work["w"] == (Action("w", "wait", wait=Wait((Await("x"), Await("y", "context.ok")), timeout_s=3600.0)),)
    assert made.keeps == ("x", "y")
    assert made.transitions[1] == Transition("w", "z", when="{{ result.w.event == 'x' }}")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90.0), ("15m", 900.0), ("2h", 7200.0), ("7d", 604800.0), ("1h30m", 5400.0), ("500ms", 0.5), ("1.5 h", 5400.0),
     ("2w", 1209600.0), ("5", None), ("h", None), ("-1s", None), ("1y", None), ("1h 2", None)],
)  # fmt: skip
def test_a_duration_is_a_number_with_a_unit(text: str, seconds: float | None) -> None:
    assert seconds_of(text) == seconds


def test_limits_have_a_default_and_can_be_expressions_of_variables() -> None:
    head = "states: {a: {type: initial}}\ntransitions: [{from: a, to: error}]\n"
    assert read_workflow(head).machine.limits == Limits(max_transitions=1000)
    made = read_workflow(head + 'variables: {n: 7}\nlimits: {max_visits: "{{ variables.n + 1 }}", max_duration: 1d}\n')
    assert made.machine.limits == Limits(max_transitions=1000, max_visits=8, max_duration_s=86400.0)


def test_each_handler_that_tries_again_has_limits_and_pauses_of_its_own() -> None:
    handlers = """
error_handlers:
  - {action: retry_with_backoff, max_retries: 5, delay: 9s}
  - {on_state: a, error_type: tool_failure, action: retry_with_backoff, max_retries: 2, fallback_state: z}
  - {on_state: a, error_type: timeout, action: retry_with_backoff, max_retries: 3, fallback_state: z}
"""
    machine = read_workflow(ONE.format("{id: x, tool: t}") + handlers).machine
    assert machine.work["a"][0].retry == (
        Retry(2, ("tool_failure",)),
        Retry(3, ("timeout",)),
        Retry(5, delay_s=9.0, is_last=True),
    )
    assert Machine.from_json(machine.to_json()) == machine


def test_an_earlier_handler_keeps_a_later_one_from_retrying() -> None:
    handlers = """
error_handlers:
  - {error_type: tool_failure, action: retry_with_backoff, fallback_state: z}
  - {on_state: a, error_type: tool_failure, action: log_error, fallback_state: z}
"""
    assert read_workflow(ONE.format("{id: x, tool: t}") + handlers).machine.work["a"][0].retry is None


def test_a_name_for_people_becomes_a_name_for_machines() -> None:
    head = "states: {a: {type: initial}}\ntransitions: [{from: a, to: error}]\n"
    made = read_workflow(f"name: Nightly report, v2!\n{head}").machine
    assert (made.name, made.title) == ("Nightly_report_v2", "Nightly report, v2!")
    assert read_workflow(head, "flows/3-way.yaml").machine.name == "n3_way"


def test_a_child_beside_its_parent_is_found_and_its_module_too(tmp_path: Path) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    (folder / "leaf.yaml").write_text(ONE.format("{id: x, tool: t}"))
    (folder / "middle.yaml").write_text(ONE.format("{id: x, workflow: leaf.yaml}"))
    (tmp_path / "top.yaml").write_text(ONE.format("{id: x, workflow: inner/middle.yaml, input: {a: 1}}"))
    told = play(tmp_path / "top.yaml")
    assert (told.status, told.calls) == ("completed", ("t",))


APPROVAL = Machine(
    name="approval",
    initial="submitted",
    transitions=(
        Transition("submitted", "reviewing", when="{{ context.valid }}"),
        Transition("submitted", "rejected", when="{{ not context.valid }}"),
        Transition("reviewing", "approved", when="{{ context.approved }}"),
    ),
    work={
        "submitted": (Action("validate_input", "validate"),),
        "reviewing": (Action("apply_changes", "apply", {"target": "production"}, kind="irreversible", ask=Question()),),
    },
    ends={"approved": Status.COMPLETED, "rejected": Status.COMPLETED},
)


def test_the_seeds_python_example_in_our_own_nouns() -> None:
    """Build states, transitions and conditions; initialize, step, run, approve, status, save and restore."""

    async def story() -> None:
        with World() as world:
            world.effect("validate", kind="pure")
            world.effect("apply", answers=[{"output": "done"}])
            async with world.host() as host:
                run = await host.start(APPROVAL, {"valid": True})  # initialize
                run = await host.settled(run.id)  # run
                assert (run.state, run.status) == ("reviewing", Status.WAITING)
                (asked,) = run.waiting  # pending_approvals
                assert (asked.action, asked.input) == ("apply_changes", {"target": "production"})

                saved = load_run(host.journal, run.id)  # save_checkpoint: every event is one
                checkpoint = verify(host.journal, run.id).checkpoint
                assert saved.head.hex() == checkpoint

                run = await host.answer(
                    run.id, asked.id, {"approved": True, "patch": {"approved": True}}
                )  # approve_action
                run = await host.settled(run.id)
                assert (run.state, run.status) == ("approved", Status.COMPLETED)
                assert (await host.show(run.id)).context == {"valid": True, "approved": True}  # get_status

                was: dict[str, Any] = msgspec.to_builtins(
                    saved.run
                )  # restore_from_checkpoint: a new run that begins there
                origin = {"run_id": run.id, "seq": saved.run.seq, "checkpoint": checkpoint, "run": was}
                fork = await host.start(APPROVAL, {}, fork=origin)
                fork = await host.settled(fork.id)
                assert fork.state == "reviewing"
                assert [deed.effect for deed in world.deeds] == ["validate", "apply"], "a fork does nothing again"

    simulate(story())


def test_the_seeds_python_example_goes_step_by_step() -> None:
    told = play(
        APPROVAL, {"apply": [{"output": "x"}]}, [approve("apply_changes", patch={"approved": True})], {"valid": True}
    )
    assert told.path == ("submitted", "reviewing", "approved")
    assert play(APPROVAL, {"apply": [{}]}, input={"valid": False}).path == ("submitted", "rejected")


GROUPED = "group: {key: a, %s}\nstates: {a: {type: initial}, z: {type: final}}\ntransitions: [{from: a, to: z}]\n"


@pytest.mark.parametrize(("said", "rate", "per_s"), [("10/min", 10, 60.0), ("5/s", 5, 1.0), ("3 / 90s", 3, 90.0)])
def test_a_rate_is_a_number_and_a_time(said: str, rate: int, per_s: float) -> None:
    group = read_workflow(GROUPED % f"rate: {said}").machine.group
    assert group is not None
    assert (group.rate, group.per_s) == (rate, per_s)


@pytest.mark.parametrize(
    "said", ["rate: often", "rate: 0/min", "rate: 5/0s", "rate: 5/s, limit: 2", "rate: 5/s, when_full: cancel_previous"]
)
def test_a_group_with_a_rate_that_makes_no_sense_is_refused(said: str) -> None:
    with pytest.raises(DefinitionError):
        read_workflow(GROUPED % said)


def test_calls_of_one_tool_share_its_rate() -> None:
    text = """
tools: {post: {http: {url: "https://example.org"}, rate: 2/s}}
states:
  a: {type: initial, actions: [{id: one, tool: post}, {id: two, tool: post}, {id: own, tool: http, rate: 9/min}]}
  z: {type: final}
transitions: [{from: a, to: z}]
"""
    found = [(one.rate, one.per_s, one.pace) for one in read_workflow(text).machine.work["a"]]
    assert found == [(2, 1.0, "tool post"), (2, 1.0, "tool post"), (9, 60.0, "")]


EVERY_DEFAULT = """
group: {key: a, limit: 1, when_full: %s}
error_handlers: [{on_state: a, error_type: timeout, action: retry_with_backoff, max_retries: 3, delay: 1s, factor: 2, max_delay: 60s}]
states:
  a:
    type: initial
    actions:
      - {id: call, tool: shell, params: {argv: ["true"]}, effect: irreversible, scope: global, on_repeat: ask,
         sandbox: home, retry: {max_retries: 3, delay: 1s, factor: 2, max_delay: 60s}, approval: {quorum: 1}}
      - {id: both, type: parallel, join: all, fail_fast: false, tolerate: 0, actions: [{id: l, type: log, message: x, level: info}]}
  p: {type: parallel, join: all, branches: {x: [{id: m, type: log, message: x}]}}
  z: {type: final}
transitions: [{from: a, to: p, priority: 0}, {from: p, to: z}]
"""


@pytest.mark.parametrize("when_full", ["queue", "cancel_previous", "drop", "ask"])
def test_a_file_that_writes_its_defaults_out_is_read_back_from_a_journal_as_it_was(when_full: str) -> None:
    machine = read_workflow(EVERY_DEFAULT % when_full).machine
    assert Machine.from_json(machine.to_json()).digest == machine.digest


def test_a_group_that_says_what_is_meant_anyway_is_the_same_group() -> None:
    said, unsaid = (read_workflow(GROUPED % words).machine for words in ("when_full: queue", "limit: 1"))
    assert said.digest == unsaid.digest
    kept = said.to_json().replace(b'"group":{"key":"a"', b'"group":{"key":"a","when_full":"queue"')
    assert Machine.from_json(kept).to_json() == kept  # of before `queue` was left out
