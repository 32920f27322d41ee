"""Offline repairs for a cell that failed: a missing import, a wrong encoding, a name that is nearly right.

A rule changes as little as it can and says what it did. It sees the code and the error, never the data; that a
repair is tried at most three times is decided by whoever runs the cell.
"""

import ast
import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

ALIASES = {
    "np": "import numpy as np",
    "pd": "import pandas as pd",
    "plt": "import matplotlib.pyplot as plt",
    "mpl": "import matplotlib as mpl",
    "sns": "import seaborn as sns",
    "sm": "import statsmodels.api as sm",
    "smf": "import statsmodels.formula.api as smf",
    "sp": "import scipy as sp",
    "stats": "from scipy import stats",
    "px": "import plotly.express as px",
    "go": "import plotly.graph_objects as go",
    "tf": "import tensorflow as tf",
    "nx": "import networkx as nx",
    "xgb": "import xgboost as xgb",
    "lgb": "import lightgbm as lgb",
    "dt": "import datetime as dt",
    "display": "from IPython.display import display",
    "Path": "from pathlib import Path",
    "Counter": "from collections import Counter",
    "defaultdict": "from collections import defaultdict",
    "datetime": "from datetime import datetime",
    "timedelta": "from datetime import timedelta",
    "partial": "from functools import partial",
    "train_test_split": "from sklearn.model_selection import train_test_split",
    "cross_val_score": "from sklearn.model_selection import cross_val_score",
    "LinearRegression": "from sklearn.linear_model import LinearRegression",
    "LogisticRegression": "from sklearn.linear_model import LogisticRegression",
    "RandomForestRegressor": "from sklearn.ensemble import RandomForestRegressor",
    "RandomForestClassifier": "from sklearn.ensemble import RandomForestClassifier",
    "StandardScaler": "from sklearn.preprocessing import StandardScaler",
    "mean_squared_error": "from sklearn.metrics import mean_squared_error",
    "accuracy_score": "from sklearn.metrics import accuracy_score",
}
MODULES = [
    "collections",
    "csv",
    "datetime",
    "functools",
    "glob",
    "io",
    "itertools",
    "json",
    "logging",
    "math",
    "operator",
    "os",
    "pathlib",
    "pickle",
    "random",
    "re",
    "shutil",
    "statistics",
    "string",
    "sys",
    "tempfile",
    "time",
    "typing",
    "uuid",
    "warnings",
    "zipfile",
    "numpy",
    "pandas",
    "scipy",
    "sklearn",
    "matplotlib",
]
ENCODINGS = ("utf-8", "gb2312", "cp1252", "latin-1")  # each stricter than the next
NAMED = {"charmap": "cp1252", "utf-8-sig": "utf-8", "utf8": "utf-8"}
NEAR = 0.75  # how alike two names must be

Failure = Mapping[str, Any]
Repair = dict[str, Any]


class CellProblem(NamedTuple):
    """A failure, taken apart."""

    code: str
    name: str  # of the exception
    message: str
    variables: tuple[str, ...]
    trace: str


def repair(failure: Failure) -> Repair | None:
    """What the first rule that applies makes of a failed cell; pure."""
    error = failure.get("error") or {}
    problem = CellProblem(
        str(failure.get("code") or ""),
        str(error.get("ename") or ""),
        str(error.get("evalue") or ""),
        tuple(str(name) for name in failure.get("variables") or {}),
        "\n".join(str(line) for line in error.get("traceback") or ()),
    )
    for rule in RULES:
        found = rule(problem)
        if found is not None and found["code"].strip() != problem.code.strip():
            return found
    return None


def _missing_import(problem: CellProblem) -> Repair | None:
    found = re.search(r"name '(\w+)' is not defined", problem.message)
    if problem.name != "NameError" or found is None:
        return None
    line = ALIASES.get(found[1]) or (f"import {found[1]}" if found[1] in MODULES else None)
    return {"code": f"{line}\n{problem.code}", "why": f"added the missing import: {line}"} if line else None


