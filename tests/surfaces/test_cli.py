"""The command line, through the installed script: one story per verb, exit codes, envelopes, and what goes wrong."""

import ast
import json
import os
import pty
import re
import signal
import string
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

import pytest

from detent.kit.agent import built_in_agents
from detent.kit.homoglyphs import look_alikes
from detent.kit.language import chinese
from detent.kit.safe_text import as_json, visible
from detent.kit.terminal.help_page import CLICKS_OWN
from detent.surfaces.cli.doctor_command import has_wal_reset_bug
from tests.surfaces.command import DEADLINE_S, SCRIPT, Detent, Done, ended, until
from tests.surfaces.disguises import FALSE, MASKED, PLAIN

SOURCE = Path(__file__).parents[2] / "src" / "detent"
ENVELOPE = {"ok", "run_id", "machine", "state", "status", "waiting", "output", "error", "checkpoint", "cost"}


@pytest.fixture
def detent(tmp_path: Path) -> Detent:
    return Detent(tmp_path)


def asked(detent: Detent, to: str = "ann") -> str:
    """A run that waits for a yes."""
    return str(detent("run", "flows.py:PLEA", "--set", f"to={to}", "--json", code=3).json["run_id"])


# the verbs


def test_run_starts_a_run_and_stays_until_it_ends(detent: Detent) -> None:
    done = detent("run", "flows.py:QUICK", "--input", '{"text": "hello"}')
    assert "completed" in done.out
    assert '"text": "hello"' in done.out
    assert "working → done" in done.err


def test_run_takes_input_from_a_file_and_single_values(detent: Detent) -> None:
    (detent.folder / "in.json").write_text('{"text": "file", "deep": {"a": 1}}')
    done = detent("run", "flows.py:QUICK", "--input", "@in.json", "--set", "text=[1]", "--set", "deep.b=x", "--json")
    assert done.json["output"] == {"text": [1]}
    shown = detent("log", "last", "--json").out.splitlines()
    assert json.loads(shown[0])["event"]["input"] == {"text": [1], "deep": {"a": 1, "b": "x"}}


def test_the_same_run_id_twice_is_the_same_run(detent: Detent) -> None:
    first = detent("run", "flows.py:PLEA", "--id", "mine", "--set", "to=x", "--json", code=3).json
    again = detent("run", "flows.py:PLEA", "--id", "mine", "--set", "to=x", "--json", code=3).json
    assert (first["run_id"], first["checkpoint"]) == (again["run_id"], again["checkpoint"])
    assert "another machine" in detent("run", "flows.py:QUICK", "--id", "mine", code=2).err


def test_an_id_whose_run_began_with_other_input_is_refused(detent: Detent) -> None:
    detent("run", "flows.py:QUICK", "--set", "text=a", "--id", "one")
    refused = detent("run", "flows.py:QUICK", "--set", "text=b", "--id", "one", code=2)
    assert "text" in refused.err
    assert detent("run", "flows.py:QUICK", "--id", "one", "--json").json["output"] == {"text": "a"}


def test_a_failed_run_is_exit_code_1(detent: Detent) -> None:
    done = detent("run", "flows.py:BREAKS", code=1)
    assert "\x1b" not in done.out + done.err
    assert "␛[31mbroken" in done.out
    failed = detent("show", "last", "--json").json
    assert (failed["status"], failed["error"]["type"]) == ("failed", "tool_failure")


def test_signal_moves_a_run_and_drives_it_on(detent: Detent) -> None:
    idle = detent("run", "flows.py:MAIL", "--set", "to=ann", code=3)
    assert f"detent signal {idle.run_id} SEND" in idle.out
    waiting = detent("signal", "last", "SEND", "--id", "one", "--json", code=3).json
    assert waiting["state"] == "sending"
    again = detent("signal", "last", "SEND", "--id", "one", "--json", code=3).json
    assert again["checkpoint"] == waiting["checkpoint"]


def test_a_waiting_run_shows_the_question_the_call_and_the_commands(detent: Detent) -> None:
    done = detent("run", "flows.py:PLEA", "--set", "to=a\u202eb\u200bc\x1b[2J", code=3)
    assert "Please?" in done.out
    assert r'"to": "a\u202eb\u200bc\u001b[2J"' in done.out
    assert f"detent approve {done.run_id} working/send/1" in done.out
    assert f"detent reject {done.run_id} working/send/1" in done.out
    assert not set("\u202e\u200b\x1b") & set(done.out + done.err)


def test_approve_lets_the_deed_be_done(detent: Detent) -> None:
    run_id = asked(detent)
    assert not detent.has("sent")
    done = detent("approve", run_id, "--comment", "fine", "--by", "bo", "--json").json
    assert (done["ok"], done["status"]) == (True, "completed")
    assert (detent.folder / "sent").read_text() == "ann\n"
    answer = next(e for e in map(json.loads, detent("log", run_id, "--json").out.splitlines()) if e["seq"] == 2)
    said = answer["event"]["result"]
    assert (said["by"], said["comment"], said["channel"]) == ("bo", "fine", "cli")
    assert said["call_hash"]


def test_approve_with_other_arguments_and_values(detent: Detent) -> None:
    run_id = asked(detent)
    done = detent("approve", run_id, "--args", '{"to": "eve"}', "--patch", '{"note": "edited"}', "--json").json
    assert (detent.folder / "sent").read_text() == "eve\n"
    assert done["output"]["note"] == "edited"


def test_reject_leaves_the_deed_undone(detent: Detent) -> None:
    run_id = asked(detent)
    done = detent("reject", run_id, "--comment", "no", code=4)
    assert "kim said no: no" in done.out
    assert not detent.has("sent")
    assert "no open question" in detent("approve", run_id, code=2).err


SLEEPER = """
states:
  ask: {type: initial, actions: [{id: say, tool: files.append, params: {path: sent, text: x}, side_effect: true}]}
  nap: {type: wait, duration: 0.1}
  end: {type: final}
  no: {type: error}
transitions: [{from: ask, to: nap, condition: "{{ result.say.success }}"}, {from: ask, to: no}, {from: nap, to: end}]
"""


