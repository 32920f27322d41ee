"""The effect `shell` against real processes."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from detent.core.contract import Contract
from detent.core.effect_type import EffectFailed, Outcome, OutcomeUnknown, PartialFailure
from detent.effects import process
from detent.effects.capture import CAP_BYTES, Capture
from detent.effects.process import kill_leftovers
from detent.effects.shell import shell
from tests.effort import PATIENCE_S


def contract(key: str = "shell:test", kind: str = "irreversible", **given: Any) -> Contract:
    return Contract("work/run/1", "run", "shell", kind=kind, input=given, key=key)


async def perform(*argv: str, **given: Any) -> dict[str, Any]:
    outcome = await shell.perform(contract(argv=list(argv), **given))
    assert isinstance(outcome, Outcome)
    result: dict[str, Any] = outcome.result
    return result


async def python(code: str, **given: Any) -> dict[str, Any]:
    return await perform(sys.executable, "-c", code, **given)


async def refusal(**given: Any) -> EffectFailed:
    with pytest.raises(EffectFailed) as caught:
        await shell.perform(contract(**given))
    return caught.value


def is_running(pid: int) -> bool:
    """Whether a process lives; a zombie that nobody has reaped counts as ended only if it is not our own child."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return state[0] != "Z" or int(state[1]) == os.getpid()


async def until(condition: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S:g} s: {what}"
        await asyncio.sleep(0.01)


async def gone(*pids: int) -> None:
    await until(lambda: not any(map(is_running, pids)), f"{pids} are gone")


def numbers(file: Path) -> list[int]:
    """The process numbers written into a file, once their line is complete."""
    text = file.read_text() if file.exists() else ""
    return [int(word) for word in text.split()] if text.endswith("\n") else []


async def test_a_program_runs_and_says_how_it_went() -> None:
    result = await python("import sys; print('out'); print('err', file=sys.stderr)")
    assert result == {"exit": 0, "stdout": "out\n", "stderr": "err\n", "success": True, "truncated": False}


async def failure(code: str, kind: str = "irreversible", **given: Any) -> PartialFailure:
    """How a program that ran and failed is told."""
    with pytest.raises(PartialFailure) as caught:
        await shell.perform(contract(kind=kind, argv=[sys.executable, "-c", code], **given))
    return caught.value


@pytest.mark.parametrize("kind", ["irreversible", "idempotent"])
async def test_another_exit_code_is_an_error_that_frees_nothing(kind: str) -> None:
    code = "import sys; print('paid'); print('one\\ncannot print the receipt', file=sys.stderr); sys.exit(7)"
    error = await failure(code, kind)
    assert not isinstance(error, EffectFailed), "it ran: nobody says that nothing happened"
    assert error.type == "tool_failure.exit"
    assert str(error).endswith("ended with exit code 7: cannot print the receipt")
    assert error.result == {
        "exit": 7,
        "stdout": "paid\n",
        "stderr": "one\ncannot print the receipt\n",
        "success": False,
        "truncated": False,
    }


async def test_the_error_shows_stdout_where_stderr_is_silent_and_no_endless_line() -> None:
    assert str(await failure("print('2 failed'); raise SystemExit(1)")).endswith("exit code 1: 2 failed")
    assert str(await failure("raise SystemExit(1)")).endswith("exit code 1")
    assert len(str(await failure("print('x' * 100_000); raise SystemExit(1)"))) < 1000


@pytest.mark.parametrize("ok_exit", [[0, 1], [1], 1])
async def test_ok_exit_says_which_codes_are_success(ok_exit: Any) -> None:
    result = await python("raise SystemExit(1)", ok_exit=ok_exit)
    assert (result["exit"], result["success"]) == (1, True)
    assert (await failure("raise SystemExit(2)", ok_exit=ok_exit)).type == "tool_failure.exit"


async def test_ok_exit_without_nought_makes_nought_a_failure() -> None:
    assert str(await failure("", ok_exit=[1])).endswith("exit code 0")


async def test_a_program_that_was_killed_has_not_even_said_that_it_failed() -> None:
    killed = "import os; print('paid', flush=True); os.kill(os.getpid(), 9)"
    with pytest.raises(OutcomeUnknown, match="killed by signal 9") as caught:
        await python(killed)
    assert (caught.value.result["exit"], caught.value.result["stdout"]) == (-9, "paid\n")
    assert (await failure(killed, "idempotent")).type == "tool_failure.exit", "it may simply be run again"


