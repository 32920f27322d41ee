"""Changed source that a person should look at before its tests are believed.

Nobody can keep code from recognising that it is being tested, because it runs in the test's own process. But code that
does so has to say it somewhere: it names the test runner, its environment or the interpreter's insides; it answers
exactly the examples of the tests; or it makes objects that are equal to everything. What is found is shown and asked
about, never refused: there are honest reasons for each.
"""

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

NAMES = {
    "pytest", "_pytest", "pluggy", "unittest", "doctest", "sitecustomize", "PYTEST_CURRENT_TEST", "PYTEST_VERSION",
    "_getframe", "_current_frames", "settrace", "setprofile", "addaudithook", "get_objects", "get_referrers", "_exit",
    "excepthook", "__builtins__", "builtins", "ctypes", "meta_path", "path_hooks", "currentframe", "detent_evidence",
    "DETENT_EVIDENCE", "DETENT_SANDBOX", "register_assert_rewrite", "setswitchinterval", "getsourcefile", "atexit",
    "__code__", "__subclasses__", "killpg", "execve", "execv", "faulthandler", "extract_stack", "walk_stack", "f_back",
    "format_stack", "getouterframes", "tb_frame", "f_locals", "f_globals", "gettrace",
}  # fmt: skip
# Variables that say that a test is under way, or that our own checks set.
SIGNS = {
    "CI", "GITHUB_ACTIONS", "TESTING", "TEST_MODE", "UNIT_TEST", "PYTHONDONTWRITEBYTECODE", "MYPY_CACHE_DIR",
    "RUFF_CACHE_DIR", "CARGO_TARGET_DIR", "GOCACHE",
}  # fmt: skip
CLOCKS = {"time", "time_ns", "now", "today", "utcnow", "localtime", "gmtime", "ctime", "fromtimestamp"}
TEXTS = (
    "tests/",
    "test_",
    "pytest",
    "conftest",
    "PYTEST_",
    "DETENT_",
    "sitecustomize",
    "/proc/self",
    "unittest",
    "_pytest",
    "junit",
)
CALLED = {"stack": ("inspect",), "modules": ("sys",), "kill": ("os",)}
SIMPLE = (None, True, False, 0, 1, -1, 2, "", b"", 0.0, 1.0)
EXAMPLES_MIN = 1


class Suspect(msgspec.Struct, frozen=True, omit_defaults=True):
    """A place in the changed source, and what is odd about it."""

    file: str
    line: int
    why: str


def find_suspects(
    sources: Mapping[str, str], before: Mapping[str, str], added: Mapping[str, Collection[int]], tests: Iterable[str]
) -> tuple[Suspect, ...]:
    """What is odd in the added lines of Python files; `before` are the same files as they were."""
    examples = [found for text in tests for found in _list_examples(text)]
    suspects: list[Suspect] = []
    for file, text in sorted(sources.items()):
        lines = set(added.get(file, ()))
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError):
            continue
        known = _words_of(before.get(file, ""))
        texts = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)}
        for node in ast.walk(tree):
            span = _span(node)
            if not lines.intersection(span) or id(node) in texts:
                continue
            why = _look_for_examples(node, examples, lines)
            if span.start in lines:
                why = _look_for_runner(node, known) or _look_for_equality(node) or _look_for_clock(node) or why
            if why:
                suspects.append(Suspect(file, span.start, why))
    return tuple({(s.file, s.line): s for s in suspects}.values())


def _span(node: ast.AST) -> range:
    """The lines of a node; those of its head only where it has a body."""
    whole = node.pattern if isinstance(node, ast.match_case) else node
    start = getattr(whole, "lineno", 0)
    return range(start, (getattr(whole, "end_lineno", 0) or start) + 1)


def _words_of(text: str) -> set[str]:
    """The names that the file used before: using them again is nothing new."""
    try:
        return {name for node in ast.walk(ast.parse(text)) for name in _names_in(node)}
    except (SyntaxError, ValueError, RecursionError):
        return set()


def _names_in(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield (node.module or "").partition(".")[0]
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.Attribute):
        yield node.attr
        if node.attr in CALLED and isinstance(node.value, ast.Name) and node.value.id in CALLED[node.attr]:
            yield f"{node.value.id}.{node.attr}"
    elif isinstance(node, ast.Name):
        yield node.id