def test_an_answer_need_not_be_stayed_with(detent: Detent) -> None:
    (detent.folder / "sleeper.yaml").write_text(SLEEPER)
    run_id = detent("run", "sleeper.yaml", "--json", code=3).json["run_id"]
    left = detent("approve", run_id, "--no-wait", code=3)
    assert f"`detent resume {run_id}` or `detent serve` continues it" in left.err
    assert (detent.folder / "sent").read_text() == "x", "the call that was approved is done, and not cut off"
    assert detent("show", run_id, "--json").json["state"] == "nap"
    assert detent("resume", "--json").json["runs"][0]["status"] == "completed"


def test_who_does_not_stay_leaves_the_run_to_the_process_that_drives(detent: Detent) -> None:
    with detent.going("run", "flows.py:STEADY", "--id", "long") as driver:
        until(lambda: detent.has("began"))
        run_id = asked(detent)
        assert (
            "the process that holds the journal continues the run"
            in detent("approve", run_id, "--no-wait", code=None).err
        )
        until(lambda: detent("show", run_id, "--json", code=None).json["status"] == "completed")
        assert detent("signal", run_id, "GO", "--no-wait", code=2).err.startswith("Error: `GO` is not accepted")
        detent.touch("go")
        assert ended(driver).code == 0


def test_a_deed_that_is_held_says_where(detent: Detent) -> None:
    first = asked(detent)
    second = detent("run", "flows.py:PLEA", "--set", "to=ann", code=None)
    assert f"detent show {first}" in second.out


def test_an_edit_and_a_no_say_who(detent: Detent) -> None:
    run_id = asked(detent)
    assert "rejected: kim said no: not now" in detent("reject", run_id, "--comment", "not now", code=4).err
    (detent.folder / "pair.yaml").write_text(
        SLEEPER.replace("side_effect: true", "approval: {approvers: [ann, bob], quorum: 2}")
    )
    detent("run", "pair.yaml", code=3)
    detent("approve", "last", "--by", "ann", code=3)
    edited = detent("approve", "last", "--by", "bob", "--args", '{"path": "sent", "text": "y"}', code=3)
    assert "rejected: bob edited its arguments" in edited.err


def test_a_rejection_may_lead_on(detent: Detent) -> None:
    detent("run", "flows.py:MAIL", "--set", "to=ann", code=3)
    detent("signal", "last", "SEND", code=3)
    assert detent("reject", "last", "--json", code=3).json["state"] == "writing"


def test_answer_fills_in_a_form(detent: Detent) -> None:
    shown = detent("run", "flows.py:FORM", code=3).out
    assert "--data JSON" in shown
    assert "count" in detent("answer", "last", "--data", "{}", code=2).err
    assert "form" in detent("approve", "last", code=2).err
    assert detent("answer", "last", "--data", '{"count": 3}', "--json").json["output"] == {"count": 3}


def test_cancel_stops_a_run(detent: Detent) -> None:
    run_id = asked(detent)
    done = detent("cancel", run_id, "--reason", "too late", "--json").json
    assert (done["ok"], done["status"], done["error"]["message"]) == (True, "cancelled", "too late")
    assert "accepted" in detent("cancel", run_id, code=2).err


def test_pause_holds_a_run_and_resume_lets_it_go_on(detent: Detent) -> None:
    detent("run", "flows.py:MAIL", "--set", "to=ann", code=3)
    assert "paused" in detent("pause", "last").out
    assert "paused already" in detent("pause", "last", code=2).err
    assert detent("show", "last", "--json").json["paused"] is True
    assert detent("resume", "last", "--json", code=3).json["paused"] is False


def test_show_says_why(detent: Detent) -> None:
    detent("run", "flows.py:MAIL", "--set", "to=ann", code=3)
    detent("signal", "last", "SEND", code=3)
    assert "writing → sending" in detent("show", "last", "--why").out
    why = detent("show", "last", "--why", "--json").json
    assert [entry["seq"] for entry in why["why"]] == [2]


def test_log_tells_every_event_and_proves_it(detent: Detent) -> None:
    detent("run", "flows.py:QUICK", "--set", "text=x")
    lines = [json.loads(line) for line in detent("log", "last", "--json").out.splitlines()]
    assert [line["seq"] for line in lines] == [1, 2]
    assert lines[-1]["status"] == "completed"
    assert "started by kim" in detent("log", "last").out
    assert detent("log", "last", "--verify").out.startswith("ok: 2 events")
    proof = detent("log", "last", "--verify", "--json").json
    assert (proof["ok"], proof["events"], len(proof["checkpoint"])) == (True, 2, 64)


def test_list_filters_by_status(detent: Detent) -> None:
    assert detent("list").out.startswith("no runs: ")
    detent("run", "flows.py:QUICK")
    run_id = asked(detent)
    every = detent("list", "--json").json
    assert (every["ok"], [run["status"] for run in every["runs"]]) == (True, ["waiting", "completed"])
    assert [run["run_id"] for run in detent("list", "--waiting", "--json").json["runs"]] == [run_id]
    assert len(detent("list", "--status", "failed", "--status", "completed", "--json").json["runs"]) == 1
    assert len(detent("list", "--limit", "1", "--json").json["runs"]) == 1
    assert "Please?" in detent("list").out


def test_watch_follows_a_run_that_another_process_drives(detent: Detent) -> None:
    with detent.going("run", "flows.py:STEADY") as driver:
        until(lambda: detent.has("began"))
        with detent.going("watch", "last") as watcher, detent.going("watch", "last", "--json") as machine:
            assert watcher.stdout
            while "began" not in watcher.stdout.readline():
                pass
            detent.touch("go")
            told, entries = ended(watcher), ended(machine)
        assert ended(driver).code == told.code == entries.code == 0
    assert "working → done" in told.out
    assert [json.loads(line)["seq"] for line in entries.out.splitlines()] == [1, 2]


