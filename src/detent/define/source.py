"""A definition file and what it gives: a machine, the effects that come with it, and where both were found.

`FILE.py`, `FILE.py:NAME`, `FILE.json` or a workflow, `FILE.yaml`; one reader per suffix. Loading a Python file runs it,
with its folder first on `sys.path`, as `python FILE.py` would; the folder stays there so that the `python` effect finds
the modules beside it. For a workflow the folder is last: it must not hide what is installed.
"""

import hashlib
import importlib.util
import json
import sys
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from detent.core.contract import CONTRACT
from detent.core.effect_type import Effect
from detent.core.machine import Machine, did_you_mean
from detent.define.irreversible_call import is_irreversible
from detent.define.proof import MachineProof, prove, what
from detent.define.repeated_call import ADVICE, constant_calls, describe
from detent.define.standstill import WAY_OUT, describe_trapped, find_standstill
from detent.errors import DefinitionError

if TYPE_CHECKING:
    from detent.define.trigger import Trigger

SOURCE_MAX = 4 * 1024 * 1024


class Definition(NamedTuple):
    """What a file gives; `source` finds the same effects again in a later process."""

    machine: Machine
    effects: dict[str, Effect]
    source: str
    warnings: tuple[str, ...] = ()
    input: Mapping[str, Any] = {}  # JSON Schema of what a run must be given; empty: anything
    proof: MachineProof = MachineProof()  # where warnings were wanted
    advice: tuple[str, ...] = ()  # what is right as it stands, and worth knowing
    triggers: "tuple[Trigger, ...]" = ()  # what starts its runs, once somebody has armed it
    tools: Mapping[str, str] = {}  # the tool of the file that an action calls, by the action's id


Reader = Callable[[Path, str], Definition]  # the file, and the name behind the colon
WORKFLOWS = (".yaml", ".yml", ".lobster")


def load(
    spec: str | Path, known_effects: Iterable[str] = (), *, warn: bool = True, fragment: bool = False
) -> Definition:
    """Read a definition from `FILE` or `FILE:NAME`; with `known_effects`, any other tool of a workflow is a problem.

    `warn=False` is for those who do not show warnings: what is wrong is still an error. A `fragment` of a workflow
    begins at its first state, and ends at states that it does not have.
    """
    path, name = _split(str(spec))
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        known = ", ".join(READERS)
        raise DefinitionError(f"a definition is a file of one of the kinds {known}", str(path))
    _check_file(path)
    if path.suffix.lower() in WORKFLOWS or _is_list_of_steps(path):
        return _from_yaml(path.resolve(), name, known_effects, warn=warn, fragment=fragment)
    if fragment:
        raise DefinitionError("only a workflow file can be a fragment", str(path))
    definition = reader(path.resolve(), name)
    return _prove(definition, known_effects) if warn else definition


def _is_list_of_steps(path: Path) -> bool:
    """Whether a JSON file holds steps instead of a machine."""
    if path.suffix.lower() != ".json":
        return False
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and "steps" in found and "states" not in found


def _prove(definition: Definition, known_effects: Iterable[str]) -> Definition:
    """What holds of a machine that is written in Python or JSON."""
    known, own = known_effects if isinstance(known_effects, Mapping) else {}, definition.effects
    proof = prove(definition.machine, lambda one: is_irreversible(one, own if one.effect in own else known))
    told = [f"{definition.source}: warning: {what(hole)}: {' → '.join(hole.states)}" for hole in proof.holes]
    same = list(constant_calls(definition.machine, ChainMap(dict(own), cast("dict[str, Effect]", known))))
    still = find_standstill(definition.machine)
    told += [f"{definition.source}: warning: {describe_trapped(state)}; {WAY_OUT}" for state in still.no_way_out]
    proof = proof._replace(standstill=still, same=tuple(action.id for action in same))
    advice = tuple(f"{definition.source}: advice: {describe(action)}; {ADVICE}" for action in same)
    return definition._replace(warnings=tuple(told), proof=proof, advice=advice)


def find_effects(source: str, warn: Callable[[str], object] = lambda _: None) -> dict[str, Effect]:
    """The effects of a run begun by an earlier process; none, and a warning, when its file is gone or broken now."""
    try:
        path, _ = _split(source)
        if path.suffix.lower() in WORKFLOWS:
            _look_beside(path.resolve())
        if path.suffix.lower() != ".py":
            return {}
        _check_file(path)
        return _effects(path.resolve(), _module(path.resolve()))
    except DefinitionError as error:
        warn(f"the effects of this run cannot be loaded: {error}")
        return {}


def _split(spec: str) -> tuple[Path, str]:
    file, colon, name = spec.rpartition(":")
    if colon and file and name.isidentifier() and not Path(spec).exists():
        return Path(file), name
    return Path(spec), ""


def _check_file(path: Path) -> None:
    try:
        if path.is_dir():
            raise DefinitionError("this is a folder; name the file in it", str(path))
        if not path.exists():
            raise DefinitionError("there is no such file", str(path))
        if not path.is_file():
            raise DefinitionError("this is not a plain file", str(path))
        if path.stat().st_size > SOURCE_MAX:
            raise DefinitionError(f"the file has more than {SOURCE_MAX:,} bytes", str(path))
        with path.open("rb"):
            pass
    except (OSError, ValueError) as error:
        raise DefinitionError(f"it cannot be read: {getattr(error, 'strerror', None) or error}", str(path)) from None