async def test_arguments_arrive_exactly_as_they_are() -> None:
    odd = ["$HOME; rm -rf / | `id` && *", "a b", "", "'\"\\", "--x=$(id)", "ünï 漢字 🙂", "line\nline"]
    result = await python("import sys, json; print(json.dumps(sys.argv[1:]))")
    assert result["stdout"] == "[]\n"
    result = await perform(sys.executable, "-c", "import sys; print(ascii(sys.argv[1:]))", *odd)
    assert result["stdout"] == f"{odd!a}\n"


async def test_a_command_line_is_refused_with_the_way_to_write_it() -> None:
    error = await refusal(argv="ls -l | wc")
    assert error.type == "validation_error"
    assert '["ls", "-l"]' in str(error)


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({}, "needs `argv`"),
        ({"argv": []}, "begins with a program"),
        ({"argv": [""]}, "begins with a program"),
        ({"argv": {"a": 1}}, "begins with a program"),
        ({"argv": ["sleep", 5]}, r"argv\[1\].* in quotes.* the number 5"),
        ({"argv": ["true"], "env": {"PORT": 80}}, "env.PORT"),
        ({"argv": ["true"], "env": ["A=1"]}, "mapping"),
        ({"argv": ["true"], "env": {"A=B": "1"}}, "cannot be run"),
        ({"argv": ["true\0"]}, "cannot be run"),
        ({"argv": ["true"], "cwd": "/no/such/folder"}, "there is no folder"),
        ({"argv": ["true"], "stdin": 5}, "`stdin`"),
        ({"argv": ["true"], "ok_exit": "0"}, "list of whole numbers"),
        ({"argv": ["true"], "ok_exit": [True]}, "list of whole numbers"),
        ({"argv": ["true"], "timeout": 0}, "positive"),
        ({"argv": ["true"], "timeout": True}, "positive"),
        ({"argv": ["true"], "timeuot": 5}, "knows no `timeuot`"),
        ({"argv": ["true", "x" * 4_000_000]}, "too long"),
        ({"argv": [__file__]}, "Permission denied"),
    ],
)
async def test_what_cannot_be_meant_is_refused_before_anything_runs(given: dict[str, Any], word: str) -> None:
    error = await refusal(**given)
    assert error.type == "validation_error"
    with pytest.raises(EffectFailed, match=word):
        raise error


async def test_a_missing_program_is_not_found() -> None:
    error = await refusal(argv=["no-such-program-anywhere"])
    assert error.type == "tool_failure.not_found"
    assert "no-such-program-anywhere" in str(error)


async def test_standard_input_is_given_or_empty() -> None:
    code = "import sys; text = sys.stdin.read(); print(len(text), text[-3:])"
    assert (await python(code, stdin="grüß 漢字"))["stdout"] == "7  漢字\n"
    assert (await python(code, stdin="x" * 3_000_000))["stdout"] == "3000000 xxx\n"
    assert (await python(code))["stdout"] == "0 \n"


async def test_input_that_nobody_reads_does_no_harm() -> None:
    assert (await perform("true", stdin="x" * 3_000_000))["success"]


async def test_it_runs_in_the_folder_asked_for(tmp_path: Path) -> None:
    assert (await perform("pwd", "-P", cwd=str(tmp_path)))["stdout"].strip() == str(tmp_path.resolve())


async def test_our_environment_stays_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a secret of the parent")
    monkeypatch.setenv("LC_MESSAGES", "C")
    result = await perform("env", env={"MINE": "yes", "DETENT_CONTRACT": "forged"}, key="shell:env")
    env = dict(line.split("=", 1) for line in result["stdout"].splitlines())
    assert "OPENAI_API_KEY" not in env
    assert "a secret" not in result["stdout"]
    assert (env["MINE"], env["LC_MESSAGES"], env["PATH"]) == ("yes", "C", os.environ["PATH"])
    assert env["DETENT_CONTRACT"] == env["DETENT_KEY"] == "shell:env"


async def test_a_flood_is_cut_in_the_middle_and_says_so() -> None:
    code = "import sys; print('begin'); [sys.stdout.write('x' * 1_000_000) for _ in range(100)]; print('end')"
    result = await python(code)
    assert result["success"]
    assert result["truncated"]
    assert result["stdout"].startswith("begin\nxxx")
    assert result["stdout"].endswith("xxxend\n")
    assert f"[{100_000_010 - CAP_BYTES:,} bytes are left out here]" in result["stdout"]
    assert len(result["stdout"]) < CAP_BYTES + 100


async def test_floods_on_both_outputs_do_not_block_each_other() -> None:
    code = "import os; [(os.write(2, b'e' * 100_000), os.write(1, b'o' * 100_000)) for _ in range(50)]"
    result = await python(code)
    assert result["success"]
    assert result["stdout"].count("o") + result["stderr"].count("e") > CAP_BYTES