def test_a_second_process_hands_its_verb_to_the_first(detent: Detent) -> None:
    with detent.going("run", "flows.py:STEADY", "--id", "long") as driver:
        until(lambda: detent.has("began"))
        run_id = asked(detent)
        detent("approve", run_id)
        assert "process" in detent("doctor", code=None).out
        detent.touch("go")
        assert ended(driver).code == 0


DEPLOY = """\
states:
  build: {type: initial, actions: [{id: make, tool: shell, params: {argv: ["false"]}}]}
  deploy: {actions: [{id: ship, tool: files.append, params: {path: shipped, text: "{{ context.tag }}"}}]}
  done: {type: final}
transitions:
  - {from: build, to: deploy%s}
  - {from: deploy, to: done}
"""


def test_a_failed_run_is_tried_again_from_what_failed(detent: Detent) -> None:
    text = """\
states:
  a:
    type: initial
    actions:
      - {id: note, tool: files.append, params: {path: notes, text: "{{ run.id }}"}}
      - {id: look, tool: files.read, params: {path: wanted}}
  z: {type: final}
transitions: [{from: a, to: z}]
"""
    (detent.folder / "flow.yaml").write_text(text)
    failed = detent("run", "flow.yaml", "--id", "one", code=1).out
    assert re.search(r"try it again: .*retry one", failed)
    detent("retry", "one", code=1)
    detent.touch("wanted")
    assert detent("retry", "one", "--json").json["status"] == "completed"
    assert (detent.folder / "notes").read_text() == "one", "what was done is not done again"
    assert "has ended as completed" in detent("retry", "one", code=2).err
    assert detent("log", "one", "--verify").out.startswith("ok: ")


def test_validate_proves_that_no_failure_leads_to_a_deed_or_shows_the_path(detent: Detent) -> None:
    file = detent.folder / "deploy.yaml"
    file.write_text(DEPLOY % "")
    said = detent("validate", "deploy.yaml").out.splitlines()
    assert said[1] == "proved: no irreversible action follows an unhandled failure or a rejected approval"
    file.write_text(DEPLOY % ', condition: "{{ true }}"')
    broken = detent("validate", "deploy.yaml")
    assert "deploy.yaml:6:5: warning: `ship` in `deploy` cannot be undone" in broken.err
    assert "build (line 2) → deploy (line 3)" in broken.err
    assert broken.out.splitlines()[1].startswith("not proved: ")
    proof = detent("validate", "deploy.yaml", "--json").json["proof"]
    way = {"after": "failure", "action": "make", "deed": "ship", "states": ["build", "deploy"]}
    more = {"same_in_every_run": [], "no_way_out": [], "waits": 0, "endless": []}
    assert proof == {"irreversible": 2, "holds": False, "ways": [way], **more}


def test_a_failed_build_is_not_deployed_and_every_command_says_why(detent: Detent) -> None:
    (detent.folder / "deploy.yaml").write_text(DEPLOY % "")
    ran = detent("run", "deploy.yaml", "--set", "tag=1", code=1)
    assert "tool_failure.exit: `false` ended with exit code 1" in ran.out
    assert "not taken: `build → deploy`" in ran.out
    assert not (detent.folder / "shipped").exists()
    shown = detent("show", "last", "--json").json
    assert (shown["error"]["type"], shown["error"]["data"]) == (
        "tool_failure.exit",
        {"passed_over": ["build → deploy"]},
    )
    assert "tool_failure.exit" in detent("list").out
    (line,) = detent("list", "--json").json["runs"]
    assert line["error"] == {"type": "tool_failure.exit", "message": "`false` ended with exit code 1"}


def test_a_run_that_is_led_to_an_error_state_says_what_led_it_there(detent: Detent) -> None:
    text = "states: {a: {type: initial}, bad: {type: error}, z: {type: final}}\ntransitions:\n"
    text += '  - {from: a, to: bad, condition: "{{ context.n > 3 }}"}\n  - {from: a, to: z}\n'
    (detent.folder / "flow.yaml").write_text(text)
    error = detent("run", "flow.yaml", "--set", "n=4", "--json", code=1).json["error"]
    message = "`a` led to the failed end `bad`, because {{ context.n > 3 }}"
    assert error == {"type": "error_state", "message": message}


def test_validate_says_ok_or_what_is_wrong(detent: Detent) -> None:
    assert detent("validate", "flows.py:QUICK").out == "ok: machine `quick`, 2 states\n"
    assert detent("validate", "flows.py:QUICK", "--json").json["states"] == ["working", "done"]
    several = detent("validate", "flows.py", code=2).err
    assert "QUICK, MAIL" in several
    (detent.folder / "bad.py").write_text("x = 1\ny = (\n")
    assert re.search(r"bad\.py:2:\d+: syntax error", detent("validate", "bad.py", code=2).err)
    (detent.folder / "raises.py").write_text("x = 1\ny = x / 0\n")
    assert "raises.py:2: ZeroDivisionError" in detent("validate", "raises.py", code=2).err
    (detent.folder / "lost.py").write_text(
        "from detent import *\nM = Machine('m', 'a', work={'a': (Action('x', 'nope'),)}, transitions=table('a - a'))\n"
    )
    assert "there is no effect `nope`" in detent("validate", "lost.py", code=2).err


def test_a_machine_comes_from_json_too(detent: Detent) -> None:
    machine = {
        "name": "tiny",
        "initial": "a",
        "transitions": [{"source": "a", "target": "b", "on": "GO"}],
        "ends": {"b": "completed"},
    }
    (detent.folder / "tiny.json").write_text(json.dumps(machine))
    detent("run", "tiny.json", code=3)
    assert detent("signal", "last", "GO", "--json").json["state"] == "b"
    (detent.folder / "tiny.yaml").write_text("name: tiny\n")
    assert "a workflow needs `states`" in detent("run", "tiny.yaml", code=2).err


