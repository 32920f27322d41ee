"""What servers offer, and how careful one must be with each tool.

The list of a server's tools is kept in the home, so that knowing the effects costs nothing and a server is started only
when something is called. What is kept is checked again at each connection: a tool that was once taken for more harmless
than it is now is not called by a run that may have begun then.
"""

import contextlib
from pathlib import Path
from typing import Any

import msgspec

from detent.core.effect_type import Kind
from detent.core.machine_check import is_effect_name
from detent.effects.mcp.config import ServerConfig
from detent.whole_file import write_whole

ORDER: tuple[Kind, ...] = ("pure", "idempotent", "irreversible")
DESCRIPTION_MAX, TITLE_MAX = 4000, 200


class Hints(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a server says of its own tool; None: nothing."""

    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None


class Offer(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool of a server."""

    name: str
    description: str = ""
    schema: dict[str, Any] = {}
    hints: Hints = Hints()
    title: str = ""
    output: dict[str, Any] = {}  # the schema of its results


class CachedTools(msgspec.Struct, frozen=True, omit_defaults=True):
    """The tools of a server as they were when it was last seen."""

    config: str
    tools: tuple[Offer, ...]
    laxest: dict[str, Kind] = {}  # by tool: the most harmless that it was ever taken for


def kind_of(server: ServerConfig, offer: Offer) -> Kind:
    """How careful one must be with a tool.

    What the configuration says of the tool decides. Then a trusted server's own hints. Then what the configuration says
    of the server, which a hint can make stricter and never laxer. Silence means irreversible.
    """
    said = server.tool(offer.name).effect
    if said is not None:
        return said
    hinted = _kind_of(offer.hints)
    if server.trusted and hinted is not None:
        return hinted
    kinds = [kind for kind in (server.effect, hinted) if kind is not None]
    return stricter(*kinds) if server.effect is not None else "irreversible"


def stricter(*kinds: Kind) -> Kind:
    """The most careful of several."""
    return max(kinds, key=ORDER.index)


def _kind_of(hints: Hints) -> Kind | None:
    if hints.read_only:
        return "pure"
    if hints.idempotent:
        return "idempotent"
    said_anything = hints.read_only is not None or hints.destructive is not None or hints.idempotent is not None
    return "irreversible" if said_anything else None


def offers(server: str, listed: Any) -> tuple[Offer, ...]:
    """A server's list of tools, with what is of use; a name that no effect can have is left out."""
    found = []
    for tool in listed:
        notes = tool.annotations
        hints = Hints(notes.read_only_hint, notes.destructive_hint, notes.idempotent_hint, notes.open_world_hint) if (
            notes) else Hints()  # fmt: skip
        if is_effect_name(f"{server}.{tool.name}"):
            about, title = (tool.description or "")[:DESCRIPTION_MAX], (tool.title or "")[:TITLE_MAX]
            found.append(Offer(tool.name, about, tool.input_schema, hints, title, tool.output_schema or {}))
    return tuple(found)


def advice(server: ServerConfig, offer: Offer) -> str:
    """How to declare a tool that counts as irreversible only because nobody whose word counts says otherwise."""
    hinted = _kind_of(offer.hints)
    is_said = server.tool(offer.name).effect is not None or hinted == "irreversible"
    if is_said or kind_of(server, offer) != "irreversible":
        return ""
    why = f"Nobody says what `{offer.name}` of the server `{server.name}` does. If it only reads"
    if hinted is not None:
        claim = "only reads" if hinted == "pure" else "may be called again"
        why = f"The server `{server.name}` says that `{offer.name}` {claim}, but it is not trusted. If that is so"
    entry = f"`{offer.name}: {{effect: {hinted or 'pure'}}}`"
    return f"{why}, write {entry} under `tools` of `{server.name}` in detent.mcp.yaml."


def load_tools(folder: Path, server: ServerConfig) -> tuple[Offer, ...] | None:
    """The tools as they were last seen; None when they were not, or the server may be another one now."""
    found = _read(folder, server)
    return found.tools if found is not None and found.config == server.digest else None


def keep(folder: Path, server: ServerConfig, tools: tuple[Offer, ...]) -> dict[str, Kind]:
    """Remember the tools; tells the most harmless that each was ever taken for."""
    before = _read(folder, server)
    now = CachedTools(server.digest, tools, _laxest(before, server, tools))
    if before != now:
        with contextlib.suppress(OSError):  # a home that cannot be written is no reason to stop
            make_folder(folder)
            write_whole(folder / f"{server.name}.json", msgspec.json.encode(now))
    return now.laxest


def _read(folder: Path, server: ServerConfig) -> CachedTools | None:
    try:
        return msgspec.json.decode((folder / f"{server.name}.json").read_bytes(), type=CachedTools)
    except (OSError, msgspec.DecodeError):
        return None


def _laxest(before: CachedTools | None, server: ServerConfig, tools: tuple[Offer, ...]) -> dict[str, Kind]:
    found = {offer.name: kind_of(server, offer) for offer in tools}
    if before is None:
        return found
    once = {offer.name: kind_of(server, offer) for offer in before.tools}
    return {name: min((kind, once.get(name, kind), before.laxest.get(name, kind)), key=ORDER.index)
            for name, kind in found.items()}  # fmt: skip


def make_folder(folder: Path) -> None:
    """Make the folder of the servers for us alone, and the home above it if it is not there yet."""
    for one in (folder.parent, folder):
        one.mkdir(mode=0o700, parents=True, exist_ok=True)
