"""A process that holds the journal and does not answer: others say so, withdraw what they asked, and go on reading."""

import json
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from detent.host.embedded.lock import Lock
from tests.surfaces.command import DEADLINE_S, Detent, ended, until


@pytest.fixture
def detent(tmp_path: Path) -> Detent:
    return Detent(tmp_path)


@pytest.fixture
def run_id(detent: Detent) -> str:
    """A run that waits for a yes."""
    return str(detent("run", "flows.py:PLEA", "--set", "to=ann", "--json", code=3).json["run_id"])


def test_a_stopped_holder_is_named_and_what_it_was_asked_is_withdrawn(detent: Detent, run_id: str) -> None:
    with detent.going("run", "flows.py:STEADY", "--id", "long") as holder:
        until(lambda: detent.has("began"))
        holder.send_signal(signal.SIGSTOP)
        done = detent("approve", run_id, code=1)
        assert f"process {holder.pid} (detent run, since " in done.err
        assert "holds the journal and does not answer." in done.err
        assert "Nothing was done." in done.err
        assert f"kill -CONT {holder.pid}" in done.err
        assert "waiting" in detent("show", run_id).out
        for command in (["list"], ["log", run_id], ["graph", run_id], ["list", "--waiting"]):
            assert detent(*command).out
        found = {check["name"]: check for check in detent("doctor", "--json", code=1).json["checks"]}
        assert found["lock"]["level"] == "problem"
        assert str(holder.pid) in found["lock"]["text"]
        holder.send_signal(signal.SIGCONT)
        assert "writes the journal" in detent("doctor").out
        assert detent("show", run_id, "--json").json["status"] == "waiting"
        assert not detent.has("sent")
        assert detent("approve", run_id, "--json").json["status"] == "completed"
        detent.touch("go")
        assert ended(holder).code == 0
    assert (detent.folder / "sent").read_text() == "ann\n"


class Mute:
    """A holder that takes what it is told and says only what the test wants."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener

    def hear(self) -> Any:
        """The first thing a caller says; those that only look whether there is a door say nothing."""
        while True:
            self._peer = self._listener.accept()[0]
            self._peer.settimeout(DEADLINE_S)
            self._lines = self._peer.makefile("rw")
            if line := self._lines.readline():
                return json.loads(line)
            self.hang_up()

    def say(self, **said: Any) -> Any:
        """Say something, for what the caller says then."""
        self._lines.write(json.dumps(said) + "\n")
        self._lines.flush()
        return json.loads(self._lines.readline())

    def hang_up(self) -> None:
        """End the conversation."""
        self._lines.close()
        self._peer.close()


@contextmanager
def mute(detent: Detent) -> Iterator[Mute]:
    home = detent.folder / ".detent"
    lock = Lock(home, "detent serve")
    assert lock.take()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(home / "door"))
        listener.listen()
        listener.settimeout(DEADLINE_S)
        holder = Mute(listener)
        yield holder
        holder.hang_up()
    lock.free()


def test_ctrl_c_before_the_go_withdraws(detent: Detent, run_id: str) -> None:
    with mute(detent) as holder, detent.going("approve", run_id) as process:
        assert holder.hear()["offer"]["verb"] == "answer"
        process.send_signal(signal.SIGINT)
        done = ended(process)
    assert done.code == 130
    assert "Withdrawn: nothing was done." in done.err


@pytest.mark.parametrize("language", ["en", "zh"])
def test_ctrl_c_after_the_go_says_that_it_may_have_been_done(detent: Detent, run_id: str, language: str) -> None:
    detent.env["DETENT_LANG"] = language
    with mute(detent) as holder, detent.going("approve", run_id) as process:
        holder.hear()
        assert holder.say(ready=2) == {"go": 2}
        process.send_signal(signal.SIGINT)
        done = ended(process)
    assert done.code == 130
    assert ("It may have been done" if language == "en" else "它可能已经做了") in done.err
    assert f"detent show {run_id}" in done.err


def test_a_holder_that_falls_silent_after_the_go_leaves_it_open_whether_it_was_done(
    detent: Detent, run_id: str
) -> None:
    with mute(detent) as holder, detent.going("approve", run_id, "--json") as process:
        holder.hear()
        assert holder.say(ready=2) == {"go": 2}
        done = ended(process)
    assert (done.code, done.json["error"]["type"]) == (1, "maybe_done")
    assert f"it may have been done: `detent show {run_id}`" in done.json["error"]["message"]
    assert "failed" not in done.json["error"]["message"]