def test_fork_begins_where_another_run_was(detent: Detent) -> None:
    detent("run", "flows.py:MAIL", "--set", "to=ann", code=3)
    first = detent("signal", "last", "SEND", "--json", code=3).json
    log = [json.loads(line) for line in detent("log", "last", "--json").out.splitlines()]
    forked = detent("fork", "last", "--at", "1", "--json", code=3).json
    assert (forked["state"], forked["run_id"] == first["run_id"]) == ("writing", False)
    again = detent("fork", first["run_id"], "--at", first["checkpoint"][:12], "--json", code=None).json
    assert (again["state"], len(log)) == ("sending", 2)
    assert "events 1 to 2" in detent("fork", first["run_id"], "--at", "9", code=2).err
    assert "no checkpoint" in detent("fork", first["run_id"], "--at", "ffffffffff", code=2).err


def test_migrate_goes_on_under_another_machine(detent: Detent) -> None:
    detent("run", "flows.py:MAIL", "--set", "to=ann", code=3)
    text = (
        (detent.folder / "flows.py")
        .read_text()
        .replace("writing SEND sending", "writing SEND sending\\nwriting DROP done")
    )
    (detent.folder / "flows.py").write_text(text)
    assert detent("migrate", "last", "flows.py:MAIL", "--json", code=3).json["accepts"] == ["SEND", "DROP"]
    assert detent("signal", "last", "DROP", "--json").json["status"] == "completed"
    detent("log", "last", "--verify")
    assert "has ended (completed)" in detent("migrate", "last", "flows.py:MAIL", code=2).err


def test_every_tool_nobody_has_is_told_with_its_place_and_what_was_meant(detent: Detent) -> None:
    (detent.folder / "tools.yaml").write_text(
        "states:\n  a:\n    type: initial\n    actions:\n"
        "      - {id: x, tool: shel}\n      - {id: y, tool: file.write}\n"
        "  z: {type: final}\ntransitions: [{from: a, to: z}]\n"
    )
    for command in ("validate", "run"):
        assert detent(command, "tools.yaml", code=2).err.splitlines() == [
            "Error: tools.yaml:5:23: unknown tool `shel`; did you mean `shell`?",
            "Error: tools.yaml:6:23: unknown tool `file.write`; did you mean `files.write`?",
        ]


def test_version_and_completion(detent: Detent) -> None:
    assert detent("--version").out == detent("version").out
    assert detent("version", "--json").json["version"]
    for shell in ("bash", "zsh", "fish"):
        assert "_DETENT_COMPLETE" in detent("completion", shell).out
    asked(detent)
    done = detent("app", code=None, _DETENT_COMPLETE="bash_complete", COMP_WORDS="detent app", COMP_CWORD="1")
    assert "approve" in done.out


# waiting for more than people


def test_a_sleeping_run_is_driven_through_its_sleep(detent: Detent) -> None:
    done = detent("run", "flows.py:NAP")
    assert "sleeps until" in done.err


def test_a_childs_question_is_answered_through_its_parent(detent: Detent) -> None:
    parent = detent("run", "flows.py:CHILD", "--json", code=3).json
    (question,) = parent["waiting"]
    assert question["run_id"].startswith(f"{parent['run_id']}.")
    assert detent("approve", parent["run_id"], "--json").json["status"] == "completed"


# the definition file, later


def test_a_file_that_is_gone_is_a_warning_and_its_effects_are_missing(detent: Detent) -> None:
    run_id = asked(detent)
    (detent.folder / "flows.py").unlink()
    done = detent("approve", run_id, code=1)
    assert "Warning: the effects of this run cannot be loaded" in done.err
    assert "no effect `mail.send`" in done.out


def test_modules_beside_the_file_are_found_also_by_a_later_process(detent: Detent) -> None:
    (detent.folder / "beside.py").write_text("TO = 'me'\n\ndef double(x):\n    return 2 * x\n")
    (detent.folder / "flow.py").write_text(
        "import beside\nfrom detent import *\n"
        "CALL = Action('call', 'python', {'function': 'beside:double', 'args': [21]}, ask=Question(beside.TO))\n"
        "M = Machine('m', 'a', table('a - b'), work={'a': (CALL,)}, ends={'b': Status.COMPLETED},\n"
        "            output={'x': '{{ result.call.value }}'})\n"
    )
    detent("run", "flow.py", code=3)
    assert detent("approve", "last", "--json").json["output"] == {"x": 42}


# names of runs


def test_a_run_is_found_by_prefix_and_last(detent: Detent) -> None:
    for run_id in ("alpha-1", "alpha-2", "beta"):
        detent("run", "flows.py:MAIL", "--id", run_id, "--set", "to=x", code=3)
    assert detent("show", "b", "--json").json["run_id"] == "beta"
    assert detent("show", "last", "--json").json["run_id"] == "beta"
    assert detent("show", "alpha-1", "--json").json["run_id"] == "alpha-1"
    ambiguous = detent("show", "alpha", code=2).err
    assert "alpha-1" in ambiguous
    assert "alpha-2" in ambiguous
    assert "no run `zzz`" in detent("show", "zzz", code=2).err


def test_two_open_questions_must_be_told_apart(detent: Detent) -> None:
    detent("run", "flows.py:TWO", code=3)
    refused = detent("approve", "last", code=2).err
    assert "left/1" in refused
    assert "right/1" in refused
    contract = next(q["contract_id"] for q in detent("show", "last", "--json").json["waiting"] if q["action"] == "left")
    assert len(detent("approve", "last", contract, "--json", code=3).json["waiting"]) == 1
    assert "no open question; open:" in detent("approve", "last", contract, code=2).err
    detent("approve", "last")


# interruption and crash


def test_ctrl_c_leaves_the_run_safe(detent: Detent) -> None:
    with detent.going("run", "flows.py:STEADY", "--id", "long") as process:
        assert process.stderr
        while "steady began" not in (line := process.stderr.readline()):  # told by whoever stays with the run
            assert line, "it ended before its effect began"
        process.send_signal(signal.SIGINT)
        while "Stopping" not in (line := process.stderr.readline()):
            assert line, "it ended without a word"
        process.send_signal(signal.SIGINT)
        done = ended(process)
    assert done.code == 130, done
    assert "detent resume long" in done.err
    assert "Traceback" not in done.err
    detent.touch("go")
    assert detent("resume", "long", "--json").json["status"] == "completed"


