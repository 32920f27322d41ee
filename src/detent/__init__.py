"""detent: a durable state-machine runtime for AI agents.

The map, from the ground up; imports point down only:

    errors      whose move it is when something is wrong
    core        pure: Machine, Run, Contract, and advance(machine, run, event) -> (run, commands, taken)
    define      ways to write and to see a Machine
    effects     the doors to the outside: shell, python, http, files, child
    host        drives runs: journal, timers, recovery; the seven verbs
    home        `detent.open`: a host with everything it needs
    guarding    `detent.guard`: functions of your own program, called under contracts
    agents      notebook, coding, assistant: machines with their views
    surfaces    command line, server, MCP: parse, call one verb, render
    testing     for your own tests: scripted effects, virtual clock, crash-anywhere

This front door gives the core's nouns, `open` and `guard`, and imports no host and no I/O. It opens on first use: the
command line lives behind it too, and `detent --help` must not pay for the engine.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from detent.core import *  # noqa: F403
    from detent.core import __all__ as __all__
    from detent.errors import AlreadyDone as AlreadyDone
    from detent.errors import InDoubt as InDoubt
    from detent.errors import Rejected as Rejected
    from detent.errors import Waiting as Waiting
    from detent.guarding import guard as guard
    from detent.home import open as open  # left out of `__all__`: `from detent import *` must not hide Python's own

_CALL_ERRORS = ("AlreadyDone", "InDoubt", "Rejected", "Waiting")  # what a call of a guarded function raises


def __getattr__(name: str) -> Any:
    if name == "open":
        return import_module("detent.home").open
    if name == "guard":
        return import_module("detent.guarding").guard
    if name in _CALL_ERRORS:
        return getattr(import_module("detent.errors"), name)
    core = import_module("detent.core")
    if name in ("__all__", *core.__all__):
        return getattr(core, name)
    close = import_module("difflib").get_close_matches(name, [one for one in __dir__() if one[0] != "_"], 1)
    raise AttributeError(f"detent has no `{name}`" + (f"; did you mean `{close[0]}`?" if close else ""))


def __dir__() -> list[str]:
    return [*globals(), "guard", "open", *_CALL_ERRORS, *import_module("detent.core").__all__]
