"""Where effects come from: a table of the built-in ones, and the entry points of installed plugins.

The table holds names, not imports, so that knowing an effect's name costs nothing.
"""

import importlib
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from detent.core.effect_type import Effect
from detent.errors import DefinitionError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "detent.effects"

BUILTIN = {
    "shell": "detent.effects.shell:shell",
    "python": "detent.effects.python:python",
    "pipeline": "detent.effects.pipeline:pipeline",
    "http": "detent.effects.http:http",
    "files": "detent.effects.files:files",
    "files.write": "detent.effects.files:write",
    "files.read": "detent.effects.files:read",
    "files.append": "detent.effects.files:append",
    "files.keep": "detent.effects.kept_file:keep",
    "notify": "detent.effects.notify:notify",
    "llm": "detent.effects.llm:llm",
}
TAKEN = {*BUILTIN, "child"}  # a child run is started by the host, which brings that effect itself


def builtin() -> dict[str, Effect]:
    """The effects that come with detent, by name."""
    return {name: _load_effect(place) for name, place in BUILTIN.items()}


def _load_effect(place: str) -> Effect:
    module, _, name = place.partition(":")
    found: Effect = getattr(importlib.import_module(module), name)
    return found


class Known(Mapping[str, Effect]):
    """Every effect there is here, each loaded when somebody asks for it.

    Installed packages are searched for plugins only when a name is not ours, or when all names are wanted: a run of our
    own effects does not pay for the search. A plugin comes before `more`.
    """

    def __init__(self, more: Mapping[str, Effect] | None = None) -> None:
        self._more = dict(more or {})
        self._loaded: dict[str, Effect] = {}
        self._plugins: dict[str, Effect] | None = None

    @property
    def _installed(self) -> dict[str, Effect]:
        if self._plugins is None:
            self._plugins = discover()
        return self._plugins

    def __getitem__(self, name: str) -> Effect:
        """The effect of that name."""
        found = self._loaded.get(name)
        if found is None:
            place = BUILTIN.get(name)
            found = _load_effect(place) if place else self._installed.get(name) or self._more[name]
            self._loaded[name] = found
        return found

    def __contains__(self, name: object) -> bool:
        """Whether there is one; does not load it."""
        return name in BUILTIN or name in self._more or name in self._installed

    def __iter__(self) -> Iterator[str]:
        """All the names, ours first."""
        return iter({**BUILTIN, **self._more, **self._installed})

    def __len__(self) -> int:
        """How many there are."""
        return len({**BUILTIN, **self._more, **self._installed})


def discover() -> dict[str, Effect]:
    """The effects of installed plugins (entry points of the group `detent.effects`), by name.

    An entry point is an Effect, or a callable that returns several. A plugin that cannot be loaded, or that takes a
    name somebody else has, is an error that names it: an effect must never be another one than its author thinks.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415  # reading packages' metadata loads a mail parser

    effects: dict[str, Effect] = {}
    owner: dict[str, str] = {}
    for point in entry_points(group=GROUP):
        for found in _fitting(point, owner):
            effects[found.name], owner[found.name] = found, _title(point)
    return effects


class Plugin(NamedTuple):
    """What an installed package offers, or why it cannot."""

    title: str
    effects: tuple[str, ...]
    problem: str


def plugins() -> list[Plugin]:
    """Every installed plugin, for those who look after the installation; a broken one is told and not raised."""
    from importlib.metadata import entry_points  # noqa: PLC0415  # see `discover`

    found: list[Plugin] = []
    owner: dict[str, str] = {}
    for point in entry_points(group=GROUP):
        try:
            names = tuple(effect.name for effect in _fitting(point, owner))
            owner.update(dict.fromkeys(names, _title(point)))
            found.append(Plugin(_title(point), names, ""))
        except DefinitionError as error:
            found.append(Plugin(_title(point), (), error.problem))
    return found


def _fitting(point: "EntryPoint", owner: Mapping[str, str]) -> list[Effect]:
    """What a plugin offers, if all of it has names that nobody else has."""
    plugin = _title(point)
    offered = _list_offered(point, plugin)
    for at, found in enumerate(offered):
        if found.name in TAKEN:
            raise DefinitionError(f"it offers the effect `{found.name}`, but detent has its own", plugin)
        if found.name in owner:
            raise DefinitionError(f"it offers the effect `{found.name}`, as does {owner[found.name]}", plugin)
        if found.name in [other.name for other in offered[:at]]:
            raise DefinitionError(f"it offers the effect `{found.name}`, as does {plugin}", plugin)
    return offered


def _title(point: "EntryPoint") -> str:
    package = f" of package `{point.dist.name}`" if point.dist is not None else ""
    return f"plugin `{point.name}`{package} ({point.value})"


def _list_offered(point: "EntryPoint", plugin: str) -> list[Effect]:
    try:
        offer: Any = point.load()
        if not isinstance(offer, Effect) and callable(offer):
            offer = offer()
        if isinstance(offer, Effect):
            return [offer]
        effects = list(offer) if isinstance(offer, Iterable) else [offer]
    except (Exception, SystemExit) as error:  # a plugin is somebody else's code: it may fail in any way
        raise DefinitionError(f"it cannot be loaded: {type(error).__name__}: {error}", plugin) from error
    for found in effects:
        if not isinstance(found, Effect):
            way_out = "an entry point must be an Effect (made with `@effect`) or a function that returns some"
            raise DefinitionError(f"it offers a {type(found).__name__}; {way_out}", plugin)
    return effects