@pytest.mark.parametrize("argv", [("run", "flows.py:STEADY"), ("watch", "last"), ("list", "--watch")], ids=" ".join)
def test_ctrl_c_pressed_again_and_again_is_an_interruption_and_no_fault(detent: Detent, argv: tuple[str, ...]) -> None:
    with detent.going("run", "flows.py:STEADY", "--id", "long"):
        until(lambda: detent.has("began"))
        with detent.going(*argv) as process:
            assert process.stdout
            assert process.stderr
            assert (process.stderr if argv[0] == "run" else process.stdout).readline()
            while process.poll() is None:
                process.send_signal(signal.SIGINT)
            done = ended(process)
    assert done.code in (130, -signal.SIGINT), done  # the same for a shell; Python's own last moment knows no handlers
    assert not re.search("Traceback|Exception|Unexpected", done.err), done


def test_ctrl_c_lets_what_is_at_work_finish(detent: Detent) -> None:
    with detent.going("run", "flows.py:SLOW") as process:
        assert process.stderr
        until(lambda: detent.has("began"))
        process.send_signal(signal.SIGINT)
        while "Stopping" not in (line := process.stderr.readline()):
            assert line, "it ended without a word"
        detent.touch("go")
        done = ended(process)
    assert (done.code, "detent resume" in done.err) == (130, True), done
    detent("resume")
    assert detent("show", "last", "--json").json["status"] == "completed"


def test_ctrl_c_leaves_one_object_for_a_program(detent: Detent) -> None:
    with detent.going("run", "flows.py:SLOW", "--json") as process:
        until(lambda: detent.has("began"))
        process.send_signal(signal.SIGINT)
        detent.touch("go")
        done = ended(process)
    assert set(done.json) >= ENVELOPE
    was_heard_in_time = done.code == 130
    assert was_heard_in_time or (done.code, done.json["status"]) == (0, "completed"), done
    if was_heard_in_time:
        assert done.json["error"]["type"] == "interrupted"
        detent("resume")
    assert detent("show", "last", "--json").json["status"] == "completed"


def test_ctrl_c_of_a_second_process_leaves_the_run_to_the_first(detent: Detent) -> None:
    with detent.going("run", "flows.py:STEADY", "--id", "long") as driver:
        until(lambda: detent.has("began"))
        with detent.going("run", "flows.py:STEADY", "--id", "long") as second:
            assert second.stderr
            assert "already there" in second.stderr.readline()
            second.send_signal(signal.SIGINT)
            done = ended(second)
        assert (done.code, "goes on in another process" in done.err) == (130, True), done
        detent.touch("go")
        assert ended(driver).code == 0


def test_after_a_kill_an_irreversible_deed_becomes_a_question(detent: Detent) -> None:
    with detent.going("run", "flows.py:SLOW") as process:
        until(lambda: detent.has("began"))
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert detent("show", "last", "--json").json["status"] == "running"
    shown = detent("resume", "last", code=3)
    assert "may already have happened" in shown.out
    assert "--outcome not-happened" in shown.out
    assert "--outcome" in detent("approve", "last", code=2).err
    done = detent("answer", "last", "--outcome", "happened", "--result", '{"done": 1}', "--json").json
    assert (done["status"], done["output"]) == ("completed", {})
    assert detent("log", "last", "--verify").code == 0


def test_after_a_kill_an_idempotent_deed_is_done_again(detent: Detent) -> None:
    with detent.going("run", "flows.py:STEADY") as process:
        until(lambda: detent.has("began"))
        process.send_signal(signal.SIGKILL)
        process.wait()
    detent.touch("go")
    resumed = detent("resume", "--json").json
    assert [run["status"] for run in resumed["runs"]] == ["completed"]
    assert detent("resume").out == "nothing to resume\n"


# machines read, people read


def test_every_envelope_has_the_same_shape(detent: Detent) -> None:
    run_id = asked(detent)
    for done in (
        detent("show", run_id, "--json"),
        detent("reject", run_id, "--json", code=4),
        detent("show", "nope", "--json", code=2),
        detent("run", "nope.py", "--json", code=2),
        detent("run", "--json", code=2),
    ):
        assert set(done.json) >= ENVELOPE
        assert done.out.count("\n") == 1
        assert done.err == ""
    question = detent("list", "--json").json["runs"][0]
    assert question["status"] == "rejected"


def test_a_question_in_json_holds_the_exact_call(detent: Detent) -> None:
    asked(detent)
    (question,) = detent("show", "last", "--json").json["waiting"]
    assert {"contract_id", "action", "question", "call", "call_hash", "run_id"} <= set(question)
    assert question["call"] == {"effect": "mail.send", "input": {"to": "ann"}}


def test_people_who_read_chinese_are_spoken_to_in_chinese(detent: Detent) -> None:
    done = detent("run", "flows.py:PLEA", "--set", "to=ann", code=3, DETENT_LANG="zh")
    assert "等待中" in done.out
    assert "契约" in done.out
    assert "启动一个运行" in detent("--help", LANG="zh_CN.UTF-8").out
    assert "waiting" in detent("show", "last", DETENT_LANG="en", LANG="zh_CN.UTF-8").out
    assert detent("show", "last", "--json", DETENT_LANG="zh").json["status"] == "waiting"


