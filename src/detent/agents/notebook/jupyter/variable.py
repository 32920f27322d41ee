"""The user's variables as the host knows them: what the probe inside the kernel reported, kept up to date.

A look costs no round trip of its own: it rides as a user expression on the cell's request. It reports changes only; a
number on both sides tells when the two have lost each other, and then everything is sent again.
"""

import json
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import msgspec

from detent.agents.notebook.jupyter.output_sanitiser import plain
from detent.agents.notebook.jupyter.variable_inspector import MIME

MODULE = "_detent_probe"
DETAIL, DEED, MEMORY = f"{MODULE}_detail", f"{MODULE}_deed", f"{MODULE}_memory"
LABEL = "detent"
BUDGET_S = 0.25
# A cell with one of these words may change variables that it does not name: then all are looked at again.
WILD = frozenset({"exec", "eval", "globals", "locals", "vars", "setattr", "get_ipython", "run", "gc"})

_BOOTSTRAP = """
import sys, types
WAS_THERE = PROBE + "_deed" in sys.modules
for name, text in SOURCES.items():
    if WAS_THERE and name == PROBE + "_deed":
        continue
    module = types.ModuleType(name)
    exec(compile(text, "<" + name + ">", "exec"), module.__dict__)
    sys.modules[name] = module
probe = sys.modules[PROBE]
probe.summary = sys.modules[PROBE + "_detail"].summary
probe.install()
if not WAS_THERE:  # an audit hook stays for ever: one is enough
    sys.modules[PROBE + "_deed"].install()
"""
_WORD = re.compile(r"[^\W\d]\w*")


class Variable(msgspec.Struct, frozen=True):
    """A variable: `value` is the JSON value itself, or one line such as `DataFrame(1460×79)` that stands for it."""

    type: str
    value: Any = None
    is_whole: bool = False
    detail: Any = None  # what the strategy asked for this variable said; None: none was asked for


def installation() -> str:
    """Code that places the probe into a kernel and leaves no name behind."""
    folder = files("detent.agents.notebook.jupyter")
    parts = {
        MODULE: "variable_inspector.py",
        DETAIL: "variable_detail.py",
        DEED: "audit_hook.py",
        MEMORY: "variable_file.py",
    }
    sources = {name: (folder / file).read_text(encoding="utf-8") for name, file in parts.items()}
    return f"exec({_BOOTSTRAP!a}, {{'SOURCES': {sources!a}, 'PROBE': {MODULE!a}}})"


class VariableTable:
    """The variables of one kernel process."""

    def __init__(self) -> None:
        self._rows: dict[str, Variable] = {}
        self._details: dict[str, Any] = {}
        self._seq = 0
        self.is_complete = True  # whether the last look saw everything
        self.deeds: tuple[str, ...] = ()  # what was seen to touch the world since the look before

    def question(self, code: str, strategies: Mapping[str, str], expressions: Mapping[str, str]) -> dict[str, str]:
        """The user expression that looks, to be sent along with a cell."""
        asked: dict[str, Any] = {"seq": self._seq, "budget_s": BUDGET_S}
        words = list_mentioned(code)
        asked["mentioned"] = [name for name in words if name in self._rows or name in strategies]
        if words & WILD:
            asked["is_wild"] = True
        if strategies:
            asked["strategies"] = dict(strategies)
        if expressions:
            asked["expressions"] = dict(expressions)
        return {LABEL: f"__import__('sys').modules[{MODULE!r}].look({json.dumps(asked)!a})"}

    def take_reply(self, reply: Mapping[str, Any] | None) -> dict[str, dict[str, Any]] | None:
        """Take what a reply says about variables; the expressions' values, or None if it says nothing."""
        try:
            answer = json.loads((reply or {})["user_expressions"][LABEL]["data"][MIME])
        except (KeyError, TypeError, ValueError):
            return None
        if answer.get("is_full"):
            self._rows.clear()
        for name in answer["gone"]:
            self._rows.pop(plain(name), None)
        for name, (kind, value, is_whole) in answer["changed"].items():
            self._rows[plain(name)] = Variable(plain(kind), plain(value), is_whole)
        self._details = {plain(name): plain(detail) for name, detail in answer.get("details", {}).items()}
        self._seq = answer["seq"]
        self.is_complete = answer["is_complete"]
        self.deeds = tuple(str(plain(deed)) for deed in answer.get("deeds", ()))
        found: dict[str, dict[str, Any]] = plain(answer.get("expressions", {}))
        return found

    def forget(self) -> None:
        """Nobody knows any more what is there; the next look reports everything."""
        self._rows.clear()
        self._details.clear()
        self._seq = 0
        self.is_complete = False

    def all(self) -> dict[str, Variable]:
        """Every variable, with the details of the last look."""
        rows = dict(self._rows)
        for name, detail in self._details.items():
            row = rows.get(name, Variable("object"))
            rows[name] = msgspec.structs.replace(row, detail=detail)
        return rows


def ask_memory(call: str) -> dict[str, str]:
    """The user expression that writes the variables to a file, or reads them from one."""
    return {LABEL: f"__import__('sys').modules[{MEMORY!r}].{call}"}


def read_answer(reply: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What the kernel said to such an expression; None: nothing that can be read."""
    try:
        answer = plain(json.loads((reply or {})["user_expressions"][LABEL]["data"][MIME]))
    except (KeyError, TypeError, ValueError):
        return None
    return answer if isinstance(answer, dict) else None


def list_mentioned(code: str) -> set[str]:
    """Every word of a cell: the names its syntax tree stores or mentions, and also those inside magics and texts."""
    return set(_WORD.findall(code))
