"""The laws of the layout, checked on whatever modules exist.

import-linter reads what is written; the fresh interpreters below see what is loaded. Each catches
what the other misses.
"""

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SRC = ROOT / "src"

MODULE_LINES_MAX = 450
FUNCTION_LINES_MAX = 60
FRONT_DOOR_MODULES_MAX = 60

# Each exception names its reason, as "module" or "module:function".
LONG_ALLOWED: dict[str, str] = {}

VAGUE = {"util", "utils", "helper", "helpers", "manager", "managers", "common", "misc"}


def words(text: str) -> set[str]:
    return set(text.split())


# Their names are in the schemas that an MCP client gets, where they have no rivals.
NAMED_BY_A_PROTOCOL = {"detent.surfaces.mcp.tool_result:Question", "detent.surfaces.mcp.tool_result:Standing"}

# `core/policy` and `host/embedded/policy`… : the folder says whose it is.
TOLD_APART_BY_FOLDER = words(
    """
    action chat cognitive_object connection contract_executor control_commands doubt dry_run error_words gateway
    help_page host host_protocol journal machine people planner policy port progress question read_commands reading
    recovery registry run_engine schema service setting settings tool_call triggers verbs words
    """
)

# Words that are past participles and nothing else; `read`, `put`, `set`, `cut`, `split` are verbs as well.
IRREGULAR = words(
    """
    begun brought caught chosen done drawn driven forgotten found frozen given gone heard held hidden kept
    known left lost made meant met paid said seen sent shown slept spoken stood taken thought told understood withdrawn
    written
    """
)
NO_PARTICIPLES = {"embed", "exceed", "feed", "heed", "need", "proceed", "red", "seed", "shed", "speed", "succeed"}
PARTICLES = words("about again anew at away back by from in into of off on onto out over so to up with")
PARTICIPLES_ALLOWED = {
    "detent.host.port:Host.settled": "a verb of the host, documented: `await host.settled(run_id)` waits for that",
    "detent.host.embedded.host:EmbeddedHost.settled": "as the port calls it",
    "detent.host.embedded.shared_host:SharedHost.settled": "as the port calls it",
    "detent.host.postgres.host:PostgresHost.settled": "as the port calls it",
    "detent.testing.world:World.done": "public in `detent.testing`: what was done under a key",
    "detent.testing.world:World.owed": "public in `detent.testing`: what is owed to a call",
}

NOT_IN_FRONT_DOOR = {"asyncio", "sqlite3", "socket", "jinja2", "yaml", "click", "rich"}
NOT_IN_CORE = NOT_IN_FRONT_DOOR | {
    "threading",
    "time",
    "random",
    "os",
    "pathlib",
    "subprocess",
    "logging",
}


def module_name(path: Path) -> str:
    parts = path.relative_to(SRC).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(path): path for path in sorted(SRC.rglob("*.py"))}
PACKAGES = [name for name, path in FILES.items() if path.name == "__init__.py"]
CORE = [name for name in FILES if name == "detent.core" or name.startswith("detent.core.")]

each_module = pytest.mark.parametrize("name", FILES)
each_package = pytest.mark.parametrize("name", PACKAGES)


def parsed(name: str) -> ast.Module:
    return ast.parse(FILES[name].read_text(encoding="utf-8"))


def loaded_by(module: str) -> set[str]:
    """The modules in a fresh interpreter after importing one."""
    code = f"import sys, {module}; getattr({module}, '__all__', None); print(*sys.modules)"  # the front door is lazy
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.fixture(scope="module")
def floor() -> set[str]:
    """What the interpreter and msgspec load by themselves."""
    return loaded_by("msgspec")


