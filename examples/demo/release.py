"""An approval, a SIGKILL in the middle of an irreversible step, a recovery, and the question that follows."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

from examples.demo.stage import DETENT, FOLDER, WAITS, ask, detent, environment, note, shown, tell

RELEASE = Path("..", "..", "examples", "release", "release.py")  # as seen from the demo's folder
PATIENCE_S = 30.0


def release(is_quiet: bool) -> str:
    """Tell it; what came of it."""
    outbox = FOLDER / "outbox.txt"
    outbox.unlink(missing_ok=True)
    version = time.strftime("%Y.%m%d.%H%M%S")

    tell("1  A release is validated, and asks before it publishes")
    given = json.dumps({"version": version, "upload_s": 30})
    detent("run", str(RELEASE), "--input", given, expect=WAITS)
    run_id = str(shown("last")["run_id"])
    ask(is_quiet, "Publish?")

    tell("2  It is approved; in the middle of publishing the process is killed (SIGKILL)")
    kill_while_publishing(run_id, outbox)
    note(f"the world has already seen: {outbox.read_text().strip()!r}")

    tell("3  A new process takes the run up, and does not publish a second time")
    detent("resume", run_id, expect=WAITS)
    ask(is_quiet, "You look into outbox.txt: it is there. Say that it happened?")

    tell("4  The answer is journalled, and the run completes")
    result = json.dumps({"published": version})
    detent("answer", run_id, "--outcome", "happened", "--result", result, "--comment", "seen in outbox.txt")

    tell("5  What happened, from the journal; every event carries the hash of the one before")
    detent("log", run_id)
    detent("log", run_id, "--verify")
    published = outbox.read_text().count("published")
    if published != 1:
        raise SystemExit(f"published {published} times")
    return "a release was approved, killed while it published, and published once"


def kill_while_publishing(run_id: str, outbox: Path) -> None:
    """Approve in a process of its own and kill that as soon as the world has felt it."""
    approving = subprocess.Popen(
        [DETENT, "approve", run_id, "--comment", "demo"], cwd=FOLDER, env=environment(), start_new_session=True
    )
    until = time.monotonic() + PATIENCE_S
    while not (outbox.exists() and outbox.read_text().endswith("\n")):
        if approving.poll() is not None or time.monotonic() > until:
            raise SystemExit("the release was not published: see the lines above")
        time.sleep(0.01)
    os.killpg(approving.pid, signal.SIGKILL)
    approving.wait()