async def test_bytes_that_are_no_text_are_replaced() -> None:
    result = await python(r"import os; os.write(1, b'a\xff\xfe\x00b\xe6')")
    assert result["stdout"] == "a\ufffd\ufffd\0b\ufffd"


@pytest.mark.parametrize("shift", [0, 1, 2, 3])
def test_a_cut_does_not_tear_a_character(shift: int) -> None:
    capture = Capture(1000)
    data = b"x" * shift + "漢🙂".encode() * 1000
    for begin in range(0, len(data), 7):
        capture.feed(data[begin : begin + 7])
    text = capture.text()
    assert capture.is_cut
    assert "\ufffd" not in text
    kept = text.replace("\n", "").partition("[")[0] + text.rpartition("]")[2].strip()
    assert f"[{len(data) - len(kept.encode()):,} bytes" in text


def test_what_fits_exactly_is_not_cut() -> None:
    capture = Capture(10)
    capture.feed(b"0123456789")
    assert (capture.text(), capture.is_cut) == ("0123456789", False)
    capture.feed(b"a")
    assert capture.is_cut


async def test_a_background_process_that_holds_the_pipe_does_not_hold_us(tmp_path: Path) -> None:
    result = await perform("sh", "-c", "echo before; sleep 300 & echo $! > pid; echo after", cwd=str(tmp_path))
    assert result["stdout"] == "before\nafter\n"
    (sleeper,) = numbers(tmp_path / "pid")
    assert is_running(sleeper), "what a program leaves in the background on purpose is left alone"
    os.kill(sleeper, signal.SIGKILL)


async def test_a_background_flood_does_not_hold_us(tmp_path: Path) -> None:
    result = await perform("sh", "-c", "yes & echo $! > pid", cwd=str(tmp_path))
    assert result["success"]
    (flooder,) = numbers(tmp_path / "pid")
    await gone(flooder)  # by the broken pipe


async def test_a_daemon_does_not_hold_us_and_is_found_by_its_mark(tmp_path: Path) -> None:
    await perform("setsid", "-f", "sh", "-c", "echo $$ > pid; exec sleep 300", cwd=str(tmp_path), key="shell:daemon")
    await until(lambda: numbers(tmp_path / "pid"), "the daemon is up")
    (daemon,) = numbers(tmp_path / "pid")
    assert is_running(daemon)
    assert await shell_probe("shell:daemon") is None
    await gone(daemon)


async def shell_probe(key: str) -> Outcome | None:
    assert shell.reconcile is not None
    return await shell.reconcile(contract(key=key))


STUBBORN = "trap '' TERM; sh -c 'trap \"\" TERM; echo $$ $PPID > pid; sleep 300; sleep 300'; sleep 300"
POLITE = "trap 'sleep 0.1; echo cleaned > cleaned; exit 1' TERM; echo $$ > pid; while :; do sleep 0.05; done"


async def test_a_timeout_kills_the_whole_group(tmp_path: Path) -> None:
    with pytest.raises(TimeoutError, match=r"`sh` had not ended after 1\.5 s"):
        await perform("sh", "-c", STUBBORN, cwd=str(tmp_path), timeout=1.5)
    pids = numbers(tmp_path / "pid")
    assert len(pids) == 2
    await gone(*pids)


async def test_a_cancel_kills_the_group_and_leaves_no_zombie(tmp_path: Path) -> None:
    task = asyncio.create_task(perform("sh", "-c", STUBBORN, cwd=str(tmp_path)))
    await until(lambda: numbers(tmp_path / "pid"), "it runs")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    inner, outer = numbers(tmp_path / "pid")
    assert not Path(f"/proc/{outer}").exists(), "reaped"
    await gone(inner)
    assert process._live == set()


async def test_a_second_cancel_cuts_the_grace_short(tmp_path: Path) -> None:
    stubborn = process.run(
        ["sh", "-c", STUBBORN], dict(os.environ), str(tmp_path), None, "shell:stubborn", patience_s=3600.0
    )
    task = asyncio.create_task(stubborn)
    await until(lambda: numbers(tmp_path / "pid"), "it runs")
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task  # or the test would end before this does
    await gone(*numbers(tmp_path / "pid"))


async def test_a_program_may_clean_up_before_it_is_killed(tmp_path: Path) -> None:
    task = asyncio.create_task(perform("sh", "-c", POLITE, cwd=str(tmp_path)))
    await until(lambda: numbers(tmp_path / "pid"), "it runs")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (tmp_path / "cleaned").exists()


