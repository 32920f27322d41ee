"""How a kernel is started: its command, its environment, its private folder.

The environment is small on purpose: ours holds secrets, and a cell can print what it inherits. Without thread counts a
numerical library takes every core it sees, also those it may not use.
"""

import contextlib
import importlib
import importlib.util
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from detent.core import EffectFailed
from detent.effects.process_census import identity, lives

INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "VIRTUAL_ENV")
# Where kernels of other languages find their libraries; no value of these is a secret.
LANGUAGES = (
    "R_HOME",
    "R_LIBS",
    "R_LIBS_USER",
    "JULIA_DEPOT_PATH",
    "JULIA_LOAD_PATH",
    "JULIA_PROJECT",
    "JAVA_HOME",
    "GOPATH",
    "GOROOT",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "DOTNET_ROOT",
    "CONDA_PREFIX",
)
ALLOWED = "DETENT_KERNEL_ENV"  # names, after commas or spaces, that every kernel may see
THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
OWN = {"PYTHONFAULTHANDLER": "1"}  # a crash in native code then says where
NATIVE = "python3"
# In-memory history: no file that kernels would share. Descriptors 1 and 2 stay ours: what a cell writes to them
# directly then reaches us before its reply does, even when the kernel dies right after.
IPYKERNEL_FLAGS = ("--HistoryManager.hist_file=:memory:", "--IPKernelApp.capture_fd_output=False")
FOLDER = "detent-kernel-"
SOCKET_PATH_MAX = 100  # a Unix socket's path has 107 characters at most; ours end in a short number


def load_extra(module: str) -> Any:
    """A module of the `notebook` extra, loaded when it is first needed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        message = f"a kernel needs `{module.partition('.')[0]}`; install it with: pip install 'detent[notebook]'"
        raise EffectFailed(message, type="tool_failure.not_found") from error


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def environment(given: Mapping[str, str], marks: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The variables a kernel sees: a few of ours, thread counts, what was given, and detent's marks."""
    allowed = {*INHERITED, *LANGUAGES, *os.environ.get(ALLOWED, "").replace(",", " ").split()}
    kept = {name: value for name, value in os.environ.items() if name in allowed or name.startswith("LC_")}
    threads = dict.fromkeys(THREADS, str(cores()))
    return {**kept, **OWN, "IPYTHONDIR": str(folder / "ipython"), **threads, **given, **marks}


def private_folder() -> Path:
    """A new folder that only we can enter, named after this process, with a path short enough for sockets."""
    for parent in _parents():
        if len(parent) < SOCKET_PATH_MAX - 50 and os.access(parent, os.W_OK | os.X_OK):
            return Path(tempfile.mkdtemp(prefix=f"{FOLDER}{identity(os.getpid())}-", dir=parent))
    raise EffectFailed("there is no writable folder for a kernel's sockets; set TMPDIR to one with a short path")


def _parents() -> list[str]:
    found = (os.environ.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir(), "/tmp")  # noqa: S108  # mkdtemp makes it private
    return [parent for parent in dict.fromkeys(found) if parent]


def remove_leftovers() -> None:
    """Take away the folders of detents that have died."""
    for parent in _parents():
        for folder in Path(parent).glob(f"{FOLDER}*-*-*"):
            host = folder.name.removeprefix(FOLDER).rpartition("-")[0]
            is_ours = host.partition("-")[0].isdecimal()
            with contextlib.suppress(OSError):
                if is_ours and folder.stat().st_uid == os.getuid() and not lives(host) and not _is_kept(folder):
                    remove(folder)


def _is_kept(folder: Path) -> bool:
    """Whether a kernel that its detent has left still lives there."""
    try:
        return lives((folder / "kept").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return False


def remove(folder: Path) -> None:
    """Take a private folder away, whatever is in it."""
    shutil.rmtree(folder, ignore_errors=True)


def specs(name: str, folder: Path) -> Any:
    """Where jupyter_client shall look for kernelspecs: our own for the native kernel first, then the usual places."""
    places = load_extra("jupyter_client.kernelspec").KernelSpecManager()
    if name != NATIVE or importlib.util.find_spec("ipykernel") is None:
        return places
    own = folder / "kernels" / NATIVE
    own.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": argv, "display_name": "Python 3", "language": "python"}
    (own / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")
    places.kernel_dirs = [str(own.parent), *places.kernel_dirs]
    return places


def manager(name: str, folder: Path, context: Any, held: list[str]) -> tuple[Any, list[str]]:
    """A jupyter_client manager for a kernel over sockets in that folder, and further arguments for the kernel.

    `held` comes before the kernel's own words: what it is started in.
    """
    places = specs(name, folder)
    try:
        spec = places.get_kernel_spec(name)
    except load_extra("jupyter_client.kernelspec").NoSuchKernel as error:
        known = ", ".join(sorted(places.find_kernel_specs())) or "none; pip install 'detent[notebook]' brings python3"
        raise EffectFailed(
            f"there is no kernel `{name}`; kernels here: {known}", type="tool_failure.not_found"
        ) from error
    made = load_extra("jupyter_client.manager").AsyncKernelManager(
        kernel_name=name,
        kernel_spec_manager=places,
        context=context,
        transport="ipc",
        ip=str(folder / "s"),
        connection_file=str(folder / "connection.json"),
    )
    made.kernel_spec.argv = [*held, *made.kernel_spec.argv]
    return made, list(IPYKERNEL_FLAGS) if any("ipykernel" in word for word in spec.argv) else []
