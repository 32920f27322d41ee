"""Changed source that a person should look at before its tests are believed.

Nobody can keep code from recognising that it is being tested, because it runs in the test's own process. But code that
does so has to say it somewhere: it names the test runner, its environment or the interpreter's insides; it answers
exactly the examples of the tests; or it makes objects that are equal to everything. What is found is shown and asked
about, never refused: there are honest reasons for each.
"""

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from detent.agents.coding.changed_expectation import list_lost_claims
from detent.agents.coding.example import (
    list_constants,
    list_examples,
    list_expected,
    list_expected_texts,
    list_numbers,
    list_tables,
    look_for_examples,
    look_for_expected,
)
from detent.agents.coding.obfuscation import Disguises, list_texts
from detent.agents.coding.yardstick import COMPARING, FUNCTIONS, list_changed_yardsticks

NAMES = {
    "pytest", "_pytest", "pluggy", "unittest", "doctest", "sitecustomize", "PYTEST_CURRENT_TEST", "PYTEST_VERSION",
    "_getframe", "_current_frames", "settrace", "setprofile", "addaudithook", "get_objects", "get_referrers", "_exit",
    "excepthook", "__builtins__", "builtins", "ctypes", "meta_path", "path_hooks", "currentframe", "detent_evidence",
    "DETENT_EVIDENCE", "DETENT_SANDBOX", "register_assert_rewrite", "setswitchinterval", "getsourcefile", "atexit",
    "__code__", "__subclasses__", "killpg", "execve", "execv", "faulthandler", "extract_stack", "walk_stack", "f_back",
    "format_stack", "getouterframes", "tb_frame", "f_locals", "f_globals", "gettrace", "findCaller", "stacklevel",
    "hypothesis", "marshal", "runpy", "zipimport", "FunctionType", "CodeType", "SourceFileLoader",
    "spec_from_file_location", "gc", "print_stack", "stack_info", "pickle", "dill", "shelve", "addsitedir",
    "tracemalloc", "spec_from_loader", "ExtensionFileLoader", "__getattribute__", "get_stack", "timeit",
    "setrecursionlimit", "getrecursionlimit", "RecursionError",
}  # fmt: skip
# Variables that say that a test is under way, or that our own checks set.
SIGNS = {
    "CI", "GITHUB_ACTIONS", "TESTING", "TEST_MODE", "UNIT_TEST", "PYTHONDONTWRITEBYTECODE", "MYPY_CACHE_DIR",
    "RUFF_CACHE_DIR", "CARGO_TARGET_DIR", "GOCACHE",
}  # fmt: skip
CLOCKS = {"time", "time_ns", "now", "today", "utcnow", "localtime", "gmtime", "ctime", "fromtimestamp", "strftime"}
DATES = {"date", "datetime", "strptime", "fromisoformat", "timestamp"}
EPOCH_MIN = 1_000_000_000  # seconds; what is larger is a date
LOOKING_THROUGH = {
    "len", "str", "repr", "sorted", "any", "all", "list", "set", "tuple", "join", "map", "filter", "iter", "max", "min",
}  # fmt: skip
TEXTS = (
    "tests/",
    "test_",
    "pytest",
    "conftest",
    "PYTEST_",
    "DETENT_",
    "sitecustomize",
    "/proc/",
    "unittest",
    "_pytest",
    "junit",
)
CALLED = {
    "stack": "inspect", "modules": "sys", "kill": "os", "argv": "sys", "orig_argv": "sys", "flags": "sys",
    "getppid": "os", "dont_write_bytecode": "sys", "monitoring": "sys", "path": "sys", "path_importer_cache": "sys",
}  # fmt: skip
RUNNING = ("exec", "eval", "compile", "__import__")
UNPACKING = {"loads", "b64decode", "b32decode", "b16decode", "b85decode", "a85decode", "decompress", "unhexlify"}
DIGESTS = {"hash", "crc32", "adler32", "hexdigest", "digest"}
VALUES = {"int", "float", "complex", "str", "bytes", "list", "tuple", "dict", "set", "frozenset"}
STARTING = re.compile(
    r"(?:subprocess|os|threading|multiprocessing|_thread|signal)\.(?:Popen|run|call|check_call|check_output|getoutput|system|popen"
    r"|fork|forkpty|posix_spawnp?|spawn\w+|Thread|Timer|Process|Pool|start_new_thread|alarm|setitimer)\b"
)
LEAVING = {"__exit__", "__aexit__"}
_COOKIE = re.compile(r"\A(?:.*\n)?[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_TURNING = re.compile("[\u202a-\u202e\u2066-\u2069]")


class Suspect(msgspec.Struct, frozen=True, omit_defaults=True):
    """A place in the changed source, and what is odd about it."""

    file: str
    line: int
    why: str


def find_suspects(
    sources: Mapping[str, str],
    before: Mapping[str, str],
    added: Mapping[str, Collection[int]],
    tests: Iterable[str],
    mended: Collection[str] = (),
) -> tuple[Suspect, ...]:
    """What is odd in the added lines of Python files; `before` are the same files as they were.

    `mended` are the functions of the tests that failed before.
    """
    texts = list(tests)
    expected: set[object] = {value for text in texts for value in list_expected(text, mended)}
    expected |= {value for text in texts for value in list_expected_texts(text, mended)}
    examples = [found for text in texts for found in list_examples(text)]
    suspects: list[Suspect] = []
    for file, text in sorted(sources.items()):
        lines = set(added.get(file, ()))
        suspects += _look_at_text(file, text, lines)
        try:
            tree = ast.parse(text)
            suspects += _look_at_file(file, tree, before.get(file, ""), lines, examples, expected)
            suspects += [Suspect(file, 1, why) for why in list_lost_claims(before.get(file, ""), tree, texts)]
            suspects += _look_for_tables(file, before.get(file, ""), text, texts)
            suspects += [
                Suspect(file, line, why)
                for line, why in list_changed_yardsticks(tree, before.get(file, ""), lines, texts)
            ]
        except (SyntaxError, ValueError, RecursionError):
            if file not in before or _words_of(before[file]):
                suspects.append(Suspect(file, 1, "it cannot be read as Python here, so nobody can tell what is in it"))
    return tuple({(s.file, s.line): s for s in suspects}.values())


def _look_at_text(file: str, text: str, lines: Collection[int]) -> Iterator[Suspect]:
    """What Python or an editor would read otherwise than it is written."""
    cookie = _COOKIE.match(text)
    if cookie and not re.match(r"(?i)utf-?8|ascii|us-ascii|latin-?1|iso-8859-1|cp1252", cookie[1].replace("_", "-")):
        yield Suspect(file, 1, f"it is written in `{cookie[1]}`, so its text is not what it looks like")
    for number, row in enumerate(text.split("\n"), 1):
        if number in lines and _TURNING.search(row):
            yield Suspect(file, number, "it has characters that change the direction of writing")


def _look_for_tables(file: str, before: str, after: str, tests: Iterable[str]) -> Iterator[Suspect]:
    """A table of constants that tests name and that is another one: they may take their cases from it."""
    was, now = list_tables(before), list_tables(after)
    for name in (name for name in was if now.get(name) != was[name]):
        if any(re.search(rf"\b{re.escape(name.partition('.')[0])}\b", text) for text in tests):
            yield Suspect(file, 1, f"the table `{name}`, which tests use, is another one")
    bounds, numbers = list_numbers(before), list_numbers(after)
    for name in (name for name in bounds if numbers.get(name) != bounds[name]):
        bound = re.compile(rf"(?:[<>]=?|\b(?:rel|abs|delta|places|rel_tol|abs_tol)=)\s*(?:\w+\.)*{re.escape(name)}\b")
        if any(bound.search(text) for text in tests):
            yield Suspect(file, 1, f"`{name}`, by which tests measure, is another number")


def _look_at_file(
    file: str,
    tree: ast.Module,
    before: str,
    lines: set[int],
    examples: list[set[object]],
    expected: Collection[object],
) -> Iterator[Suspect]:
    known, hidden = _words_of(before), Disguises(tree)
    texts = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)}
    compared = {id(one) for node in ast.walk(tree) if isinstance(node, ast.Compare) for one in ast.walk(node)}
    whole, clocks, moments = list_texts(tree, hidden), _list_clocks(tree), _list_moments(tree)
    yield from (Suspect(file, line, why) for line, why in _list_later_deeds(tree, hidden) if line in lines)
    for node in ast.walk(tree):
        span = _span(node)
        if not lines.intersection(span) or id(node) in texts:
            continue
        why = look_for_examples(node, examples, lines)
        why = why or ("" if id(node) in compared else look_for_expected(node, expected))
        if span.start in lines:
            why = (
                _look_for_runner(node, known, hidden)
                or _look_for_disguise(node, whole, hidden)
                or _look_for_equality(node)
                or _look_for_clock(node, clocks, moments)
                or _look_for_environment(node)
                or _look_for_replacement(node, hidden)
                or why
            )
        if why:
            yield Suspect(file, span.start, why)


