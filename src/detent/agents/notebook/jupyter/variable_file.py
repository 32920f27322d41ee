"""The kernel's variables written to a file and read again, from inside the kernel; sent beside the probe.

All of them are one graph, so that two names of one object are still that after a restore. What cannot be kept (a
connection, a generator, an open file) is left out and named with the reason. A function of the notebook finds its
globals in the namespace it is loaded into, as if it had been written there.
"""

from __future__ import annotations

import importlib
import json
import os
import pickle
import re
import sys
import types
from typing import Any

FORMAT = 1
NAMESPACE = "namespace"  # how the file names the namespace itself
LOST_MAX = 200
SHELLS_OWN = re.compile(r"_+(i{1,3}|oh|dh|ih|exit_code)?\d*|__\w+__")  # names that IPython itself keeps


class VariablesTooLarge(Exception):
    """The variables take more room than they may."""


class BoundedFile:
    """A file that only counts where it has no path, and refuses to grow over its limit."""

    def __init__(self, path: str, limit: int) -> None:
        self._file = open(path, "wb", buffering=1024 * 1024) if path else None  # noqa: SIM115
        self._limit, self.size = limit, 0

    def write(self, data: Any) -> int:
        """Take one piece."""
        piece = memoryview(data)  # bytes, or the buffer of a large array as it is
        length = int(piece.nbytes)
        self.size += length
        if self.size > self._limit:
            raise VariablesTooLarge(f"more than {self._limit:,} bytes")
        if self._file is not None:
            self._file.write(piece)
        return length

    def close(self) -> None:
        """Give the file to the system."""
        if self._file is not None:
            self._file.close()


def _pickler_class() -> Any:
    for name in ("cloudpickle", "joblib.externals.cloudpickle"):
        try:
            return importlib.import_module(name).Pickler
        except (ImportError, AttributeError):
            continue
    return pickle.Pickler


def _make_pickler(file: Any, namespace: dict[str, Any]) -> Any:
    base = _pickler_class()
    stand_in = {"__name__": "__main__"}

    class NamespacePickler(base):  # type: ignore[misc,valid-type]
        """Writes the namespace as a name: its contents are listed beside it."""

        def persistent_id(self, value: Any) -> Any:
            return NAMESPACE if value is namespace or value is stand_in else None

    pickler = NamespacePickler(file, protocol=5)
    references = getattr(pickler, "globals_ref", None)
    if isinstance(references, dict):  # functions of the notebook then share the namespace instead of a copy of it
        references[id(namespace)] = stand_in
    return pickler


class NamespaceUnpickler(pickle.Unpickler):
    """Reads such a file into a namespace."""

    def __init__(self, file: Any, namespace: dict[str, Any]) -> None:
        super().__init__(file)
        self._namespace = namespace

    def persistent_load(self, given: Any) -> Any:
        """The namespace, wherever it was meant."""
        if given != NAMESPACE:
            raise pickle.UnpicklingError(f"there is no {given!r}")
        return self._namespace


def names_of(probe: Any, namespace: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The user's variables, and the modules among them by their names."""
    own, modules = {}, {}
    for name, value in list(namespace.items()):
        if type(name) is not str or SHELLS_OWN.fullmatch(name):
            continue
        if name in probe._hidden and probe._hidden[name] is value:
            continue
        if type(value) is types.ModuleType:
            modules[name] = value.__name__
        else:
            own[name] = value
    return own, modules


def save(path: str, limit: int) -> Any:
    """Write the variables; which were kept, which were not and why."""
    probe = sys.modules["_detent_probe"]
    namespace = sys.modules["__main__"].__dict__ if probe._shell is None else probe._shell.user_ns
    own, modules = names_of(probe, namespace)
    lost: dict[str, str] = {}
    size = _write(path, limit, own, modules, namespace, lost)
    answer = {"is_kept": size > 0, "bytes": size, "names": [*own, *modules], "lost": lost}
    return probe.RawJson(json.dumps(answer))


def _write(
    path: str, limit: int, own: dict[str, Any], modules: dict[str, str], namespace: dict[str, Any], lost: dict[str, str]
) -> int:
    """Write all at once; only where that fails, find out who is to blame and write the rest."""
    for attempt in range(2):
        file = BoundedFile(path, limit)
        try:
            _make_pickler(file, namespace).dump((FORMAT, own, modules, sys.path[:], os.getcwd()))
        except VariablesTooLarge as error:
            lost["*"] = str(error)
            file.close()
            return 0
        except Exception as error:  # noqa: BLE001  # pickling runs the objects' own code
            file.close()
            if attempt:
                lost["*"] = f"{type(error).__name__}: {error}"[:LOST_MAX]
                return 0
            _leave_out(limit, own, namespace, lost)
        else:
            file.close()
            return file.size
    return 0


def _leave_out(limit: int, own: dict[str, Any], namespace: dict[str, Any], lost: dict[str, str]) -> None:
    """Try each variable by itself, and take away those that cannot be written."""
    for name in list(own):
        try:
            _make_pickler(BoundedFile("", limit), namespace).dump(own[name])
        except Exception as error:  # noqa: BLE001
            lost[name] = f"{type(own[name]).__name__}: {error}"[:LOST_MAX]
            del own[name]


def load(path: str) -> Any:
    """Read the variables back into the namespace; what could not be is named."""
    probe = sys.modules["_detent_probe"]
    namespace = sys.modules["__main__"].__dict__ if probe._shell is None else probe._shell.user_ns
    lost: dict[str, str] = {}
    try:
        with open(path, "rb", buffering=1024 * 1024) as file:
            found = NamespaceUnpickler(file, namespace).load()  # its own words, in its own sandbox
        form, own, modules, places, folder = found
        if form != FORMAT:
            raise ValueError(f"form {form} of a checkpoint is not known here")
    except Exception as error:  # noqa: BLE001
        return probe.RawJson(json.dumps({"is_loaded": False, "why": f"{type(error).__name__}: {error}"[:LOST_MAX]}))
    sys.path[:] = places
    if os.path.isdir(folder):
        os.chdir(folder)
    namespace.update(own)
    for name, module in modules.items():
        try:
            namespace[name] = importlib.import_module(module)
        except Exception as error:  # noqa: BLE001
            lost[name] = f"{type(error).__name__}: {error}"[:LOST_MAX]
    return probe.RawJson(json.dumps({"is_loaded": True, "names": [*own, *modules], "lost": lost}))