def sentences() -> Iterator[str]:
    yield from CLICKS_OWN
    for agent in built_in_agents():
        yield from agent.commands.values()
    for path in chain.from_iterable((SOURCE / name).rglob("*.py") for name in ("surfaces", "kit", "agents")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("_", "say_in"):
                said = node.args[node.func.id == "say_in"]
                assert isinstance(said, ast.Constant), f"{path}:{node.lineno}: not a plain sentence"
                yield str(said.value)


def fields(sentence: str) -> list[str]:
    return sorted(name for _, name, _, _ in string.Formatter().parse(sentence) if name)


def test_every_sentence_has_a_chinese_entry_with_the_same_values() -> None:
    used = set(sentences())
    assert used - set(chinese()) == set()
    assert set(chinese()) - used == set(), "no longer used"
    assert [english for english, text in chinese().items() if fields(english) != fields(text)] == []


def on_a_terminal(detent: Detent, *argv: str, **env: str) -> str:
    """What a command writes when it talks to a terminal."""
    ours, theirs = pty.openpty()
    environment = detent.env | {"TERM": "xterm-256color", **env}
    process = subprocess.Popen(
        [SCRIPT, *argv], cwd=detent.folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    said = b""
    try:
        while chunk := os.read(ours, 65536):
            said += chunk
    except OSError:  # Linux says that the other end is closed like this
        pass
    finally:
        os.close(ours)
    process.wait(DEADLINE_S)
    return said.decode()


def test_colours_are_for_terminals_whose_users_want_them(detent: Detent) -> None:
    assert "\x1b" not in "".join(detent("run", "flows.py:QUICK")[1:])
    assert "\x1b[" in on_a_terminal(detent, "run", "flows.py:QUICK")
    assert "\x1b" not in on_a_terminal(detent, "run", "flows.py:QUICK", NO_COLOR="1")
    assert "\x1b" not in on_a_terminal(detent, "run", "flows.py:QUICK", TERM="dumb")


def test_nothing_hides_in_a_shown_text() -> None:
    hostile = "a\x00\x07\x1b[1m\x7f\x9b\xa0b\nc\td"
    hostile += "\u00ad\u034f\u115f\u200d\u2028\u202e\u2066\u2800\u3164\ufe0f\ufeff\U000e0041"
    for shown in (visible(hostile), as_json(hostile)):
        assert all(ch.isprintable() for ch in shown)
        assert not set(shown) & set("\u034f\u115f\u2800\u3164\ufe0f")
    assert json.loads(as_json({"x": hostile})) == {"x": hostile}
    assert visible("普通文字 naïve é") == "普通文字 naïve é"
    for plain in ("ทดสอบที่นี่", "नमस्ते", "mạ̈t", "tiếng Việt"):
        assert visible(plain) == plain, "marks that languages need stay"
    struck = "pay 1\u03360\u03360, not 5\u20e0, a" + "\u0301" * 40
    for shown in (visible(struck), as_json(struck)):
        assert not set(shown) & set("\u0336\u20e0")
        assert shown.count("\u0301") == 3, "what is piled up is written out"
    assert json.loads(as_json({"x": struck})) == {"x": struck}


@pytest.mark.parametrize("trap", FALSE)
def test_what_looks_alike_is_named(trap: str) -> None:
    (told,) = look_alikes({"to": trap})
    (false,) = [ch for ch in trap if not ch.isascii()]
    assert f"U+{ord(false):04X}" in told


@pytest.mark.parametrize(("trap", "told"), MASKED.items())
def test_a_word_wholly_in_letters_that_look_latin_is_named(trap: str, told: str) -> None:
    (line,) = look_alikes({"to": trap})
    assert line.startswith(told)


@pytest.mark.parametrize("plain", PLAIN)
def test_ordinary_words_of_any_language_are_not_suspected(plain: str) -> None:
    assert look_alikes({"text": plain}) == []


def test_a_very_long_call_is_looked_at_in_time() -> None:
    assert len(look_alikes({"to": "ра " * 30_000})) == 1
    assert look_alikes({"to": "ра " * 30_000 + "привет"}) == []


# the installation


def test_doctor_looks_at_everything(detent: Detent) -> None:
    detent("run", "flows.py:QUICK")
    found = detent("doctor", "--deep", "--json").json
    checks = {check["name"]: check["level"] for check in found["checks"]}
    assert found["ok"] is True
    assert {"python", "sqlite", "git", "kernel", "disk", "home", "lock", "journal", "runs", "chain"} <= set(checks)
    assert checks["sqlite"] in ("ok", "risk")
    (detent.folder / ".detent").chmod(0o755)
    (detent.folder / ".detent" / "journal.db").chmod(0o644)
    assert "chmod 700" in detent("doctor", code=1).out


def test_doctor_names_a_plugin_that_cannot_be_loaded(detent: Detent, tmp_path: Path) -> None:
    info = tmp_path / "plugins" / "detent_fax-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: detent-fax\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[detent.effects]\nfax = no_such_module_here:effects\n")
    checks = detent("doctor", "--json", code=1, PYTHONPATH=str(tmp_path / "plugins")).json["checks"]
    (found,) = (check for check in checks if check["name"] == "plugin")
    assert found["level"] == "problem"
    assert found["text"].startswith("plugin `fax` of package `detent-fax` (no_such_module_here:effects): it cannot be")


def test_doctor_names_a_damaged_run_and_its_event(detent: Detent) -> None:
    run_id = detent("run", "flows.py:QUICK", "--json").json["run_id"]
    change = "update events set hash = zeroblob(32) where seq = 2"
    code = f"import sqlite3; db = sqlite3.connect('.detent/journal.db'); db.execute({change!r}); db.commit()"
    subprocess.run([sys.executable, "-c", code], cwd=detent.folder, check=True)
    assert f"run {run_id}, after event 1" in detent("doctor", "--deep", code=1).out
    assert "after event 1" in detent("log", run_id, "--verify", code=1).out
    assert detent("show", run_id, code=1).err.count("\n") == 1


@pytest.mark.parametrize(
    ("version", "is_affected"),
    [
        ((3, 6, 23), False),
        ((3, 7, 0), True),
        ((3, 40, 1), True),
        ((3, 44, 5), True),
        ((3, 44, 6), False),
        ((3, 45, 0), True),
        ((3, 50, 6), True),
        ((3, 50, 7), False),
        ((3, 51, 2), True),
        ((3, 51, 3), False),
        ((3, 52, 0), False),
    ],
)
def test_the_versions_with_the_wal_reset_bug_are_known(version: tuple[int, ...], is_affected: bool) -> None:
    assert has_wal_reset_bug(version) is is_affected


def loaded(code: str) -> set[str]:
    """The modules in a fresh interpreter after this."""
    ending = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr));"
    done = subprocess.run([sys.executable, "-c", ending + code], capture_output=True, text=True, check=False)
    return set(done.stderr.split())


