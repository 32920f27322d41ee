"""The demo: an approval, a SIGKILL in the middle of an irreversible step, a recovery, and the question that follows.

    ./run demo          asks you
    ./run demo --yes    answers for you

Everything is done with the `detent` command, as you would.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".detent" / "demo"
DETENT = Path(sys.executable).parent / "detent"
RELEASE = Path("..", "..", "examples", "release", "release.py")  # as seen from the demo's folder
WAITS = 3
PATIENCE_S = 30.0


def main() -> int:
    """Tell the story; 0 when it went as told."""
    parser = argparse.ArgumentParser(prog="./run demo", description="detent in one story")
    parser.add_argument("--yes", action="store_true", help="answer every question with yes")
    is_quiet = parser.parse_args().yes or not sys.stdin.isatty()
    FOLDER.mkdir(parents=True, exist_ok=True)
    outbox = FOLDER / "outbox.txt"
    outbox.unlink(missing_ok=True)
    version = time.strftime("%Y.%m%d.%H%M%S")

    tell("1  A release is validated, and asks before it publishes")
    run_id = start(version)
    ask(is_quiet, "Publish?")

    tell("2  It is approved; in the middle of publishing the process is killed (SIGKILL)")
    kill_while_publishing(run_id, outbox)
    print(f"   the world has already seen: {outbox.read_text().strip()!r}")

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
    print(f"\n   published {published} time(s), killed once, nothing lost.")
    print(f"   look: cd {FOLDER.relative_to(Path.cwd()) if FOLDER.is_relative_to(Path.cwd()) else FOLDER}")
    print(f"         detent show {run_id} · detent log {run_id} · detent list")
    return 0 if published == 1 else 1


def tell(line: str) -> None:
    """A heading."""
    print(f"\n── {line}", flush=True)


def ask(is_quiet: bool, question: str) -> None:
    """Let the person decide, unless --yes."""
    if is_quiet:
        print(f"   {question} yes (--yes)")
    elif input(f"   {question} [Y/n] ").strip().lower() not in ("", "y", "yes", "j", "是"):
        print("   Then the run stays as it is: nothing is lost. `detent list` shows it.")
        raise SystemExit(0)


def start(version: str) -> str:
    """Start the release; it stops at its question."""
    given = json.dumps({"version": version, "upload_s": 30})
    detent("run", str(RELEASE), "--input", given, expect=WAITS)
    return str(shown("last")["run_id"])


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


def detent(*argv: str, expect: int = 0) -> None:
    """Run a command as you would, and stop the story if it ends otherwise than told."""
    print("   $ detent " + " ".join(a if " " not in a and "{" not in a else f"'{a}'" for a in argv), flush=True)
    status = subprocess.run([DETENT, *argv], cwd=FOLDER, env=environment(), check=False).returncode
    if status != expect:
        raise SystemExit(f"`detent {argv[0]}` ended with {status}, the story wants {expect}")


def shown(run_id: str) -> dict[str, Any]:
    """A run as JSON."""
    done = subprocess.run(
        [DETENT, "show", run_id, "--json"], cwd=FOLDER, env=environment(), capture_output=True, text=True, check=False
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def environment() -> dict[str, str]:
    """The caller's environment with the demo's own home."""
    return {**os.environ, "DETENT_HOME": str(FOLDER / ".detent")}


if __name__ == "__main__":
    sys.exit(main())