def _list_later_deeds(tree: ast.Module, hidden: Disguises) -> Iterator[tuple[int, str]]:
    """What goes on after the file is loaded, or puts another function in place of one of its own."""
    inside = {id(inner) for node in ast.walk(tree) if isinstance(node, FUNCTIONS) for inner in ast.walk(node)}
    own = {node.name for node in tree.body if isinstance(node, FUNCTIONS)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and id(node) not in inside and hidden.name_of(node.func):
            name = hidden.name_of(node.func)
            if STARTING.fullmatch(name):
                yield node.lineno, f"it starts something when it is loaded: `{name}`"
        elif isinstance(node, ast.Global) and own.intersection(node.names):
            yield node.lineno, f"it puts another function in place of `{min(own.intersection(node.names))}`"
        elif (
            isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and _get_called(node.value) == "globals"
        ):
            yield node.lineno, "it changes the names of the file while it runs"


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


def _names_in(node: ast.AST, hidden: Disguises | None = None) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name.partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield (node.module or "").partition(".")[0]
        yield from (alias.name for alias in node.names)
        yield from (f"{node.module}.{one.name}" for one in node.names if CALLED.get(one.name) == node.module)
    elif isinstance(node, ast.Attribute):
        yield node.attr
        if isinstance(node.value, ast.Name | ast.Attribute) and node.attr in CALLED:
            name = node.value.id if isinstance(node.value, ast.Name) else node.value.attr
            module = hidden.modules.get(name, name) if hidden else name
            if module == CALLED[node.attr]:
                yield f"{module}.{node.attr}"
    elif isinstance(node, ast.MatchClass):
        yield from node.kwd_attrs
    elif isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.keyword) and node.arg:
        yield node.arg


