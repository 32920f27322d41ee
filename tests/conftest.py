"""What every test stands on: a fresh event loop with a wall limit for async tests, and hypothesis profiles.

There is no async plugin: a test written as a coroutine is run by `asyncio.run`, so nothing leaks from one
test's loop into the next. Async fixtures are not supported on purpose: a test opens what it needs with
`async with`.
"""

import asyncio
import functools
import inspect
import os
import signal
import tempfile
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests import warm
from tests.effort import examples

LIMIT_S = 300.0  # only against hanging

# Files that take long, so that none of them is begun when the others are done: they go first, in this order.
LONG = (
    "frameworks/test_frameworks.py",
    "test_docs.py",
    "agents/notebook/test_analysis.py",
    "web/test_page.py",
    "agents/coding/test_crash.py",
    "simulation/test_histories.py",
    "surfaces/test_steps.py",
    "surfaces/server/test_service.py",
    "agents/notebook/jupyter/test_limit.py",
    "web/test_run.py",
    "agents/coding/test_lifecycle.py",
    "agents/coding/test_projects.py",
    "surfaces/test_mcp.py",
    "agents/notebook/test_crash.py",
    "agents/notebook/test_wire.py",
    "surfaces/test_cli.py",
    "faults/test_disk.py",
    "test_doc_types.py",
    "host/test_backup.py",
    "web/test_inbox.py",
    "web/test_people.py",
    "surfaces/server/test_assistant.py",
    "host/test_handover.py",
    "core/test_expression.py",
    "surfaces/test_chat.py",
    "agents/coding/workspace/test_kill.py",
    "agents/coding/workspace/test_fuzz.py",
    "host/test_processes.py",
    "effects/mcp/test_tools.py",
    "agents/notebook/test_run.py",
    "agents/test_guest.py",
    "surfaces/test_code.py",
    "surfaces/server/test_openapi.py",
    "agents/coding/test_hostile.py",
    "web/test_chat.py",
    "simulation/test_cases.py",
    "define/graph/test_layout.py",
    "simulation/test_payment.py",
    "core/test_laws.py",
    "define/test_cases.py",
    "surfaces/test_deeds.py",
    "surfaces/test_guard.py",
)

BOTH: dict[str, Any] = {"deadline": None, "max_examples": examples(100)}
hypothesis.settings.register_profile("dev", **BOTH)
hypothesis.settings.register_profile("ci", **BOTH, derandomize=True, print_blob=True, database=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))

# The caller's own journal and language must not reach a test, nor a process that a test starts.
for name in ("DETENT_HOME", "DETENT_LANG"):
    os.environ.pop(name, None)

# A kernel that waits for a person is kept for half an hour; those of tests are not waited for.
os.environ["DETENT_KEEP_KERNELS_S"] = "0"

# What detent remembers of homes lies outside of them: homes of tests are gone tomorrow, and their names come again.
STATE = tempfile.TemporaryDirectory(prefix="detent-state-")
os.environ["XDG_STATE_HOME"] = STATE.name

warm.install()

# A suite that was started in the background ignores Ctrl-C, and so would every command that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files first."""
    here = Path(__file__).parent
    turn = {here / name: at for at, name in enumerate(LONG)}
    assert not (gone := [path for path in turn if not path.exists()]), f"moved, so no longer begun early: {gone}"
    items.sort(key=lambda item: turn.get(item.path, len(turn)))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test; leave every other test to pytest."""
    test = pyfuncitem.obj
    limit_s = limit_of(pyfuncitem)
    given = getattr(test, "hypothesis", None)
    if given is not None and inspect.iscoroutinefunction(given.inner_test):
        given.inner_test = blocking(given.inner_test, limit_s)  # the limit is then for each example
        return None
    if not inspect.iscoroutinefunction(test):
        return None
    wanted = inspect.signature(test).parameters
    blocking(test, limit_s)(**{name: pyfuncitem.funcargs[name] for name in wanted})
    return True


def limit_of(test: pytest.Function) -> float:
    """The seconds a test may take: its nearest `limit` marker, or the default."""
    marker = test.get_closest_marker("limit")
    return LIMIT_S if marker is None else float(marker.args[0])


def blocking(test: Callable[..., Awaitable[None]], limit_s: float) -> Callable[..., None]:
    """The same test as a plain function: a new event loop, and an end to waiting."""

    async def within(arguments: dict[str, Any]) -> None:
        try:
            async with asyncio.timeout(limit_s) as limit:
                await test(**arguments)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise AssertionError(f"not done after {limit_s:g} s; raise it with @pytest.mark.limit(…)") from error

    @functools.wraps(test)
    def run(**arguments: Any) -> None:
        asyncio.run(within(arguments))

    return run
