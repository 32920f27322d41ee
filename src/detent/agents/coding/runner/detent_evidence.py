"""A pytest plug-in that tells, test by test, what pytest did: the evidence of a verification.

It runs in the project's own Python, beside code that may want to look good. So it writes to a file without a name,
every line with a code that chains it to the line before, by a key that it read and erased before any code of the
project was loaded. What stops before the last line, or leaves one out, is no evidence. Two further questions are asked:
does a test that must fail still fail (before the first test and after the last), and are pytest's own functions still
those that were there at the beginning?
"""

import contextlib
import hashlib
import hmac
import json
import os
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

VARIABLE = "DETENT_EVIDENCE"
KEY_BYTES = 32
TEXT_MAX = 4000
GUARDED = ("_pytest", "pluggy", "pytest")


def _open_report() -> "tuple[Callable[[dict[str, Any]], None], frozenset[str]] | None":
    """The way to report, and the names of the tests that are to run: none named, all of them."""
    number = os.environ.pop(VARIABLE, "")
    if not number.isdigit():
        return None
    fd = os.dup(int(number))  # not for the processes that tests start
    os.close(int(number))
    given = os.pread(fd, os.fstat(fd).st_size, 0)
    key, only = given[:KEY_BYTES], frozenset(given[KEY_BYTES:].decode().split("\n")) - {""}
    os.ftruncate(fd, 0)
    os.lseek(fd, 0, os.SEEK_SET)
    chain, own = [b""], os.getpid()
    new, write, get_pid, dump = hmac.new, os.write, os.getpid, json.dumps

    def tell(said: dict[str, Any]) -> None:
        if get_pid() != own:  # a child of a test, which is not the one that reports
            return
        body = dump(said).encode()
        chain[0] = new(key, chain[0] + body, hashlib.sha256).hexdigest().encode()
        line = chain[0] + b" " + body + b"\n"
        while line:
            line = line[write(fd, line) :]

    return tell, only


def _list_functions() -> Iterator[tuple[str, object]]:
    """The functions of the test runner, by their names: what somebody would replace who wants to look good."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] not in GUARDED or not isinstance(module, types.ModuleType):
            continue
        for key, value in list(vars(module).items()):
            if isinstance(value, types.FunctionType) and value.__module__ == name:
                yield f"{name}.{key}", value.__code__
            elif isinstance(value, type) and value.__module__ == name:
                for inner, attribute in list(vars(value).items()):
                    method = getattr(attribute, "__func__", getattr(attribute, "fget", attribute))
                    if isinstance(method, types.FunctionType):
                        yield f"{name}.{key}.{inner}", method.__code__


def _fail_on_purpose() -> None:
    raise AssertionError("this must fail")


class Witness:
    """The hooks."""

    def __init__(self, tell: "Callable[[dict[str, Any]], None]", only: "frozenset[str]") -> None:
        self._tell, self._only = tell, only
        self._functions: dict[str, object] = {}
        self._is_over = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_load_initial_conftests(self) -> None:
        """The last moment before code of the project runs."""
        self._functions = dict(_list_functions())
        self._tell({"kind": "begin", "python": sys.executable, "version": list(sys.version_info[:3])})

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        """What will run."""
        if self._only:
            items[:] = [item for item in items if item.nodeid in self._only]
        self._tell({"kind": "collected", "tests": [item.nodeid for item in items]})

    def pytest_deselected(self, items: list[Any]) -> None:
        """What will not."""
        self._tell({"kind": "deselected", "tests": [item.nodeid for item in items]})

    def pytest_collectreport(self, report: Any) -> None:
        """What could not be read."""
        if report.failed:
            self._tell({"kind": "unreadable", "test": report.nodeid, "text": str(report.longrepr)[-TEXT_MAX:]})
        elif report.skipped:
            self._tell({"kind": "passed_over", "test": report.nodeid})

    def pytest_runtest_logreport(self, report: Any) -> None:
        """One phase of one test."""
        said = {"kind": "phase", "test": report.nodeid, "when": report.when, "outcome": report.outcome}
        if hasattr(report, "wasxfail"):
            said["xfail"] = True
        if report.failed:
            with contextlib.suppress(Exception):
                said |= {
                    "text": report.longreprtext[-TEXT_MAX:],
                    "file": report.location[0],
                    "line": report.location[1],
                }
        self._tell(said)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session: Any) -> Iterator[None]:
        """Around all tests."""
        self._ask_canary(session)
        yield
        self._ask_canary(session)

    def _ask_canary(self, session: Any) -> None:
        items = getattr(session, "items", None)
        if not items or session.config.option.collectonly:
            return
        try:
            parent = next((item.parent for item in items if isinstance(item, pytest.Function)), None)
            if parent is None:
                return
            canary = pytest.Function.from_parent(parent, name="test_detent_canary", callobj=_fail_on_purpose)
            reports = runtestprotocol(canary, log=False)
            outcome = next((report.outcome for report in reports if report.when == "call"), "unknown")
        except Exception as error:  # noqa: BLE001  # a plug-in that cannot do with it: then there is no such evidence
            outcome = f"error: {error}"[:200]
        self._tell({"kind": "canary", "outcome": outcome})

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus: Any) -> None:
        """After everything."""
        if self._is_over:
            return
        self._is_over = True
        now = dict(_list_functions())
        changed = sorted(name for name, code in self._functions.items() if now.get(name) is not code)
        files = [str(getattr(module, "__file__", "") or "") for module in list(sys.modules.values())]
        self._tell({"kind": "modules", "files": sorted({file for file in files if file.endswith(".py")})})
        self._tell({"kind": "end", "exit": int(exitstatus), "changed": changed[:100]})


def pytest_configure(config: Any) -> None:
    """Nothing: the witness is registered when this module is loaded."""
    del config


def pytest_addoption(parser: Any, pluginmanager: Any) -> None:
    """Called as soon as the module is loaded, which is before any file of the project is."""
    del parser
    opened = _open_report()
    if opened is not None:
        pluginmanager.register(Witness(*opened), f"detent-{os.urandom(8).hex()}")