def test_help_loads_no_machinery() -> None:
    helped = loaded("from detent.surfaces.cli import main; raise SystemExit(main(['--help']))")
    assert "click" in helped
    assert not helped & {"asyncio", "sqlite3", "msgspec", "jinja2", "yaml", "rich", "importlib.metadata"}
    assert {name for name in helped if name.startswith("detent.")} == {
        "detent.surfaces",
        "detent.surfaces.cli",
        "detent.surfaces.cli.program",
        "detent.agents",
        "detent.agents.manifests",  # names, and nothing else of them
        "detent.errors",
        "detent.kit",
        "detent.kit.agent",
        "detent.kit.language",
        "detent.kit.terminal",
        "detent.kit.terminal.exit_code",
        "detent.kit.terminal.command_summary",
        "detent.kit.terminal.help_page",
    }


def test_a_run_loads_only_what_it_needs(tmp_path: Path) -> None:
    file = tmp_path / "flow.yaml"
    file.write_text("states:\n  a: {type: initial, actions: [{id: t, python: 'os:getpid'}]}\n  z: {type: final}\n"
                    "transitions: [{from: a, to: z}]\n")  # fmt: skip
    argv = ["run", str(file), "--home", str(tmp_path / "home"), "--json"]
    ran = loaded(f"from detent.surfaces.entry import main; import sys; sys.argv[1:] = {argv}; main()")
    assert "detent.effects.python" in ran
    unneeded = {"importlib.metadata", "httpx2", "rich", "detent.effects.llm", "detent.effects.shell", "jsonschema"}
    assert not ran & unneeded, "what a run does not use, it must not wait for"


LOOP = """
states:
  work:
    type: initial
    actions:
      - id: files
        type: for_each
        items: "{{ ['a', 'b'] }}"
        tolerate: 1
        actions:
          - {id: look, tool: shell, effect: idempotent,
             params: {argv: [sh, -c, "echo {{ item }} >> seen; test {{ item }} = a -o -e ready"]}}
  end: {type: final}
transitions: [{from: work, to: end}]
output: {failed: "{{ result.files.failed | length }}"}
"""


def test_a_fork_does_only_what_failed_in_a_loop_again(detent: Detent) -> None:
    (detent.folder / "loop.yaml").write_text(LOOP)
    told = detent("run", "loop.yaml", "--id", "first").out
    assert "completed, 1 failed" in told, "a run that went on without something does not look clean"
    assert "detent fork first --failed" in told
    assert "files (1)" in detent("show", "first").out
    assert "completed, 1 failed" in detent("list").out
    assert (detent("show", "first", "--json").json["failed"], detent("list", "--json").json["runs"][0]["failed"]) == (
        1,
        1,
    )
    (detent.folder / "ready").touch()
    assert detent("fork", "first", "--failed", "--id", "second", "--json").json["output"] == {"failed": 0}
    assert "failed" not in detent("show", "second").out.replace('output: {"failed": 0}', "")
    assert sorted((detent.folder / "seen").read_text().split()) == ["a", "b", "b"]  # items are looked at side by side
    assert "no failed items" in detent("fork", "second", "--failed", code=2).err
    assert "some of files" in detent("fork", "first", "--failed", "--loop", "other", code=2).err
    assert "--failed" in detent("fork", "first", "--loop", "files", code=2).err


def test_a_fork_lists_what_the_parent_has_done_since_also_while_another_process_drives(detent: Detent) -> None:
    detent("run", "flows.py:MAIL", "--id", "first", "--set", "to=ann", code=3)
    detent("signal", "first", "SEND", code=3)
    detent("approve", "first")
    with detent.going("run", "flows.py:SLOW"):
        until(lambda: detent.has("began"))
        said = detent("fork", "first", "--at", "2", "--json", code=None).json
        text = detent("fork", "first", "--at", "2", code=None).out
        last = detent("fork", "first").out
        (detent.folder / "go").touch()
    done = said["forked_from"]["done_since"]
    assert [(deed["effect"], deed["input"], deed["deed"]) for deed in done] == [("mail.send", {"to": "ann"}, "done")]
    assert "done by run first after event 2, and not taken back:" in text
    assert 'sending/send/1: mail.send {"to": "ann"}' in text
    assert "not taken back" not in last


def test_a_home_that_is_no_folder_is_an_error_not_an_empty_list(detent: Detent) -> None:
    (detent.folder / "file").write_text("")
    for command in ("list", "show last", "log last", "graph last", "resume", "list --json"):
        said = detent("--home", "file", *command.split(), code=2)
        assert "file is not a folder, so it cannot be a home" in said.out + said.err
    assert "cannot be a home: Not a directory" in detent("--home", "file/inner", "list", code=2).err
    found = {
        check["name"]: check["level"] for check in detent("--home", "file", "doctor", "--json", code=1).json["checks"]
    }
    assert (found["home"], found["journal"]) == ("problem", "problem")


def test_home_is_an_option_a_variable_or_the_folder_here(detent: Detent) -> None:
    detent("--home", "one", "run", "flows.py:QUICK")
    detent("run", "flows.py:QUICK", "--home", "one")
    detent("run", "flows.py:QUICK", DETENT_HOME="two")
    assert not detent.has(".detent")
    assert len(detent("list", "--home", "one", "--json", DETENT_HOME="two").json["runs"]) == 2
    assert len(detent("list", "--json", DETENT_HOME="two").json["runs"]) == 1
    assert "detent --home one approve" in detent("--home", "one", "run", "flows.py:PLEA", "--set", "to=x", code=3).out


# mistakes