def _look_for_runner(node: ast.AST, known: set[str], hidden: Disguises) -> str:
    for name in _names_in(node, hidden):
        if (name in NAMES or "." in name) and name not in known:
            return f"it names `{name}`, which the file did not before"
    if isinstance(node, ast.FunctionDef) and node.name.startswith("pytest_"):
        return f"`{node.name}` is called by the test runner"
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return _look_at_words(node.value)
    if isinstance(node, ast.Name) and node.id in RUNNING and node.id not in known:
        return f"it uses `{node.id}`"
    name = _get_called(node)
    if name in UNPACKING and isinstance(node, ast.Call) and any(isinstance(arg, ast.Constant) for arg in node.args):
        return "it unpacks something that is written in it and that nobody can read"
    return ""


def _look_at_words(text: str) -> str:
    word = text if text in SIGNS | NAMES | COMPARING else next((one for one in TEXTS if one in text), "")
    return f"it names `{word}`" if word and len(text) < 200 else ""


def _look_for_disguise(node: ast.AST, whole: Mapping[int, str], hidden: Disguises) -> str:
    """A name that is put together, or looked up by one that nobody can read."""
    found = _look_at_words(whole[id(node)]) if id(node) in whole else ""
    if found:
        return f"{found}, put together from pieces"
    looked_up = hidden.find_lookup(node)
    return f"it looks up {looked_up}, by a name that is not written down" if looked_up else ""


def _get_called(node: ast.AST) -> str:
    func = node.func if isinstance(node, ast.Call) else None
    return func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")


def _look_for_equality(node: ast.AST) -> str:
    """A class whose objects are equal to anything, or in which a failure is lost."""
    if isinstance(node, ast.Assign):
        names = {target.id for target in node.targets if isinstance(target, ast.Name)}
        names |= {target.attr for target in node.targets if isinstance(target, ast.Attribute)}
        found = sorted(names & (COMPARING | LEAVING))
        return f"`{found[0]}` is not written as a function" if found else ""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        returned = [item.value for item in ast.walk(node) if isinstance(item, ast.Return) and item.value is not None]
        if node.name in LEAVING and any(isinstance(one, ast.Constant) and one.value for one in returned):
            return f"`{node.name}` makes every failure inside disappear"
        if node.name in COMPARING and returned and not _compares(node):
            return f"`{node.name}` always gives the same answer"
    if isinstance(node, ast.ClassDef):
        bases = {getattr(base, "id", "") for base in node.bases} & VALUES
        own = {getattr(item, "name", "") for item in node.body} & {*COMPARING, "__len__"}
        if bases and own:
            return f"it is a `{min(bases)}` that compares itself in a way of its own"
    caught = ast.walk(node.type) if isinstance(node, ast.ExceptHandler) and node.type is not None else ()
    is_caught = any(getattr(inner, "id", "") == "AssertionError" for inner in caught)
    return "it catches `AssertionError`, which tests are decided by" if is_caught else ""