async def test_a_cancel_at_any_early_moment_leaves_nothing(tmp_path: Path) -> None:
    for turns in range(6):
        mark = f"shell:early-{turns}-{os.getpid()}"
        task = asyncio.create_task(perform("sleep", "300", key=mark))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert kill_leftovers(mark) == 0


async def test_many_at_once_leave_no_descriptor_open() -> None:
    await perform("true")
    before = len(os.listdir("/proc/self/fd"))
    codes = list(range(40))
    results = await asyncio.gather(*(perform("sh", "-c", f"echo {n}; exit {n}", ok_exit=codes) for n in codes))
    assert [result["exit"] for result in results] == codes
    assert len(os.listdir("/proc/self/fd")) == before


CRASH = """
import asyncio, os, sys
from detent.core.contract import Contract
from detent.effects.shell import shell
argv = ["sh", "-c", "trap '' TERM; echo $$ > pid; (setsid sh -c 'echo $$ > daemon; exec sleep 300' &); sleep 300; :"]
asyncio.run(shell.perform(Contract("a/b/1", "b", "shell", input={"argv": argv}, key=sys.argv[1])))
"""


@contextlib.contextmanager
def host(key: str, folder: Path) -> Any:
    """Another process in the middle of a `shell` contract."""
    child = subprocess.Popen(
        [sys.executable, "-c", CRASH, key], cwd=folder, env={**os.environ, "PYTHONPATH": ":".join(sys.path)}
    )
    try:
        yield child
    finally:
        child.kill()
        child.wait()


@pytest.mark.skipif(sys.platform != "linux", reason="leftovers are found through /proc")
async def test_what_a_killed_host_left_running_is_found_and_killed(tmp_path: Path) -> None:
    key = f"shell:crash-{os.getpid()}"
    with host(key, tmp_path) as crashed:
        await until(lambda: numbers(tmp_path / "pid") and numbers(tmp_path / "daemon"), "both run")
        left = numbers(tmp_path / "pid") + numbers(tmp_path / "daemon")
        assert kill_leftovers(key) == 0, "a living host's work is not a leftover"
        assert all(map(is_running, left))
        crashed.kill()
        await until(lambda: Path(f"/proc/{crashed.pid}/stat").read_text().split()[2] == "Z", "the host is dead")
        assert all(map(is_running, left))
        assert kill_leftovers("shell:another key") == 0
        assert kill_leftovers("") == 0
        assert await asyncio.to_thread(kill_leftovers, key) >= 2
        await gone(*left)
    assert kill_leftovers(key) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="leftovers are found through /proc")
async def test_an_idempotent_contract_that_runs_again_first_ends_its_predecessor(tmp_path: Path) -> None:
    key = f"shell:again-{os.getpid()}"
    with host(key, tmp_path) as crashed:
        await until(lambda: numbers(tmp_path / "pid"), "it runs")
        crashed.kill()
        crashed.wait()
        again = await shell.perform(contract(key, "idempotent", argv=["true"]))
        assert isinstance(again, Outcome)
        assert again.result["success"]
        (pid,) = numbers(tmp_path / "pid")
        await gone(pid)


async def test_the_same_key_at_work_in_this_process_is_spared(tmp_path: Path) -> None:
    argv = ["sh", "-c", "echo $$ > pid; exec sleep 300"]
    task = asyncio.create_task(perform(*argv, cwd=str(tmp_path), key="shell:twin"))
    await until(lambda: numbers(tmp_path / "pid"), "it runs")
    assert await shell_probe("shell:twin") is None
    assert is_running(numbers(tmp_path / "pid")[0])
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_it_declares_what_it_is() -> None:
    assert (shell.name, shell.declared.kind, shell.declared.timeout_s) == ("shell", "irreversible", 600.0)
    assert shell.declared.settle == 0
    assert shell.declared.is_lenient


async def test_values_go_in_and_come_out_as_json() -> None:
    answer = "import json, sys; n = json.load(sys.stdin)['n']; print(json.dumps({'success': n > 2, 'n': n}))"
    result = await python(answer, stdin_json={"n": 2}, is_json=True)
    assert (result["success"], result["n"], result["exit"]) == (False, 2, 0)
    assert (await python("print('[1, 2]')", is_json=True))["json"] == [1, 2]
    assert (await python("pass", is_json=True))["success"] is True
    assert "did not answer with JSON" in str(await failure("print('hello')", is_json=True))
    assert "not both" in str(await refusal(argv=["true"], stdin="x", stdin_json={}))