MISTAKES = [
    "",
    "nonsense",
    "run",
    "run nowhere.py",
    "run flows.py",
    "run flows.py:NOPE",
    "run flows.txt",
    "run broken.json",
    "run binary.py",
    "run exits.py",
    "run flows.py:QUICK --input {",
    "run flows.py:QUICK --input []",
    "run flows.py:QUICK --input NaN",
    "run flows.py:QUICK --input @nowhere",
    "run flows.py:QUICK --set a=1 --set a.b=2",
    "run flows.py:QUICK --id no/slash",
    "run flows.py:QUICK --home flows.py",
    "signal last GO",
    "signal w NOPE",
    "signal w @cancel",
    "signal w SEND --data 7",
    "approve w",
    "answer last --data 1 --outcome happened",
    "answer last --outcome perhaps",
    "show last --home nowhere",
    "log nobody --verify",
    "list --status odd",
    "watch nobody",
    "fork last --at abc",
    "migrate last nowhere.py",
    "completion tcsh",
]


def test_a_mistake_is_told_in_a_line_and_never_a_traceback(detent: Detent) -> None:
    detent("run", "flows.py:MAIL", "--id", "w", "--set", "to=x", code=3)
    detent("run", "flows.py:PLEA", "--id", "asks", "--set", "to=x", code=3)
    (detent.folder / "broken.json").write_text("{")
    (detent.folder / "binary.py").write_bytes(b"\x00\xff\xfe")
    (detent.folder / "exits.py").write_text("raise SystemExit(3)")
    (detent.folder / "flows.txt").touch()
    wrong: dict[str, Done] = {}
    with ThreadPoolExecutor(4) as workers:
        told = list(workers.map(lambda mistake: detent(*mistake.split(), code=None), MISTAKES))
    for mistake, done in zip(MISTAKES, told, strict=True):
        lines = done.err.strip().count("\n") + 1
        is_told = done.code == 2 and done.err and "Traceback" not in done.err and (lines <= 2 or not mistake)
        if not is_told:
            wrong[mistake] = done
    assert not wrong


def test_a_wrong_command_line_is_told_in_the_readers_language(detent: Detent) -> None:
    told = {
        "list --limit abc": "应为 1 到 100000 的整数",
        "list --limit": "`--limit` 需要一个值",
        "list --json=1": "`--json` 不带值",
        "show a b c": "给出的比它接受的多：b c",
        "list --status odd": "可用的值：pending, running",
        "run flows.py:QUICK --input @nowhere": "无法读取 nowhere",
    }
    for line, words in told.items():
        assert words in detent(*line.split(), code=2, DETENT_LANG="zh").err, line
    page = detent("list", "--help", DETENT_LANG="zh").out
    assert [
        word
        for word in ("用法：detent list [选项]", "选项:", "--limit N ", "[默认：50;", "显示此帮助并退出。")
        if word not in page
    ] == []


def test_a_fault_of_our_own_says_how_to_see_more(detent: Detent) -> None:
    detent("run", "flows.py:QUICK")
    code = (
        "import detent.surfaces.cli.live_view as r, sys; from detent.surfaces.cli import main\n"
        "def broken(*_): raise ZeroDivisionError('oh')\n"
        "r.columns = broken; sys.exit(main(['list']))"
    )

    def run(**env: str) -> Done:
        argv = [sys.executable, "-c", code]
        done = subprocess.run(
            argv, cwd=detent.folder, env=detent.env | env, capture_output=True, text=True, check=False
        )
        return Done(done.returncode, done.stdout, done.stderr)

    assert run().code == 1
    assert "Traceback" not in run().err
    assert "DETENT_DEBUG=1" in run().err
    assert "Traceback" in run(DETENT_DEBUG="1").err


TWO_CALLS = """
states:
  w: {type: initial}
  b: {type: wait, for: go, timeout: 1h}
  c: {actions: [{id: one, tool: shell, effect: pure, params: {argv: [sh, -c, read line < gate]}}]}
  d: {actions: [{id: two, tool: shell, effect: pure, params: {argv: ["true"]}}]}
  z: {type: final}
transitions: [{from: w, to: b}, {from: b, to: c}, {from: c, to: d}, {from: d, to: z}]
"""


def test_a_run_that_nobody_stays_with_is_not_called_paused(detent: Detent) -> None:
    (detent.folder / "two.yaml").write_text(TWO_CALLS)
    run_id = detent("run", "two.yaml", "--json", code=3).json["run_id"]
    os.mkfifo(detent.folder / "gate")
    with detent.going("signal", run_id, "go", "--no-wait") as leaving:
        until(lambda: detent("show", run_id, "--json", code=None).json["state"] == "c")
        (detent.folder / "gate").write_text("go\n")  # the call under way is not cut off
        said = ended(leaving)
    shown = detent("show", run_id, "--json", code=None).json
    assert shown["paused"] is False
    if shown["status"] != "completed":  # as whoever leaves has mostly left before the call has ended
        assert all("not driven" in one.out and "paused" not in one.out for one in (said, detent("list")))
        assert "无人驱动" in detent("list", DETENT_LANG="zh").out
        detent("resume", run_id)
    assert detent("show", run_id, "--json").json["status"] == "completed"


PAUSING = """
group: {key: one}
states:
  a: {type: initial, actions: [{id: x, tool: shell, effect: pure, params: {argv: [test, -e, flag]},
      retry: {max_retries: 9, delay: 1s}}]}
  z: {type: final}
transitions: [{from: a, to: z}]
"""


def test_resume_takes_up_a_pause_between_attempts_and_then_whoever_waits_for_the_place(detent: Detent) -> None:
    (detent.folder / "pausing.yaml").write_text(PAUSING)
    with detent.going("run", "pausing.yaml", "--id", "first") as dying:
        until(lambda: detent("log", "first", "--json", code=None).out.count('"fail"') > 0)
        dying.kill()
        dying.wait()
    detent("run", "pausing.yaml", "--id", "second", code=3)
    detent.touch("flag")
    assert "first" in [one["run_id"] for one in detent("resume", "--json").json["runs"]]
    assert [detent("show", name, "--json").json["status"] for name in ("first", "second")] == ["completed"] * 2
    assert "nothing to resume" in detent("resume").out
