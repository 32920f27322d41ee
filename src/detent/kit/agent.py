"""Agents are guests: each is one value that names its parts, and is found by its name.

The parts are named by text, `module:name`, so that knowing of an agent imports nothing of it. Those that come with
detent are listed here. Those of other packages are found by their entry point in the group `detent.agents`; package
metadata is read only when somebody asks for a command or an agent that is not known yet, or for the list of commands
where a package has such an entry point.

A run belongs to an agent by its source, `agent:NAME`, which is written here and nowhere else, and only if no other run
started it. The name of a machine says nothing: anybody may call a workflow `coding`.
"""

import functools
import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from detent.errors import DefinitionError, DetentError, Refused

if TYPE_CHECKING:
    from detent.host.port import Reader

GROUP = "detent.agents"
MARK = "agent:"
PARTS = (
    "machines",
    "effects",
    "projection",
    "program",
    "manner",
    "routes",
    "words",
    "errors",
    "documents",
)  # named by `module:name`
BUILT_IN = ("notebook", "coding", "assistant")


class Surroundings(NamedTuple):
    """What an agent's effects are made for: one host, as long as it is open."""

    home: Path
    closing: AsyncExitStack  # what is put here is closed with the host
    reader: "Reader | None" = None


class RunDocument(NamedTuple):
    """Something that a run has made, in a form that other programs read."""

    mime: str
    write: "Callable[[Reader, str], str]"  # (reader, run id) -> its text


class Agent(NamedTuple):
    """What an agent brings; every part may be missing but the name. `module:name` is imported when it is used."""

    name: str
    about: str = ""
    machines: str = ""  # the machines its runs are of: a sequence
    effects: str = ""  # (surroundings) -> effects by name
    projection: str = ""  # a class: what it makes of a run's entries
    commands: Mapping[str, str] = {}  # its commands by name, each with what it does, in one line
    program: str = ""  # the same as click commands, by name
    manner: str = ""  # a `Manner`: how its runs are spoken of on the terminal
    routes: str = ""  # its addresses of the HTTP API: a sequence of Route
    view: str = ""  # the page's view of its runs: one that the page has, or `package:FILE.js`, a module of its own
    words: str = ""  # Chinese sentences, by the English ones
    is_local: bool = False  # its effects work on what one machine has: kernels, copies of a project, its own files
    errors: str = ""  # the same of what it raises: `{}` for each value in English, `{0}`, `{1}` in Chinese
    documents: str = ""  # what a run has made, for other programs to read: `RunDocument` by its name

    def load(self, part: str) -> Any:
        """Import one of the parts; None when the agent has none of that kind."""
        said: str = getattr(self, part)
        if not said:
            return None
        module, _, name = said.partition(":")
        try:
            return getattr(importlib.import_module(module), name)
        except Exception as error:  # a package of somebody else's may fail in any way
            raise DefinitionError(f"agent `{self.name}` has no {part} `{said}`: {error}") from error

    def view_file(self) -> Path | None:
        """The module of the page's view that the agent brings; None when it has none, or one that the page has."""
        package, _, file = self.view.partition(":")
        if not file:
            return None
        try:
            found = Path(str(importlib.import_module(package).__file__)).parent / file
        except Exception as error:
            raise DefinitionError(f"agent `{self.name}` has no view `{self.view}`: {error}") from error
        return found if found.is_file() else None


def of_agent(name: str, file: str = "") -> str:
    """The source of an agent's run; `file` names a definition whose tools it was given."""
    return f"{MARK}{name} {file}".rstrip()


def owner(source: str, parent: str = "") -> str:
    """The name of the agent that a run belongs to; empty for a run of nobody's, or one that another run started."""
    return source.removeprefix(MARK).partition(" ")[0] if source.startswith(MARK) and not parent else ""


def find_agent(name: str) -> Agent:
    """The agent of that name."""
    if name in BUILT_IN:
        return _manifest(f"detent.agents.manifests:{name.upper()}")
    found = _list_installed().get(name)
    if found is None:
        raise Refused(f"agent `{name}` is not installed here; its runs are kept as they are until it is")
    return _manifest(found)


def agent_of(source: str, parent: str = "") -> Agent | None:
    """The agent that a run belongs to; None for a run of nobody's, or whose agent is not here or broken."""
    name = owner(source, parent)
    try:
        return find_agent(name) if name else None
    except DetentError:
        return None


def built_in_agents() -> Iterator[Agent]:
    """Those that come with detent."""
    return (find_agent(name) for name in BUILT_IN)


def all_agents() -> Iterator[Agent]:
    """Every agent there is."""
    yield from built_in_agents()
    yield from installed_agents()


def load_all(part: str) -> Iterator[Any]:
    """A part of every agent that has it, those that come with detent first; one that is broken is left out."""
    for agent in all_agents():
        try:
            found = agent.load(part)
        except DefinitionError:
            if agent.name in BUILT_IN:
                raise
            continue
        if found is not None:
            yield found


def installed_agents() -> Iterator[Agent]:
    """Those of other packages; one that is broken is left out, and `detent doctor` says why."""
    for name in _list_installed():
        if name not in BUILT_IN:
            try:
                yield find_agent(name)
            except DefinitionError:
                continue


def broken_agents() -> Mapping[str, str]:
    """The agents of other packages of which some part cannot be used, each with the reason."""
    found = {}
    for name in sorted({*_list_installed()} - {*BUILT_IN}):
        try:
            agent = find_agent(name)
            for part in PARTS:
                agent.load(part)
        except DefinitionError as error:
            found[name] = str(error)
    return found


def guest_commands() -> dict[str, str]:
    """The commands of other packages' agents, each with what it does; the first of a name counts."""
    if not any(_may_have_guests(place or ".") for place in sys.path):
        return {}
    return {name: about for agent in reversed([*installed_agents()]) for name, about in agent.commands.items()}


def _may_have_guests(place: str) -> bool:
    """Whether a package in this place may bring an agent; importing what reads metadata takes longer than `--help`."""
    try:
        found = [entry.path for entry in os.scandir(place) if entry.name.endswith((".dist-info", ".egg-info"))]
    except NotADirectoryError:
        return True  # an archive
    except OSError:
        return False
    for path in found:
        try:
            said = Path(path, "entry_points.txt").read_bytes()
        except OSError:
            continue  # it has none
        if GROUP.encode() in said and not os.path.basename(path).startswith("detent-"):
            return True
    return False


@functools.cache
def _list_installed() -> Mapping[str, str]:
    from importlib.metadata import entry_points  # reads the metadata of every package

    return {point.name: point.value for point in entry_points(group=GROUP)}


@functools.cache
def _manifest(value: str) -> Agent:
    module, _, name = value.partition(":")
    try:
        found = getattr(importlib.import_module(module), name)
    except Exception as error:  # a package of somebody else's may fail in any way
        raise DefinitionError(f"agent `{value}` cannot be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(found, Agent):
        raise DefinitionError(f"agent `{value}` is no Agent")
    return found
