"""A process that has imported the command line and forks a real `detent` for every command that a test starts.

The servers that tests have MCP clients start are forked in the same way: they import the same large library.

Nearly all of a short command's time goes into imports, and half of a server's. What a fork gives is a process of its
own all the same, a child of the test's process, with its own folder, environment, arguments, files and signals: it can
be killed, watched, typed into and waited for like any other. `subprocess` and asyncio start it without a change in a
test; `DETENT_COLD=1` has every one started from nothing, and so has a system that cannot adopt a grandchild (macOS).
"""

import array
import atexit
import contextlib
import ctypes
import functools
import gc
import importlib
import inspect
import json
import os
import pkgutil
import runpy
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SCRIPT = str(Path(sys.executable).with_name("detent"))
# What the interpreter itself reads as it starts.
ITS_OWN = ("PYTHON", "LC_", "LANG")
# What a command imports beside the command line: such a command is forked from a process that has it too.
HOST = (
    "detent.host.embedded.shared_host",
    "detent.host.embedded.handover_client",
    "detent.kit.effect_source",
    "jinja2",
)
MCP = ("detent.surfaces.mcp.stdio_server", "detent.surfaces.mcp.mcp_server", "mcp.server.stdio", "rich.logging")
SERVE = ("uvicorn.protocols.http.h11_impl", "uvicorn.lifespan.on", "detent.surfaces.server.service",
         "detent.agents.coding.workspace", "detent.agents.assistant.routes.chat",
         "detent.agents.assistant.routes.memory", "detent.effects.llm", "detent.effects.function_process",
         "detent.effects.pipeline.stage_run", "encodings.idna")  # fmt: skip
ALSO = {
    "serve": (*HOST, *MCP, *SERVE),
    "mcp": (*HOST, *MCP),
    "chat": (*HOST, "openai", "mcp"),
    "notebook": (*HOST, "jupyter_client", "nbformat"),
}
PEERS = {str(Path(__file__).with_name("effects") / "mcp" / "peer.py"): ("mcp.server.mcpserver", "mcp.server.stdio")}
LOCALE = {"LC_ALL", "LC_CTYPE", "LANG"}
SMALL = 100_000  # bytes of a request; a larger one goes the long way
ADOPT = 36  # prctl: orphans below this process become its children


def serve() -> None:
    """Fork for each request on stdin and tell its process; only a fork comes out of here, as a command."""
    sys.path[0] = str(Path(SCRIPT).parent)
    package = importlib.import_module("detent.surfaces.cli")
    modules = [module.name for module in pkgutil.iter_modules(package.__path__, "detent.surfaces.cli.")]
    for name in (*modules, *sys.argv[1:]):
        with contextlib.suppress(ImportError):  # an extra that is not installed here: the command says so itself
            importlib.import_module(name)
    entry = importlib.import_module("detent.surfaces.entry")
    gc.collect()
    gc.freeze()
    asked = socket.socket(fileno=0)
    while True:
        request, files, _, _ = socket.recv_fds(asked, 2 * SMALL, 3)
        if not request:
            return
        # The one between dies at once, so that the test's process adopts the command.
        reading, writing = os.pipe()
        between = os.fork()
        if not between:
            if command := os.fork():
                os.write(writing, b"%d" % command)
                os._exit(0)
            asked.detach()
            os.close(reading)
            os.close(writing)
            told = json.loads(request)
            become(told, files)
            if told["script"] != SCRIPT:
                runpy.run_path(told["script"], run_name="__main__")
                sys.exit(0)
            entry.main()
        os.waitpid(between, 0)
        os.close(writing)
        for file in files:
            os.close(file)
        asked.send(os.read(reading, 20))
        os.close(reading)


