"""A home: the folder of a journal, and how a program opens a host on it."""

import os
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from detent.errors import DefinitionError, Refused
from detent.host.address import find_address, find_home
from detent.kit.policy_file import HOME, HOME_VARIABLE, find_policy, guarded_files

if TYPE_CHECKING:
    from detent.core.effect_type import Effect
    from detent.core.policy import Policy
    from detent.host.embedded.shared_host import SharedHost
    from detent.host.port import OpenHost

FilePath = str | os.PathLike[str]


def open(
    home: FilePath | None = None,
    effects: "Iterable[Effect] | Mapping[str, Effect]" = (),
    *,
    policy: "Policy | FilePath | None" = None,
    notify: str = "notify",
) -> "SharedHost":
    """Open a host on a journal: `async with detent.open(home=".detent", effects=[pay]) as host:`.

    Several processes may open the same home. The first one holds the journal and calls the effects; the others hand
    their verbs to it, and one of them takes over when it goes away. `detent approve` in another terminal therefore
    works while your program runs, and the other way round.

    Args:
        home: The folder of the journal, made if need be, or `postgresql://…`. By default the one that the command line
            uses: `$DETENT_HOME`, else `.detent` in the current folder.
        effects: Your own effects, made with `@effect`. Those that come with detent and those of installed plugins are
            there anyway; one of yours with the same name comes first.
        policy: A `Policy`, or a policy file. By default the one that the command line uses: `$DETENT_POLICY`, else
            `detent.policy.yaml` beside the home, else none. It holds while this process holds the journal.
        notify: The effect that delivers notifications.

    Returns:
        A host. Its verbs work inside `async with`.

    Raises:
        Refused: An argument has the wrong type, or the home cannot be a folder.
        DefinitionError: An effect or the policy file is wrong.
    """
    from detent.core.policy import Policy
    from detent.host.embedded.shared_host import open_host
    from detent.kit.effect_source import Sources
    from detent.kit.people_file import TOKEN_VARIABLE, PeopleFile

    folder = resolve_home(home)
    known = _collect_effects(effects)
    if notify not in known:
        raise DefinitionError(f"there is no effect `{notify}` to notify with")
    sources = Sources(folder, lambda _: None)
    rules = _policy(folder, policy)
    guarded = guarded_files(folder, "" if policy is None or isinstance(policy, Policy) else str(policy))
    people = PeopleFile(folder, os.environ.get(TOKEN_VARIABLE, ""))
    given: tuple[Any, ...] = (folder, known, sources.find, rules, notify, "a Python program")
    if find_address(folder):
        opened = _open_in_database(sources, *given, guarded=guarded, people=people)
        return cast("SharedHost", opened)  # with the same verbs
    host = open_host(*given, guarded=guarded, people=people)
    host.closing.push_async_callback(sources.close)
    return host


@asynccontextmanager
async def _open_in_database(sources: Any, *args: Any, **given: Any) -> "AsyncIterator[OpenHost]":
    from detent.host.opening import open_host

    async with AsyncExitStack() as stack:
        stack.push_async_callback(sources.close)
        yield await stack.enter_async_context(open_host(*args, **given))


def resolve_home(home: Any) -> Path:
    """The folder of the journal; by default the one that the command line uses."""
    if home is None:
        home = os.environ.get(HOME_VARIABLE) or HOME
    if not isinstance(home, str | os.PathLike) or not str(home):
        raise Refused(f"home is {home!r}; it must be the path of a folder, such as {HOME!r}")
    folder = find_home(str(home))
    if folder.exists() and not folder.is_dir():
        raise Refused(f"{folder} is not a folder, so it cannot be a home")
    return folder


def _policy(home: Path, given: Any) -> "Policy | None":
    from detent.core.policy import Policy

    if given is None or isinstance(given, Policy):
        return given or find_policy(home)
    if isinstance(given, str | os.PathLike) and str(given):
        return find_policy(home, str(given))
    raise Refused(f"policy is {given!r}; it must be a Policy or the path of a policy file")


def _collect_effects(given: Any) -> "Mapping[str, Effect]":
    """The effects that were given, then the built-in ones and those of plugins, each loaded when it is needed."""
    from collections import ChainMap

    from detent.core.effect_type import Effect
    from detent.effects import Known

    if isinstance(given, Effect) or not isinstance(given, Iterable) or isinstance(given, str):
        raise Refused(f"effects is {_describe(given)}; it must be a list of effects, such as [pay]")
    named: dict[str, Effect] = {}
    for one in given.values() if isinstance(given, Mapping) else given:
        if not isinstance(one, Effect):
            hint = "; declare it with @effect" if callable(one) else ""
            raise DefinitionError(f"{_describe(one)} is not an effect{hint}", "effects")
        if named.get(one.name, one) is not one:
            raise DefinitionError(f"two effects are called `{one.name}`", "effects")
        named[one.name] = one
    return ChainMap(named, cast("dict[str, Effect]", Known()))  # only read


def _describe(value: Any) -> str:
    from detent.core.effect_type import Effect

    if isinstance(value, Effect):
        return f"the effect `{value.name}`"
    return f"the function {value.__name__}" if hasattr(value, "__name__") else repr(value)