def _compares(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether an answer depends on what is asked: something is compared or called with all that was given."""
    given = {arg.arg for arg in function.args.args}
    for node in ast.walk(function):
        if isinstance(node, ast.Compare | ast.Call | ast.Attribute):
            names = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
            if given <= names:
                return True
        if isinstance(node, ast.Return) and getattr(node.value, "id", "") == "NotImplemented":
            return True
    return False


def _list_clocks(tree: ast.Module) -> set[str]:
    """Names that stand for what the clock said."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and any(_get_called(inner) in CLOCKS for inner in ast.walk(node.value)):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


def _list_moments(tree: ast.Module) -> set[str]:
    """Names that stand for a fixed date."""
    found = set()
    for node in tree.body:
        if isinstance(node, ast.Assign) and not any(_get_called(inner) in CLOCKS for inner in ast.walk(node.value)):
            late = any(isinstance(value, int | float) and value >= EPOCH_MIN for value in list_constants(node.value))
            if late or any(_get_called(inner) in DATES for inner in ast.walk(node.value)):
                found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return found


def _look_for_environment(node: ast.AST) -> str:
    """Somebody who looks through all variables instead of asking for one by its name."""
    looked: list[ast.AST] = []
    if isinstance(node, ast.For):
        looked = [node.iter]
    elif isinstance(node, ast.GeneratorExp | ast.ListComp | ast.SetComp | ast.DictComp):
        looked = [one.iter for one in node.generators]
    elif isinstance(node, ast.Attribute) and node.attr in ("items", "keys", "values"):
        looked = [node.value]
    elif isinstance(node, ast.Call) and _get_called(node) in LOOKING_THROUGH:
        looked = list(node.args)
    is_found = any("environ" in (getattr(one, "attr", ""), getattr(one, "id", "")) for one in looked)
    return "it looks through all variables of the environment" if is_found else ""


def _look_for_clock(node: ast.AST, clocks: Collection[str], moments: Collection[str]) -> str:
    """A comparison of the clock, or of a digest, with something fixed: it is one way today and another way later."""
    inner = list(ast.walk(node))
    if isinstance(node, ast.BinOp) and any(_get_called(one) in CLOCKS for one in inner):
        late = any(isinstance(value, int | float) and value >= EPOCH_MIN for value in list_constants(node))
        return "what it does depends on the date" if late else ""
    if not isinstance(node, ast.Compare):
        return ""
    numbers = [value for value in list_constants(node) if isinstance(value, int | float | str) and value not in (0, 1)]
    if not numbers and not any(getattr(one, "id", "") in moments for one in inner):
        return ""
    if any(_get_called(one) in DIGESTS for one in inner):
        return "it compares a digest with a fixed one, so nobody can read what it is about"
    asks = any(_get_called(one) in CLOCKS or getattr(one, "id", "") in clocks for one in inner)
    return "what it does depends on the date" if asks else ""


def _look_for_replacement(node: ast.AST, hidden: Disguises) -> str:
    """Something of another module that the source puts its own in place of, for everybody."""
    for target in node.targets if isinstance(node, ast.Assign) else ():
        root: ast.AST = target
        while isinstance(root, ast.Attribute):
            root = root.value
        name = root.id if isinstance(root, ast.Name) and root is not target else ""
        is_stream = isinstance(target, ast.Attribute) and target.attr in ("stdin", "stdout", "stderr")
        is_function = isinstance(node, ast.Assign) and hidden.is_function(node.value)
        if (name in hidden.modules and not is_stream) or (name in hidden.imported and is_function):
            return f"it replaces `{ast.unparse(target)}` for everybody"
    if isinstance(node, ast.Call) and _get_called(node) in ("setattr", "delattr") and node.args:
        given = node.args[0]
        if isinstance(given, ast.Name) and given.id in {*hidden.modules, *hidden.imported}:
            return f"it replaces something of `{given.id}` for everybody"
    return ""