def _encoding(problem: CellProblem) -> Repair | None:
    """Reading failed on a byte: the next encoding, in the call that reads."""
    is_decode = problem.name in ("UnicodeDecodeError", "UnicodeError") or "codec can't decode" in problem.message
    if not is_decode:
        return None
    tree = _parse(problem.code)
    call = next((node for node in ast.walk(tree) if _reads(node)), None) if tree is not None else None
    if not isinstance(call, ast.Call):
        return None
    given = next((word for word in call.keywords if word.arg == "encoding"), None)
    codec = re.search(r"'([\w-]+)' codec can't decode byte (0x\w+) in position (\d+)", problem.message)
    now = NAMED.get(codec[1], codec[1]) if codec else "utf-8"
    is_wide = codec is not None and codec[2] in ("0xff", "0xfe") and codec[3] == "0"
    later = ENCODINGS[ENCODINGS.index(now) + 1 :] if now in ENCODINGS else ENCODINGS
    if not later:
        return None
    wanted = "utf-16" if is_wide and now != "utf-16" else later[0]
    if given is not None:
        code = _replace(problem.code, given.value, repr(wanted))
    else:
        code = _insert_keyword(problem.code, call, f"encoding={wanted!r}")
    return {"code": code, "why": f"the text is not {now}: read as {wanted}"}


def _near_name(problem: CellProblem) -> Repair | None:
    found = re.search(r"name '(\w+)' is not defined(?:\. Did you mean: '(\w+)'\?)?", problem.message)
    if problem.name not in ("NameError", "UnboundLocalError") or found is None:
        return None
    defined = {node.id for node in _names(problem.code) if isinstance(node.ctx, ast.Store)}
    known = [*problem.variables, *defined]
    better = _nearest(found[1], known) or (found[2] if found[2] in known else None)
    if better is None:
        return None
    places = [node for node in _names(problem.code) if node.id == found[1]]
    code = problem.code
    for node in sorted(places, key=lambda one: (one.lineno, one.col_offset), reverse=True):
        code = _replace(code, node, better)
    return {"code": code, "why": f"`{found[1]}` is not defined; `{better}` is"}


def _near_attribute(problem: CellProblem) -> Repair | None:
    found = re.search(r"has no attribute '(\w+)'.*Did you mean: '\.?(\w+)'", problem.message + " " + problem.trace)
    if problem.name != "AttributeError" or found is None or found[1] == found[2]:
        return None
    code = re.sub(rf"(?<=\.){re.escape(found[1])}\b", found[2], problem.code)
    return {"code": code, "why": f"there is no attribute `{found[1]}`; `{found[2]}` is near"}


RULES: tuple[Callable[[CellProblem], Repair | None], ...] = (_missing_import, _encoding, _near_name, _near_attribute)


def _nearest(name: str, known: Iterable[str]) -> str | None:
    """The one known name that is near enough; by letters, whatever their case."""
    names = {one.lower(): one for one in known if one != name}
    near = difflib.get_close_matches(name.lower(), names, n=2, cutoff=NEAR)
    return names[near[0]] if near else None


def _parse(code: str) -> ast.Module | None:
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _names(code: str) -> list[ast.Name]:
    tree = _parse(code)
    return [node for node in ast.walk(tree) if isinstance(node, ast.Name)] if tree is not None else []


def _reads(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if name == "open":
        return not any(isinstance(one, ast.Constant) and "b" in str(one.value) for one in node.args)
    return name in ("read_csv", "read_table", "read_text", "read_fwf")


def _offset(code: str, line: int, column: int) -> int:
    """A place of the syntax tree (lines, and columns in UTF-8 bytes) as an index into the text."""
    lines = code.split("\n")
    return sum(len(one) + 1 for one in lines[: line - 1]) + len(lines[line - 1].encode()[:column].decode())


def _replace(code: str, node: ast.expr, text: str) -> str:
    start = _offset(code, node.lineno, node.col_offset)
    end = _offset(code, node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)
    return code[:start] + text + code[end:]


def _insert_keyword(code: str, call: ast.Call, text: str) -> str:
    """A keyword put at the end of a call."""
    end = _offset(code, call.end_lineno or call.lineno, (call.end_col_offset or 1) - 1)
    before = code[:end].rstrip()
    joint = "" if before.endswith("(") else " " if before.endswith(",") else ", "
    return before + joint + text + code[end:]
