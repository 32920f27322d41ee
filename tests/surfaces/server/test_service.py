"""The process `detent serve`: it says where it is, stops in time, and whatever was at work goes on after it."""

import json
import os
import pwd
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from detent.surfaces.server.service import bind_socket
from tests.effort import PATIENCE_S
from tests.surfaces.command import SCRIPT
from tests.surfaces.server.people import write_people
from tests.surfaces.server.stage import FLOWS

ENV = {name: value for name, value in os.environ.items() if name not in ("LANG", "LC_ALL", "LC_MESSAGES")}


class Process:
    """A server of its own, and how to ask it."""

    def __init__(self, folder: Path, *argv: str, env: dict[str, str] | None = None) -> None:
        command = [SCRIPT, "serve", "--json", "--port", "0", *argv]
        self.folder = folder
        self.process = subprocess.Popen(
            command, cwd=folder, env=env or ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.stderr and self.process.stderr.read()
        self.said: dict[str, Any] = json.loads(line)
        self.address = str(self.said["address"])

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.address + path, timeout=PATIENCE_S) as answer:  # noqa: S310
            return json.load(answer)

    def post(self, path: str, body: Any) -> Any:
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.address + path, json.dumps(body).encode(), headers)  # noqa: S310
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:  # noqa: S310
            return json.load(answer)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Tell it to stop, and wait until it has."""
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE_S)
        assert code == (0 if number != signal.SIGKILL else -9), self.process.stderr and self.process.stderr.read()


@contextmanager
def process(folder: Path, *argv: str, env: dict[str, str] | None = None) -> Iterator[Process]:
    if not (folder / "flows.py").exists():
        (folder / "flows.py").write_text(FLOWS)
    one = Process(folder, *argv, env=env)
    try:
        yield one
    finally:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait(PATIENCE_S)
        for pipe in (one.process.stdout, one.process.stderr):
            if pipe is not None:
                pipe.close()


def until(what: Any, *args: Any) -> Any:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if found := what(*args):
            return found
        time.sleep(0.02)
    raise AssertionError("it did not come to that in time")


FLOW = ("flows.py:STEADY", "flows.py:COUNT")


def test_it_stops_with_open_streams_and_goes_on_after_it(tmp_path: Path) -> None:
    with process(tmp_path, *FLOW) as one:
        run_id = one.post("/api/runs", {"definition": "steady"})["run_id"]
        until((tmp_path / "began").exists)
        port = int(one.address.rpartition(":")[2])
        streams = []
        for path in ["/api/events", f"/api/runs/{run_id}/events"] * 10:
            stream = socket.create_connection(("127.0.0.1", port))
            stream.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            streams.append(stream)
        stalled = socket.create_connection(("127.0.0.1", port))  # one that never says what it wants
        assert b"200" in streams[-1].recv(100)
        one.stop()  # a stream would never end by itself
        assert streams[0].recv(10_000).endswith(b"0\r\n\r\n") or streams[0].recv(10_000) is not None
        for stream in [*streams, stalled]:
            stream.close()
    with process(tmp_path, *FLOW) as one:
        assert one.get(f"/api/runs/{run_id}")["status"] == "running"
        (tmp_path / "go").touch()
        until(lambda: one.get(f"/api/runs/{run_id}")["status"] == "completed")
        assert one.get(f"/api/runs/{run_id}/verify")["ok"]
        one.stop(signal.SIGINT)


def test_a_stream_s_small_messages_do_not_wait_for_each_other() -> None:
    with bind_socket("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        listening.setblocking(True)
        accepted, _ = listening.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_it_can_be_stopped_as_soon_as_it_has_said_where_it_is(tmp_path: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        with process(tmp_path, *FLOW) as one:
            one.stop(number)  # ends with 0


def test_after_a_kill_the_next_server_takes_up_what_was_at_work(tmp_path: Path) -> None:
    with process(tmp_path, *FLOW) as one:
        run_id = one.post("/api/runs", {"definition": "steady"})["run_id"]
        until((tmp_path / "began").exists)
        one.stop(signal.SIGKILL)
    (tmp_path / "go").touch()
    with process(tmp_path, *FLOW) as one:
        until(lambda: one.get(f"/api/runs/{run_id}")["status"] == "completed")


def test_a_second_server_hands_over_and_takes_over(tmp_path: Path) -> None:
    with process(tmp_path, *FLOW) as first, process(tmp_path, *FLOW) as second:
        assert (first.said["is_holder"], second.said["is_holder"]) == (True, False)
        run_id = second.post("/api/runs", {"definition": "count"})["run_id"]
        assert first.get(f"/api/runs/{run_id}")["state"] == "on"
        assert second.post(f"/api/runs/{run_id}/signals", {"name": "TICK"})["seq"] == 2
        first.stop(signal.SIGKILL)
        until(lambda: second.get("/healthz")["is_holder"])
        assert second.post(f"/api/runs/{run_id}/signals", {"name": "STOP"})["status"] == "completed"
        second.stop()


def test_the_policy_beside_the_journal_holds_for_what_is_started_here(tmp_path: Path) -> None:
    (tmp_path / "detent.policy.yaml").write_text("rules:\n  - {name: no-mail, tool: mail.send, decision: deny}\n")
    with process(tmp_path, "flows.py:PAIR") as one:
        run_id = one.post("/api/runs", {"definition": "pair", "input": {"to": "lee"}})["run_id"]
        over = until(lambda: (run := one.get(f"/api/runs/{run_id}"))["status"] not in ("running", "pending") and run)
        assert over["status"] in ("rejected", "failed"), over
        assert not (tmp_path / "sent").exists()
        one.stop()


def test_for_others_it_shows_a_link_that_logs_its_owner_in(tmp_path: Path) -> None:
    (tmp_path / ".detent").mkdir(mode=0o700)
    user = pwd.getpwuid(os.getuid()).pw_name
    (tmp_path / ".detent" / "detent.people.yaml").write_text(f"people: {{ann: {{roles: admin, os_user: {user}}}}}")
    with process(tmp_path, "--host", "0.0.0.0") as one:  # noqa: S104
        link = one.said["link"].partition("#login=")[2]
        assert link.startswith("ann.")
        address = one.address.replace("0.0.0.0", "127.0.0.1")  # noqa: S104
        body, kind = json.dumps({"link": link}).encode(), {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{address}/api/login", body, kind)  # noqa: S310
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:  # noqa: S310
            assert json.load(answer)["name"] == "ann"
        one.stop()
        assert one.process.stderr is not None
        assert link not in one.process.stderr.read().decode()
    assert link.encode() not in (tmp_path / ".detent" / "journal.db").read_bytes()


def test_wrong_words_are_sentences_and_exit_2(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("hooks: 7\n")
    for argv, word in (
        (["--config", "bad.yaml"], "bad.yaml:1"),
        (["--config", "missing.yaml"], "no such file"),
        (["--token-file", "missing"], "cannot read the token"),
        (["--host", "256.256.256.256"], "detent people add"),
    ):
        done = subprocess.run(
            [SCRIPT, "serve", *argv], cwd=tmp_path, env=ENV, capture_output=True, text=True, check=False
        )
        assert (done.returncode, word in done.stderr) == (2, True), (argv, done.stderr)
        assert "Traceback" not in done.stderr


def test_a_server_for_everybody_names_an_address_that_a_phone_can_open(tmp_path: Path) -> None:
    write_people(tmp_path / ".detent")
    with process(tmp_path, "--host", "0.0.0.0") as one:  # noqa: S104
        assert "0.0.0.0" not in one.address  # noqa: S104
        assert one.get("/healthz")["ok"]