def _from_python(path: Path, name: str) -> Definition:
    module = _module(path)
    found = {key: value for key, value in vars(module).items() if isinstance(value, Machine) and value is not CONTRACT}
    if name:
        if name not in found:
            names = ", ".join(found) or "none"
            raise DefinitionError(
                f"there is no machine `{name}` in it{did_you_mean(name, found)}; found: {names}", str(path)
            )
        return Definition(found[name], _effects(path, module), f"{path}:{name}")
    distinct = {machine.digest: key for key, machine in found.items()}
    if not distinct:
        raise DefinitionError(
            "there is no machine in it; give it one, `NAME = Machine(…)`, at the top level", str(path)
        )
    if len(distinct) > 1:
        way_out = f"name one, as in {path.name}:{next(iter(found))}"
        raise DefinitionError(f"there are several machines in it: {', '.join(found)}; {way_out}", str(path))
    return Definition(next(iter(found.values())), _effects(path, module), str(path))


def _from_json(path: Path, name: str) -> Definition:
    if name:
        raise DefinitionError("a JSON file holds one machine and no names", f"{path}:{name}")
    try:
        return Definition(Machine.from_json(path.read_bytes()), {}, str(path))
    except (DefinitionError, UnicodeDecodeError) as error:
        raise DefinitionError(str(error), str(path)) from None


def _from_yaml(
    path: Path, name: str, known_effects: Iterable[str] = (), *, warn: bool = True, fragment: bool = False
) -> Definition:
    from detent.define.workflow import load_workflow  # noqa: PLC0415 - the YAML parser is for those who need it

    if name:
        raise DefinitionError("a workflow file holds one machine and no names", f"{path}:{name}")
    workflow = load_workflow(path, known_effects=known_effects, warn=warn, fragment=fragment)
    _look_beside(path)
    warnings = tuple(str(warning) for warning in workflow.warnings)
    advice = tuple(str(one) for one in workflow.advice)
    return Definition(
        workflow.machine,
        {},
        str(path),
        warnings,
        workflow.input,
        workflow.proof,
        advice,
        workflow.triggers,
        workflow.tools,
    )


def _look_beside(path: Path) -> None:
    if (folder := str(path.parent)) not in sys.path:
        sys.path.append(folder)


READERS: dict[str, Reader] = {".py": _from_python, ".json": _from_json, ".yaml": _from_yaml, ".yml": _from_yaml,
                              ".lobster": _from_yaml}  # fmt: skip


class _Loader(SourceFileLoader):
    """Compiles what is in the file now: a cached bytecode file may be of the same second and size, but another text."""

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002
        return self.source_to_code(self.get_data(self.path), self.path)


_loaded: dict[Path, tuple[tuple[int, int], ModuleType]] = {}


def _module(path: Path) -> ModuleType:
    """The file, executed once for each of its versions."""
    stat = path.stat()
    version = stat.st_mtime_ns, stat.st_size
    if path in _loaded and _loaded[path][0] == version:
        return _loaded[path][1]
    name = f"detent_definition_{hashlib.sha256(str(path).encode(errors='surrogateescape')).hexdigest()[:12]}"
    if (folder := str(path.parent)) not in sys.path:
        sys.path.insert(0, folder)
    loader = _Loader(name, str(path))
    module = importlib.util.module_from_spec(ModuleSpec(name, loader, origin=str(path)))
    module.__file__ = str(path)
    before = sys.modules.get(name)
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except (Exception, SystemExit) as error:  # the file is somebody else's code: it may fail in any way
        sys.modules.pop(name)
        if before is not None:
            sys.modules[name] = before
        raise _explain_broken(path, error) from error
    _loaded[path] = version, module
    return module


def _explain_broken(path: Path, error: BaseException) -> DefinitionError:
    """What went wrong while the file was executed, with the line of the file it came from."""
    if isinstance(error, SyntaxError) and error.lineno:
        where = f"{error.filename or path}:{error.lineno}:{error.offset or 1}"
        return DefinitionError(f"syntax error: {error.msg}", where)
    where, trail = str(path), error.__traceback__
    while trail is not None:
        if trail.tb_frame.f_code.co_filename == str(path):
            where = f"{path}:{trail.tb_lineno}"
        trail = trail.tb_next
    if isinstance(error, DefinitionError):
        return DefinitionError(str(error), where)
    problem = f"it exits with {error.code!r}" if isinstance(error, SystemExit) else f"{type(error).__name__}: {error}"
    return DefinitionError(f"{problem}; the file runs when it is loaded, so this must not happen", where)


def _effects(path: Path, module: ModuleType) -> dict[str, Effect]:
    effects: dict[str, Effect] = {}
    values: dict[str, Any] = vars(module)
    for key, value in values.items():
        if isinstance(value, Effect) and effects.setdefault(value.name, value) is not value:
            raise DefinitionError(f"two effects are called `{value.name}`; the second is `{key}`", str(path))
    return effects
