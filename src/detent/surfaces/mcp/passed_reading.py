"""What clients only read through the gateway: resources, templates, prompts and completions of all its servers.

Two servers may offer the same name or address: the second gets another one, so that none hides behind another. What a
server says is passed on as it came, without the secrets of its configuration.
"""

import contextlib
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from mcp import MCPError, types

from detent.core.effect_type import EffectFailed
from detent.core.value import digest
from detent.effects.mcp import Servers

NAME_MAX = 64
PAGES_MAX = 100
NOT_FOUND = -32002
_HOLE = re.compile(r"\{([+/?&#]?)[^{}]*?(\*?)\}")


def make_names(pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """A name for each thing of each server that every client takes; two never share one."""
    plain = {pair: re.sub(r"[^A-Za-z0-9_-]", "_", f"{pair[0]}__{pair[1]}") for pair in pairs}
    count = Counter(plain.values())
    named = {}
    for pair, name in plain.items():
        is_alone = count[name] == 1 and len(name) <= NAME_MAX
        named[name if is_alone else f"{name[: NAME_MAX - 9]}_{digest(list(pair))[:8]}"] = pair
    return named


def make_addresses(pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """An address for each resource of each server: its own, unless another server has it."""
    found: dict[str, tuple[str, str]] = {}
    for server, uri in pairs:
        is_free = found.get(uri, (server, uri)) == (server, uri)
        found[uri if is_free else f"detent-{re.sub(r'[^A-Za-z0-9-]', '-', server)}+{uri}"] = server, uri
    return found


class PassedReading:
    """Lists and reads at every server, for somebody else's client."""

    def __init__(self, servers: Servers, names: Iterable[str]) -> None:
        self._servers, self._names = servers, tuple(names)
        self._resources: dict[str, tuple[str, str]] = {}  # by the address for clients: the server, and its own address
        self._templates: dict[str, tuple[str, str]] = {}
        self._prompts: dict[str, tuple[str, str]] = {}

    def forget(self) -> None:
        """A server offers something else now."""
        self._resources, self._templates, self._prompts = {}, {}, {}

    async def list_resources(self, *_: Any) -> types.ListResourcesResult:
        """Every resource, each at an address of its own."""
        found = await self._list("resources", lambda client, cursor: client.list_resources(cursor=cursor), "resources")
        self._resources = make_addresses((server, str(one.uri)) for server, one in found)
        known = {pair: uri for uri, pair in self._resources.items()}
        shown = [one.model_copy(update={"uri": known[server, str(one.uri)]}) for server, one in found]
        return types.ListResourcesResult(resources=shown)

    async def list_templates(self, *_: Any) -> types.ListResourceTemplatesResult:
        """Every template of addresses."""
        found = await self._list(
            "resources", lambda client, cursor: client.list_resource_templates(cursor=cursor), "resource_templates"
        )
        self._templates = make_addresses((server, one.uri_template) for server, one in found)
        known = {pair: uri for uri, pair in self._templates.items()}
        shown = [one.model_copy(update={"uri_template": known[server, one.uri_template]}) for server, one in found]
        return types.ListResourceTemplatesResult(resource_templates=shown)

    async def list_prompts(self, *_: Any) -> types.ListPromptsResult:
        """Every prompt, as `server__prompt`."""
        found = await self._list("prompts", lambda client, cursor: client.list_prompts(cursor=cursor), "prompts")
        self._prompts = make_names((server, one.name) for server, one in found)
        known = {pair: name for name, pair in self._prompts.items()}
        shown = [one.model_copy(update={"name": known[server, one.name]}) for server, one in found]
        return types.ListPromptsResult(prompts=shown)

    async def read_resource(self, _: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        """A resource; one that nobody lists is asked for where a template fits, and then everywhere."""
        asked = str(params.uri)
        for server, uri in await self._find_places(asked):
            with contextlib.suppress(EffectFailed, MCPError, ValueError):
                line = await self._servers.open_line(server)
                if line.client.server_capabilities.resources is None:
                    continue
                result = self._hide(line, await line.client.read_resource(uri))
                for one in result["contents"]:
                    one["uri"] = asked if one.get("uri") == uri else one.get("uri")
                return types.ReadResourceResult.model_validate(result)
        raise MCPError(NOT_FOUND, f"no server here has the resource {asked[:200]}")

    async def get_prompt(self, _: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        """A prompt, filled in by its server."""
        server, name = await self._find_prompt(params.name)
        line = await self._open(server)
        result = self._hide(line, await line.client.get_prompt(name, params.arguments))
        return types.GetPromptResult.model_validate(result)

    async def complete(self, _: Any, params: types.CompleteRequestParams) -> types.CompleteResult:
        """What an argument of a prompt or a template may be."""
        if isinstance(params.ref, types.PromptReference):
            server, name = await self._find_prompt(params.ref.name)
            ref: Any = params.ref.model_copy(update={"name": name})
        else:
            if params.ref.uri not in self._templates:
                await self.list_templates()
            server, uri = self._templates.get(params.ref.uri, ("", ""))
            ref = params.ref.model_copy(update={"uri": uri})
        line = await self._open(server)
        context = params.context.arguments if params.context else None
        argument = {"name": params.argument.name, "value": params.argument.value}
        result: types.CompleteResult = await line.client.complete(ref, argument, context)
        return result

    async def _find_places(self, uri: str) -> list[tuple[str, str]]:
        if uri not in self._resources:
            await self.list_resources()
        if uri in self._resources:
            return [self._resources[uri]]
        if not self._templates:
            await self.list_templates()
        fitting = [(server, _own_address(uri, shown, own)) for shown, (server, own) in self._templates.items()
                   if _pattern(shown).fullmatch(uri)]  # fmt: skip
        return fitting + [(name, uri) for name in self._names if name not in {server for server, _ in fitting}]

    async def _find_prompt(self, name: str) -> tuple[str, str]:
        if name not in self._prompts:
            await self.list_prompts()
        if name not in self._prompts:
            raise MCPError(types.INVALID_PARAMS, f"there is no prompt `{name[:100]}` here")
        return self._prompts[name]

    async def _open(self, server: str) -> Any:
        try:
            return await self._servers.open_line(server)
        except (EffectFailed, KeyError) as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from None

    async def _list(
        self, capability: str, ask: Callable[[Any, str | None], Awaitable[Any]], field: str
    ) -> list[tuple[str, Any]]:
        """What every server lists, page after page, each with its server; one that cannot be asked has nothing."""
        found: list[tuple[str, Any]] = []
        for server in self._names:
            with contextlib.suppress(EffectFailed, MCPError, ValueError):  # the last: a list that cannot be read
                line = await self._servers.open_line(server)
                if getattr(line.client.server_capabilities, capability) is None:
                    continue
                cursor: str | None = None
                for _ in range(PAGES_MAX):
                    page = await ask(line.client, cursor)
                    found += [(server, type(one).model_validate(self._hide(line, one))) for one in getattr(page, field)]
                    cursor = page.next_cursor
                    if not cursor:
                        break
        return found

    @staticmethod
    def _hide(line: Any, said: Any) -> dict[str, Any]:
        told: dict[str, Any] = line.resolver.hide(said.model_dump(mode="json", by_alias=True, exclude_none=True))
        return told


def _pattern(template: str) -> re.Pattern[str]:
    """What an address made from a template looks like."""
    parts, at = list[str](), 0
    for hole in _HOLE.finditer(template):
        parts.append(re.escape(template[at : hole.start()]))
        is_optional = hole[1] in ("?", "&", "#")
        parts.append(".*" if is_optional else ".+" if hole[1] or hole[2] else "[^/]+")
        at = hole.end()
    return re.compile("".join(parts) + re.escape(template[at:]))


def _own_address(uri: str, shown: str, own: str) -> str:
    """The server's own address for one that clients know by another."""
    return uri.removeprefix(shown.removesuffix(own)) if shown != own else uri
