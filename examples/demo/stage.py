"""The demo's stage: its folder, its journal, and the `detent` command as you would type it."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
FOLDER = ROOT / ".detent" / "demo"
DETENT = Path(sys.executable).parent / "detent"
WAITS = 3
HOME = {"DETENT_HOME": str(FOLDER / ".detent")}
NO_DATABASE = """there is no database to use. With Debian's package, for example:
       apt-get install postgresql && su postgres -c 'createuser detent && createdb -O detent detent'
   The password comes from PGPASSWORD or a password file, never from the address."""


def make_folder(folder: Path) -> None:
    """The demo's folder; the one above it may become this project's home, and a home is for its owner alone."""
    for one in (folder.parent, folder):
        one.mkdir(mode=0o700, exist_ok=True)


def use_database(address: str) -> None:
    """Keep the demo's runs in a database; without one, say how to come by it."""
    HOME["DETENT_HOME"] = address
    note("$ detent db init")
    done = subprocess.run([DETENT, "db", "init"], cwd=FOLDER, env=environment(), stdin=subprocess.DEVNULL, check=False)
    if done.returncode:
        raise SystemExit(f"   {NO_DATABASE}")


def tell(line: str) -> None:
    """A heading."""
    print(f"\n── {line}", flush=True)


def note(line: str) -> None:
    """A line of the story."""
    print(f"   {line}", flush=True)


def ask(is_quiet: bool, question: str) -> None:
    """Let the person decide, unless --yes."""
    if is_quiet:
        note(f"{question} yes (--yes)")
    elif input(f"   {question} [Y/n] ").strip().lower() not in ("", "y", "yes", "j", "是"):
        note("Then the run stays as it is: nothing is lost. `detent list` shows it.")
        raise SystemExit(0)


def detent(
    *argv: str, expect: int | Sequence[int] = 0, folder: Path = FOLDER, env: Mapping[str, str] | None = None
) -> None:
    """Run a command as you would, and stop the story if it ends otherwise than told."""
    note("$ detent " + " ".join(a if " " not in a and "{" not in a else f"'{a}'" for a in argv))
    done = subprocess.run(
        [DETENT, *argv], cwd=folder, env=environment(env), stdin=subprocess.DEVNULL, check=False
    ).returncode
    if done not in ((expect,) if isinstance(expect, int) else expect):
        raise SystemExit(f"`detent {argv[0]}` ended with {done}, the story wants {expect}")


def shown(run_id: str) -> dict[str, Any]:
    """A run as JSON."""
    done = subprocess.run(
        [DETENT, "show", run_id, "--json"], cwd=FOLDER, env=environment(), capture_output=True, text=True, check=False
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def environment(env: Mapping[str, str] | None = None) -> dict[str, str]:
    """The caller's environment with the demo's own home, and no model of the caller's.

    What outlives a home is kept in the demo's folder, too: a second clone in the same place is a demo of its own.
    """
    home = {
        **HOME,
        "XDG_STATE_HOME": str(FOLDER / "state"),
        "DETENT_MODEL": "builtin:rules",
    }
    return {**os.environ, **home, "PATH": f"{DETENT.parent}{os.pathsep}{os.environ.get('PATH', '')}", **(env or {})}
