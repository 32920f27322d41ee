"""Live views: a run and the list of runs, on a terminal drawn in place, in a pipe line by line."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.surfaces.command import DEADLINE_S, SCRIPT, Detent, until


@pytest.fixture
def detent(tmp_path: Path) -> Detent:
    return Detent(tmp_path)


class Screen:
    """What a command has written to its terminal so far."""

    def __init__(self, process: "subprocess.Popen[bytes]", ours: int) -> None:
        self.process, self._ours, self.raw = process, ours, ""

    def shows(self, text: str) -> bool:
        """Read on until the text is there."""
        deadline = time.monotonic() + DEADLINE_S
        while text not in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self.raw):
            if not select.select([self._ours], [], [], max(0.0, deadline - time.monotonic()))[0]:
                return False
            try:
                self.raw += os.read(self._ours, 65536).decode(errors="replace")
            except OSError:
                return False
        return True


@contextmanager
def on_a_terminal(detent: Detent, *argv: str, **more: str) -> Iterator[Screen]:
    ours, theirs = pty.openpty()
    env = detent.env | {"TERM": "xterm-256color", "COLUMNS": "160", "LINES": "40"} | more
    process = subprocess.Popen(
        [SCRIPT, *argv], cwd=detent.folder, env=env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    )
    os.close(theirs)
    try:
        yield Screen(process, ours)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait()
        os.close(ours)


def test_the_waiting_list_is_drawn_anew_as_questions_come_and_go(detent: Detent) -> None:
    with on_a_terminal(detent, "list", "--waiting", "--watch") as screen:
        assert screen.shows("no runs")
        detent("run", "flows.py:PLEA", "--id", "plea", "--set", "to=ann", code=3)
        assert screen.shows("Please?")
        detent("approve", "plea")
        screen.raw = ""
        assert screen.shows("no runs")
        assert "\x1b[" in screen.raw
        screen.process.send_signal(signal.SIGINT)
        assert screen.process.wait(DEADLINE_S) == 130
        screen.shows("never written")
        assert "Traceback" not in screen.raw


def test_on_a_narrow_terminal_the_question_stands_beneath_its_run(detent: Detent) -> None:
    for name in ("one", "two", "three"):
        detent("run", "flows.py:PLEA", "--id", name, "--set", f"to={name}", code=3)
    with on_a_terminal(detent, "list", "--waiting", "--watch", COLUMNS="44", LINES="8", NO_COLOR="1") as screen:
        assert screen.shows("2 more that do not fit here")
        assert screen.shows("3 runs")
        assert re.search(r"three  plea +working  waiting +\S.*\r\n  │ Please\?", screen.raw)
        assert not re.search(r"\x1b\[[0-9;]*m", screen.raw)  # drawn in place, and without colours
        screen.process.send_signal(signal.SIGINT)
        assert screen.process.wait(DEADLINE_S) == 130


def test_a_terminal_that_can_only_write_gets_lines(detent: Detent) -> None:
    detent("run", "flows.py:PLEA", "--id", "plea", "--set", "to=ann", code=3)
    with on_a_terminal(detent, "watch", "plea", TERM="dumb") as screen:
        assert screen.shows("working/send/1 waits: Please?")
        detent("approve", "plea")
        assert screen.shows("completed")
        assert "\x1b" not in screen.raw


def test_in_a_pipe_every_change_is_one_line(detent: Detent) -> None:
    with detent.going("list", "--waiting", "--watch") as process:
        assert process.stdout is not None
        detent("run", "flows.py:PLEA", "--id", "plea", "--set", "to=ann", code=3)
        assert re.search(r"plea  plea  working  waiting  .*  Please\?", process.stdout.readline())
        detent("approve", "plea")
        assert "plea is no longer in this list" in process.stdout.readline()


def test_machines_get_the_whole_list_whenever_it_changes(detent: Detent) -> None:
    detent("run", "flows.py:QUICK", "--id", "quick")
    with detent.going("list", "--watch", "--json") as process:
        assert process.stdout is not None
        assert [run["run_id"] for run in json.loads(process.stdout.readline())["runs"]] == ["quick"]
        detent("run", "flows.py:PLEA", "--id", "plea", "--set", "to=ann", code=3)
        while "Please?" not in (line := process.stdout.readline()):
            assert line
        assert [run["run_id"] for run in json.loads(line)["runs"]] == ["plea", "quick"]


def test_watching_a_run_shows_where_it_stands_until_it_ends(detent: Detent) -> None:
    detent("run", "flows.py:PLEA", "--id", "plea", "--set", "to=ann", code=3)
    with on_a_terminal(detent, "watch", "plea") as screen:
        assert screen.shows("detent approve plea working/send/1")
        detent("approve", "plea")
        assert screen.shows("plea  plea  done  completed")
        until(lambda: screen.process.poll() is not None)
        assert screen.process.returncode == 0


def test_a_run_that_has_ended_is_not_waited_for_when_nothing_is_new(detent: Detent) -> None:
    detent("run", "flows.py:QUICK", "--id", "quick", "--set", "text=hello")
    assert detent("watch", "quick", "--after", "2", "--json").out == ""
