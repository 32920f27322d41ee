"""A process that has imported the command line and forks a real `detent` for every command that a test runs to its end.

Nearly all of a short command's time goes into imports. What a fork gives is a process of its own all the same, with its
own folder, environment, files and signals; commands that are killed, watched or typed into are started from nothing.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

SCRIPT = str(Path(sys.executable).with_name("detent"))
# What the interpreter itself reads as it starts.
ITS_OWN = ("PYTHON", "LC_", "LANG")


def serve() -> None:
    """Fork for each request on stdin, tell the exit code on stdout; only a fork comes out of here, as a command."""
    sys.path[0] = str(Path(SCRIPT).parent)
    package = importlib.import_module("detent.surfaces.cli")
    modules = [module.name for module in pkgutil.iter_modules(package.__path__, "detent.surfaces.cli.")]
    for name in (*modules, *sys.argv[1:]):
        importlib.import_module(name)
    entry = importlib.import_module("detent.surfaces.entry")
    gc.collect()
    gc.freeze()
    while line := os.read(0, 1 << 20):
        while not line.endswith(b"\n"):
            line += os.read(0, 1 << 20)
        child = os.fork()
        if not child:
            become(json.loads(line))
            entry.main()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os.write(1, b"%d\n" % status)


def become(request: Mapping[str, object]) -> None:
    """In the fork: the folder, environment, arguments and files of the command."""
    os.chdir(str(request["folder"]))
    os.environ.clear()
    os.environ.update(json.loads(str(request["env"])))
    sys.argv = [SCRIPT, *json.loads(str(request["argv"]))]
    for number, path in enumerate((os.devnull, str(request["out"]), str(request["err"]))):
        opened = os.open(path, os.O_RDWR)
        os.dup2(opened, number)
        os.close(opened)
    # For as long as the process lives.
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115


def takes(env: Mapping[str, str]) -> bool:
    """Whether a fork is the same as a start: not where the environment changes how Python itself begins."""
    changed = {name for name in {*env, *os.environ} if env.get(name) != os.environ.get(name)}
    return not any(name.startswith(ITS_OWN) and name in env for name in changed)


def command(
    argv: Sequence[str], folder: Path, env: Mapping[str, str], timeout_s: float, also: tuple[str, ...] = ()
) -> tuple[int, str, str]:
    """Run a command to its end: its exit code, and what it said; `also` are libraries that it would import."""
    with tempfile.TemporaryDirectory(prefix="detent-said-") as scratch, _idle_server(also) as server:
        out, err = Path(scratch, "out"), Path(scratch, "err")
        out.touch()
        err.touch()
        request = {"argv": json.dumps(argv), "folder": str(folder), "env": json.dumps(dict(env))}
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(request | {"out": str(out), "err": str(err)}).encode() + b"\n")
        server.stdin.flush()
        if not select.select([server.stdout], [], [], timeout_s)[0]:
            raise subprocess.TimeoutExpired([SCRIPT, *argv], timeout_s, out.read_text(), err.read_text())
        return int(server.stdout.readline()), out.read_text(), err.read_text()


_idle: dict[tuple[str, ...], list["subprocess.Popen[bytes]"]] = {}


@contextlib.contextmanager
def _idle_server(also: tuple[str, ...]) -> Iterator["subprocess.Popen[bytes]"]:
    """A server that does nothing else meanwhile: one of those that wait, or a new one."""
    idle = _idle.setdefault(also, [])
    try:
        server = idle.pop()
    except IndexError:
        program = [sys.executable, __file__, *also]
        server = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        atexit.register(_end, server)
    try:
        yield server
    except BaseException:
        _end(server)
        raise
    idle.append(server)


def _end(server: "subprocess.Popen[bytes]") -> None:
    if server.poll() is None:
        os.killpg(server.pid, signal.SIGKILL)
        server.communicate()


if __name__ == "__main__":
    serve()
