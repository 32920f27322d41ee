"""The effect `python` against real functions in a real module."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from detent.core.contract import Contract
from detent.core.effect_type import EffectFailed, Outcome, OutcomeUnknown, StillRunning
from detent.effects.python import python
from tests.effort import PATIENCE_S

SOURCE = """
import asyncio, contextvars, functools, sys, threading
from detent.core.effect_type import EffectFailed, Outcome

release = threading.Event()
started = threading.Event()
ended = threading.Event()
word = contextvars.ContextVar("word", default="unset")
meeting = None
number = 5

def add(a, b=1): return a + b
def thread(): return threading.get_ident()
def meet():
    meeting.wait(30)
    return threading.get_ident()
def where(): return threading.current_thread().name
async def later(a):
    await asyncio.sleep(0)
    return [a, threading.current_thread().name]
def soon(a): return later(a)
def boom(): raise KeyError("ünï")
def leave(): sys.exit(3)
async def leave_later(): sys.exit(4)
def stop(): raise StopIteration
def interrupt(): raise KeyboardInterrupt
def failed(): raise EffectFailed("the tool says no", type="tool_failure.exit")
def rest(): return later(1)
def outcome(): return Outcome({"x": 1}, raises="DONE")
def alien(): return {"a": [object()]}
def infinite(): return float("nan")
def hang(result=None):
    started.set()
    release.wait(60)
    ended.set()
    return result
def then(end):
    hang()
    return {"fail": failed, "boom": boom, "leave": leave, "alien": alien, "rest": rest}[end]()
def said(): return word.get()
def _private(): return 1
class Tool:
    @staticmethod
    def use(x): return {"used": x, "pair": (1, 2)}
    def __call__(self): return 1
    class _Hidden:
        @staticmethod
        def use(): return 1
tool = Tool()
partial = functools.partial(add, 40)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module that can be imported by name."""
    name = "effect_functions"
    (tmp_path / f"{name}.py").write_text(SOURCE, encoding="utf-8")
    (tmp_path / "effect_broken.py").write_text("raise RuntimeError('no database')\n", encoding="utf-8")
    (tmp_path / "effect_exits.py").write_text("raise SystemExit(1)\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield name
    for loaded in (name, "effect_broken", "effect_exits"):
        sys.modules.pop(loaded, None)


async def call(function: str, args: Any = None, kind: str = "irreversible") -> Any:
    given = {"function": function} if args is None else {"function": function, "args": args}
    outcome = await python.perform(Contract("a/b/1", "b", "python", kind=kind, input=given, key="python:x"))
    assert isinstance(outcome, Outcome)
    return outcome.result


async def test_a_function_is_called_by_name_with_its_arguments(module: str) -> None:
    assert await call(f"{module}:add", {"a": 1, "b": 2}) == 3
    assert await call(f"{module}:add", [1, 2]) == 3
    assert await call(f"{module}:add", {"a": "x", "b": "y"}) == "xy"
    assert await call(f"{module}:Tool.use", [7]) == {"used": 7, "pair": [1, 2]}
    assert await call(f"{module}:tool") == 1
    assert await call(f"{module}:partial", [2]) == 42
    assert await call("json:dumps", [[1]]) == "[1]"


async def test_a_plain_function_runs_off_the_loop_and_an_async_one_on_it(module: str) -> None:
    here = threading.current_thread().name
    assert await call(f"{module}:where") != here
    assert await call(f"{module}:later", [1]) == [1, here]
    assert await call(f"{module}:soon", [1]) == [1, here]


async def test_the_context_of_the_caller_is_seen_in_the_thread(module: str) -> None:
    await call(f"{module}:where")
    sys.modules[module].word.set("seen")
    assert await call(f"{module}:said") == "seen"


async def test_an_outcome_is_passed_through(module: str) -> None:
    contract = Contract("a/b/1", "b", "python", input={"function": f"{module}:outcome"})
    assert await python.perform(contract) == Outcome({"x": 1}, raises="DONE")


@pytest.mark.parametrize(
    ("function", "args", "problem"),
    [
        ("add", None, "must be like"),
        ("effect_functions.add", None, "must be like"),
        ("effect_functions:", None, "must be like"),
        ("effect_functions:add()", None, "must be like"),
        ("..x:add", None, "must be like"),
        ("effect_functions:_private", None, "private"),
        ("effect_functions:Tool._Hidden.use", None, "private"),
        ("effect_functions:add.__globals__", None, "private"),
        ("no_such_module_here:f", None, "importing `no_such_module_here` failed: ModuleNotFoundError"),
        ("effect_broken:f", None, "RuntimeError: no database"),
        ("effect_exits:f", None, "SystemExit"),
        ("effect_functions:nothing", None, "there is no `nothing`"),
        ("effect_functions:number", None, "is a int, not a function"),
        ("effect_functions:add", {"c": 1}, "does not fit these `args`"),
        ("effect_functions:add", [], "does not fit these `args`"),
        ("effect_functions:add", "text", "keyword arguments"),
    ],
)
async def test_what_cannot_be_called_is_refused(module: str, function: str, args: Any, problem: str) -> None:
    with pytest.raises(EffectFailed, match=problem) as caught:
        await call(function, args)
    assert caught.value.type == "validation_error"


async def test_what_a_function_raises_goes_on(module: str) -> None:
    with pytest.raises(KeyError, match="ünï"):
        await call(f"{module}:boom")
    with pytest.raises(EffectFailed) as caught:
        await call(f"{module}:failed")
    assert caught.value.type == "tool_failure.exit"


@pytest.mark.parametrize("name", ["leave", "leave_later", "stop", "interrupt"])
async def test_a_function_cannot_end_the_host(module: str, name: str) -> None:
    with pytest.raises(RuntimeError):
        await call(f"{module}:{name}")


@pytest.mark.parametrize("name", ["alien", "infinite"])
async def test_a_result_that_is_no_json_is_a_failure(module: str, name: str) -> None:
    with pytest.raises(EffectFailed, match="ran to its end") as caught:
        await call(f"{module}:{name}", kind="idempotent")
    assert caught.value.type == "validation_error"


async def test_an_irreversible_deed_with_an_unusable_result_may_not_be_tried_again(module: str) -> None:
    with pytest.raises(OutcomeUnknown, match=r"ran to its end, but the result\.a\[0\] is a object"):
        await call(f"{module}:alien")


async def given_up(function: str, args: Any = None) -> StillRunning:
    """A call that its caller gives up while it is at work; the module's `started` says that it is."""
    started = sys.modules[function.partition(":")[0]].started
    calling = asyncio.create_task(call(function, args))
    assert await asyncio.to_thread(started.wait, 30)
    calling.cancel()
    with pytest.raises(StillRunning, match="goes on in its thread") as caught:
        await calling
    return caught.value