def test_imports_point_down_only() -> None:
    lint = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([lint, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_front_door_loads_no_machinery(floor: set[str]) -> None:
    loaded = loaded_by("detent") - floor
    assert not loaded & NOT_IN_FRONT_DOOR
    assert len(loaded) <= FRONT_DOOR_MODULES_MAX, sorted(loaded)


@pytest.mark.parametrize("name", CORE)
def test_a_core_module_alone_loads_nothing_impure(name: str, floor: set[str]) -> None:
    assert not (loaded_by(name) - floor) & NOT_IN_CORE


def exported(tree: ast.Module) -> list[str]:
    """The names that a package's `__init__` imports or defines, private ones left out."""
    names: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module not in (None, "__future__"):
            names += [alias.asname or alias.name for alias in node.names]
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.append(node.name)
    return [name for name in names if not name.startswith("_")]


@each_package
def test_a_package_lists_exactly_what_it_re_exports(name: str) -> None:
    package = importlib.import_module(name)
    listed = list(getattr(package, "__all__", []))
    front_door = importlib.import_module("detent.core").__all__
    assert sorted(listed) == sorted(front_door if name == "detent" else exported(parsed(name)))
    assert [missing for missing in listed if not hasattr(package, missing)] == []


@each_package
def test_no_module_hides_behind_a_re_exported_name(name: str) -> None:
    own = {path.stem for path in FILES[name].parent.iterdir()}
    hidden = own & set(exported(parsed(name)))
    assert not hidden, "a module of that name becomes unreachable through the package"


@each_module
def test_a_module_opens_with_a_sentence(name: str) -> None:
    docstring = ast.get_docstring(parsed(name))
    assert docstring, f"{name} has no docstring"
    first_line = docstring.splitlines()[0]
    assert re.fullmatch(r"([^\sa-z]|detent\b).*[.!?]", first_line), f"not a sentence: {first_line!r}"


@each_module
def test_a_module_is_named_by_a_noun_with_a_reason_to_exist(name: str) -> None:
    parts = name.split(".")
    assert not VAGUE & set(parts)
    assert [part for part in parts if part.startswith("_") and part != "__main__"] == []


def public_classes() -> Iterator[tuple[str, str]]:
    for name in FILES:
        for node in ast.walk(parsed(name)):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                yield node.name, name


def test_a_public_class_name_stands_once() -> None:
    places: dict[str, list[str]] = {}
    for name, module in public_classes():
        if f"{module}:{name}" not in NAMED_BY_A_PROTOCOL:
            places.setdefault(name, []).append(module)
    assert not {name: modules for name, modules in places.items() if len(modules) > 1}
    known = {f"{module}:{name}" for name, module in public_classes()}
    assert not set(NAMED_BY_A_PROTOCOL) - known, "no longer there: take them off the list"


def test_a_module_name_stands_twice_only_where_the_folder_makes_it_plain() -> None:
    modules = [name.rpartition(".")[2] for name in FILES if name not in PACKAGES]
    twice = {name for name in modules if modules.count(name) > 1}
    assert not twice - TOLD_APART_BY_FOLDER
    assert not TOLD_APART_BY_FOLDER - twice, "no longer twice: take them off the list"


def is_participle(name: str) -> bool:
    """`told`, `_asked_by`: a word that says how things are, where a verb would say what is done."""
    first, *rest = name.strip("_").split("_")
    is_past = first in IRREGULAR or (first.endswith("ed") and first not in NO_PARTICIPLES)
    return is_past and (not rest or rest[0] in PARTICLES)


def participles() -> Iterator[str]:
    """Functions and methods; what a function defines inside itself and properties may be named by a state."""
    for name in FILES:
        tree = parsed(name)
        holders: list[ast.Module | ast.ClassDef] = [tree]
        holders += [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        for holder in holders:
            for node in holder.body:
                if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or not is_participle(node.name):
                    continue
                if not any("property" in ast.unparse(one) for one in node.decorator_list):
                    inside = f"{holder.name}." if isinstance(holder, ast.ClassDef) else ""
                    yield f"{name}:{inside}{node.name}"


def test_functions_are_verbs() -> None:
    found = set(participles())
    assert not found - set(PARTICIPLES_ALLOWED), "say what it does: `render_note`, not `told`"
    assert not set(PARTICIPLES_ALLOWED) - found, "no longer there: take them off the list"


def too_long() -> Iterator[tuple[str, int]]:
    for name, path in FILES.items():
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > MODULE_LINES_MAX:
            yield name, lines
        for node in ast.walk(parsed(name)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LINES_MAX:
                    yield f"{name}:{node.name}", lines


def test_modules_and_functions_fit_on_a_few_screens() -> None:
    found = dict(too_long())
    excess = {what: lines for what, lines in found.items() if what not in LONG_ALLOWED}
    assert not excess, f"more than {MODULE_LINES_MAX} (module) or {FUNCTION_LINES_MAX} (function) lines"
    assert not set(LONG_ALLOWED) - set(found), "no longer long: take them off the list"


@pytest.mark.parametrize("path", sorted((ROOT / "requirements").glob("*.txt")), ids=lambda path: path.name)
def test_a_lock_is_hashed_and_names_no_address(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert "://" not in text
    assert text.count("==") > 0
    assert all("--hash=sha256:" in pin for pin in re.split(r"\n(?=\w)", text)[1:])


def code_map() -> Iterator[tuple[str, list[str]]]:
    """The rows of ARCHITECTURE.md: a folder or file of the package, and the modules to begin with."""
    for line in (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) == 4:
            yield cells[0].strip("`"), re.findall(r"`(\w+)`", cells[3])


def test_the_code_map_names_what_is_there_and_every_package() -> None:
    rows = dict(code_map())
    detent = SRC / "detent"
    assert not [place for place in rows if not (detent / place).exists()], "named, and not there"
    unknown = [
        f"{place}{module}"
        for place, modules in rows.items()
        for module in modules
        if not any((detent / place / name).exists() for name in (f"{module}.py", f"{module}/__init__.py"))
    ]
    assert not unknown, "to be read first, and not there"
    packages = {f"{FILES[name].parent.relative_to(detent)}/" for name in PACKAGES} - {"./", "agents/"}
    assert not packages - set(rows), "packages that the map of ARCHITECTURE.md does not name"


def test_paths_in_the_architecture_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w/]+/[\w.]+\.\w+)`", text))
    assert named
    assert not [path for path in sorted(named) if not any((base / path).exists() for base in (ROOT, SRC / "detent"))]


@pytest.mark.parametrize("walk", sorted((ROOT / "docs" / "architecture").glob("*.md")), ids=lambda path: path.stem)
def test_a_walk_goes_through_files_and_functions_that_are_there(walk: Path) -> None:
    places = [path for base in ("src/detent", "web/src") for path in (ROOT / base).rglob("*.[pj][ys]")]
    for named, function in re.findall(r"`([\w/]+\.(?:py|js))`(?: `(\w+)`)?", walk.read_text(encoding="utf-8")):
        found = [path for path in places if f"/{path.relative_to(ROOT)}".endswith(f"/{named}")]
        assert found, f"{named} is not there"
        said = re.compile(rf"\b(?:def|class|function|const) {function}\b")
        assert not function or any(said.search(path.read_text(encoding="utf-8")) for path in found), (named, function)