def become(request: Mapping[str, Any], files: Sequence[int]) -> None:
    """In the fork: the folder, environment, arguments, group and files of the command."""
    if request["has_own_session"]:
        os.setsid()
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["env"])
    if not LOCALE & os.environ.keys():
        os.environ["LC_CTYPE"] = "C.UTF-8"  # as Python itself does where it begins without a locale (PEP 538)
    sys.argv = [request["script"], *request["argv"]]
    sys.path[0] = str(Path(request["script"]).parent)
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.closerange(3, max(files) + 1)
    # For as long as the process lives.
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115


def takes(env: Mapping[str, str]) -> bool:
    """Whether a fork is the same as a start: not where the environment changes how Python itself begins.

    A test that looks for a process by its first environment, as the kernel tells it, gives `DETENT_COLD` with it.
    """
    if env.get("DETENT_COLD"):
        return False
    changed = {name for name in {*env, *os.environ} if env.get(name) != os.environ.get(name)}
    return not any(name.startswith(ITS_OWN) and name in env for name in changed)


class WarmServer:
    """The process that forks, and its end of the conversation."""

    def __init__(self, also: Sequence[str]) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen([sys.executable, __file__, *also], stdin=theirs.fileno())
        atexit.register(self._end)

    def fork(self, request: bytes, files: Sequence[int]) -> int:
        """Have a command begun, as a child of this process."""
        adopt = ctypes.CDLL(None).prctl
        adopt(ADOPT, 1, 0, 0, 0)
        try:
            socket.send_fds(self._ours, [request], array.array("i", files))
            return int(self._ours.recv(20))
        finally:
            adopt(ADOPT, 0, 0, 0, 0)

    def _end(self) -> None:
        self._ours.close()
        self._process.wait()


_servers: dict[tuple[str, ...], WarmServer] = {}
_turn = threading.Lock()


def install() -> None:
    """From now on whoever starts `detent` from this process gets a fork, where that is the same."""
    if sys.platform != "linux" or os.environ.get("DETENT_COLD"):
        return
    started: Any = subprocess.Popen._execute_child  # type: ignore[attr-defined]
    names = inspect.signature(started)

    @functools.wraps(started)
    def start(process: Any, *args: Any, **more: Any) -> None:
        given = names.bind(process, *args, **more).arguments
        request = _request(given)
        if request is None:
            started(process, *args, **more)
            return
        ends = {name: given[name] for name in ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")}
        files = [ends["p2cread"], ends["c2pwrite"], ends["errwrite"]]
        kind = PEERS.get(request["script"]) or next((ALSO[word] for word in request["argv"] if word in ALSO), ())
        with _turn:
            if kind not in _servers:
                _servers[kind] = WarmServer(kind)
            said = json.dumps(request).encode()
            process.pid = _servers[kind].fork(
                said, [number if file == -1 else file for number, file in enumerate(files)]
            )
        process._child_created = True
        process._close_pipe_fds(**ends)

    subprocess.Popen._execute_child = start  # type: ignore[attr-defined]


def _request(given: Mapping[str, Any]) -> dict[str, Any] | None:
    """What to tell the server, or nothing where only a start from nothing gives the same process."""
    words = given["args"]
    if not isinstance(words, (list, tuple)):
        return None
    script, *argv = [os.fspath(word) for word in words]
    if script == sys.executable and argv and argv[0] in PEERS:
        script, *argv = argv
    if script != SCRIPT and script not in PEERS:
        return None
    special = ("preexec_fn", "pass_fds", "shell", "executable", "gid", "gids", "uid")
    folder = os.path.realpath(given["cwd"] or ".")
    env = dict(os.environ if given["env"] is None else given["env"])
    is_plain = not any(given[name] for name in special) and given["umask"] < 0 and given["process_group"] == -1
    if not is_plain or not os.path.isdir(folder) or not takes(env):
        return None
    request = {
        "script": script,
        "argv": argv,
        "folder": folder,
        "env": env,
        "has_own_session": bool(given["start_new_session"]),
    }
    return request if len(json.dumps(request)) < SMALL else None


if __name__ == "__main__":
    serve()