async def test_a_call_that_is_given_up_goes_on_and_says_late_what_came_of_it(module: str) -> None:
    await call(f"{module}:add", [1])
    late = await given_up(f"{module}:hang", ["paid"])
    assert isinstance(late, OutcomeUnknown), "until then nobody knows"
    sys.modules[module].release.set()
    assert await late.outcome == Outcome("paid")
    assert await late.outcome == Outcome("paid"), "whoever gives up waiting may wait again"


@pytest.mark.parametrize(
    ("end", "error"),
    [
        ("fail", EffectFailed),
        ("boom", KeyError),
        ("leave", RuntimeError),
        ("alien", OutcomeUnknown),
        ("rest", OutcomeUnknown),
    ],
)
async def test_what_a_call_raises_late_is_raised_where_it_is_awaited(
    module: str, end: str, error: type[Exception]
) -> None:
    await call(f"{module}:add", [1])
    late = await given_up(f"{module}:then", [end])
    sys.modules[module].release.set()
    with pytest.raises(error):
        await late.outcome


async def test_a_result_that_comes_in_the_moment_of_the_cancel_is_not_lost(module: str) -> None:
    await call(f"{module}:add", [1])
    functions: Any = sys.modules[module]
    calling = asyncio.create_task(call(f"{module}:hang", ["paid"]))
    assert await asyncio.to_thread(functions.started.wait, 30)
    functions.release.set()
    assert functions.ended.wait(30), "without giving the loop a turn"
    calling.cancel()
    with pytest.raises(StillRunning) as caught:
        await calling
    assert await caught.value.outcome == Outcome("paid")


async def test_one_call_after_another_has_the_same_thread_and_calls_at_once_have_their_own(module: str) -> None:
    await call(f"{module}:add", [1])
    assert len({await call(f"{module}:thread") for _ in range(5)}) == 1
    functions: Any = sys.modules[module]
    functions.meeting = threading.Barrier(3)  # nobody passes until all three are there
    assert len(set(await asyncio.gather(*(call(f"{module}:meet") for _ in range(3))))) == 3


async def test_a_call_that_hangs_keeps_nobody_else_from_calling(module: str) -> None:
    await call(f"{module}:add", [1])
    hanging = asyncio.create_task(call(f"{module}:hang"))
    assert await asyncio.to_thread(sys.modules[module].started.wait, 30)
    assert await call(f"{module}:add", [1]) == 2
    sys.modules[module].release.set()
    assert await hanging is None


def test_a_forked_child_has_threads_of_its_own(module: str) -> None:
    code = (
        "import asyncio, os\n"
        "from detent.effects.thread import in_thread\n"
        "asyncio.run(in_thread(len, 'ab'))\n"
        "child = os.fork()\n"
        "assert asyncio.run(in_thread(len, 'abc')) == 3\n"
        "os._exit(0) if not child else None\n"
        "print(os.waitpid(child, 0)[1])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        env={"PYTHONPATH": ":".join(sys.path)},
    )  # fmt: skip
    assert (done.stdout, done.returncode) == ("0\n", 0), done.stderr


def test_a_thread_that_never_ends_does_not_keep_the_process_alive(module: str, tmp_path: Path) -> None:
    code = (
        "import asyncio\n"
        "from detent.core import Contract, StillRunning\n"
        "from detent.effects.python import python\n"
        "given = {'function': 'time:sleep', 'args': [300]}\n"
        "async def main():\n"
        "    try:\n"
        "        await asyncio.wait_for(python.perform(Contract('a', 'b', 'python', input=given)), 0.05)\n"
        "    except StillRunning:\n"
        "        print('late')\n"
        "asyncio.run(main())\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "late\n", "")


def test_it_declares_what_it_is() -> None:
    assert (python.name, python.declared.kind, python.declared.timeout_s) == ("python", "irreversible", 600.0)