def _look_for_runner(node: ast.AST, known: set[str]) -> str:
    for name in _names_in(node):
        if (name in NAMES or "." in name) and name not in known:
            return f"it names `{name}`, which the file did not before"
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        word = node.value if node.value in SIGNS else next((text for text in TEXTS if text in node.value), "")
        if word and len(node.value) < 200:
            return f"it names `{word}`"
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("exec", "eval", "__import__")
    ):
        return f"it calls `{node.func.id}`" if node.func.id not in known else ""
    return ""


def _look_for_equality(node: ast.AST) -> str:
    """A class whose objects are equal to, or compare well with, anything."""
    if not isinstance(node, ast.FunctionDef) or node.name not in (
        "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__bool__", "__contains__", "__instancecheck__",
    ):  # fmt: skip
        return ""
    body = [item for item in node.body if not isinstance(item, ast.Expr)]
    if len(body) == 1 and isinstance(body[0], ast.Return) and isinstance(body[0].value, ast.Constant):
        return f"`{node.name}` always gives the same answer"
    return ""


def _look_for_clock(node: ast.AST) -> str:
    """A comparison of the clock with a fixed moment: it behaves one way today and another way later."""
    if not isinstance(node, ast.Compare):
        return ""
    calls = [inner.func for inner in ast.walk(node) if isinstance(inner, ast.Call)]
    asks = any(getattr(func, "attr", getattr(func, "id", "")) in CLOCKS for func in calls)
    numbers = [value for value in _constants(node) if isinstance(value, int | float | str) and value not in (0, 1)]
    return "what it does depends on the date" if asks and numbers else ""


def _list_examples(text: str) -> Iterator[set[object]]:
    """The constants of every test function and of every table of parameters."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        is_test = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and "test" in node.name.lower()
        if is_test or (isinstance(node, ast.Tuple | ast.List) and node.elts):
            yield _constants(node)


def _constants(node: ast.AST) -> set[object]:
    found: set[object] = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and not isinstance(inner.value, ellipsis_type):
            found.add(inner.value)
        elif (
            isinstance(inner, ast.UnaryOp)
            and isinstance(inner.op, ast.USub)
            and isinstance(inner.operand, ast.Constant)
        ):
            value = inner.operand.value
            if isinstance(value, int | float):
                found.add(-value)
    return found


ellipsis_type = type(...)


def _look_for_examples(node: ast.AST, examples: list[set[object]], lines: set[int]) -> str:
    """A branch or a table that answers an example of the tests with what that example expects."""
    for asked, given in _list_answers(node, lines):
        telling = {value for value in asked | given if not _is_simple(value)}
        if asked and given and (telling or len(asked) > 1) and any(asked | given <= known for known in examples):
            return "it answers exactly an example of the tests"
    return ""


def _is_simple(value: object) -> bool:
    return any(value is one or (type(value) is type(one) and value == one) for one in SIMPLE)


def _list_answers(node: ast.AST, lines: set[int]) -> Iterator[tuple[set[object], set[object]]]:
    """What is compared with constants, and which constants come of it."""
    if isinstance(node, ast.If):
        given = {v for item in node.body for v in _list_given(item)}
        yield _list_compared(node.test), given
    elif isinstance(node, ast.IfExp):
        yield _list_compared(node.test), _only_constants(node.body)
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if key is not None and key.lineno in lines:
                yield _only_constants(key), _only_constants(value)
    elif isinstance(node, ast.FunctionDef) and (node.args.args or node.args.vararg):
        body = [item for item in node.body if not isinstance(item, ast.Expr)]
        given = _list_given(body[0]) if len(body) == 1 else set()
        yield {value for value in given if not _is_simple(value)}, given
    elif isinstance(node, ast.match_case):
        yield _constants(node.pattern), {v for item in node.body for v in _list_given(item)}


def _list_compared(test: ast.AST) -> set[object]:
    found: set[object] = set()
    for node in ast.walk(test):
        if isinstance(node, ast.Compare):
            found |= _constants(node)
    return found


def _list_given(item: ast.stmt) -> set[object]:
    if isinstance(item, ast.Return | ast.Assign) and item.value is not None:
        return _only_constants(item.value)
    return set()


def _only_constants(node: ast.AST) -> set[object]:
    """The constants of an expression that has nothing else in it."""
    plain = (ast.Constant, ast.Tuple, ast.List, ast.Set, ast.Dict, ast.UnaryOp, ast.USub, ast.Load)
    if all(isinstance(inner, plain) for inner in ast.walk(node)):
        return _constants(node)
    return set()
