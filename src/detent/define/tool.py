"""`tools:` of a file, or of `detent.tools.yaml` beside it: names for programs, functions, requests and MCP tools.

A call of such a name is compiled to the call of what it stands for, so a run is pinned to it, and everybody who is
asked sees what will really be called. What the call is given under `params` is read as `{{ params.NAME }}` in the tool.
"""

import re
from pathlib import Path
from typing import Any, NamedTuple

from detent.core.machine import Probe
from detent.core.schema import problems, with_defaults
from detent.define.compile_context import Page
from detent.define.document import Route, read_document, read_file
from detent.define.key_check import Fields, fields
from detent.define.secret_input import is_secret
from detent.define.value_check import check_name

TOOLS_FILE = "detent.tools.yaml"
ENDS = ("shell", "python", "http", "mcp")
CARE = (
    "effect", "timeout", "retry", "key", "scope", "sandbox", "paths", "network", "ok_exit", "ok_status", "approval",
    "on_repeat", "rate",
)  # fmt: skip
PARAM = re.compile(r"\{\{\s*params\.([A-Za-z]\w*)\s*\}\}", re.ASCII)
PARAMS = re.compile(r"\bparams\b")
FUNCTION = re.compile(r"[^\W\d][\w.]*:[^\W\d][\w.]*")
BODILESS = ("GET", "HEAD", "DELETE")
WHOLE = re.compile(r"\{\{\s*((?:(?!\}\}).)+?)\s*\}\}", re.DOTALL)


class GivenWhole(dict[str, Any]):
    """Params that one expression gives, as in `params: "{{ context }}"`: each of them is read from it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text, self.expression = text, text.strip()[2:-2].strip()

    def get(self, name: str, default: Any = None) -> Any:  # noqa: ARG002 - one that is not there is null
        """The template of one of them."""
        return f"{{{{ ({self.expression}).{name} }}}}"

    def __contains__(self, name: object) -> bool:
        return True


class NamedTool(NamedTuple):
    """What a name stands for."""

    name: str
    kind: str  # shell, python, http or mcp
    call: Any  # argv or the arguments of shell, module:function, the request, server.tool
    care: dict[str, Any]
    schema: dict[str, Any]
    is_text: bool = False  # its program prints no JSON
    probe: "NamedTool | None" = None  # how to find out whether a call of it happened


def read_tools(page: Page) -> dict[str, NamedTool]:
    """The tools of a file and of the one beside it; the file's own come first."""
    found = _read_beside(page)
    if isinstance(page.value, dict) and "tools" in page.value:
        found |= _read_all(page, ("tools",), page.value["tools"])
    return found


def _read_beside(page: Page) -> dict[str, NamedTool]:
    path = Path(page.file).parent / TOOLS_FILE
    if not Path(page.file).is_file() or not path.is_file():
        return {}
    beside = Page(read_document(read_file(path), str(path)))
    found = _read_all(beside, (), beside.value)
    page.problems += beside.problems
    return found


def _read_all(page: Page, path: Route, value: Any) -> dict[str, NamedTool]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        page.say(path, "`tools` must be a mapping from names to tools")
        return {}
    found: dict[str, NamedTool] = {}
    for name, inner in value.items():
        here = (*path, name)
        if check_name(page, here, name, "a tool:", at_key=True):
            made = _read_tool(page, here, name, inner)
            found |= {name: made} if made is not None else {}
    return found


def _read_tool(page: Page, path: Route, name: str, value: Any) -> NamedTool | None:
    seen = len(page.readings)
    given = fields(page, path, value, "tool", f"the tool `{name}`")
    asks = given is not None and "probe" in given
    probe = (
        fields(page, (*path, "probe"), given["probe"], "probe", f"the probe of `{name}`") if given and asks else None
    )
    del page.readings[seen:]  # `params` is known only here; what else they read is looked at where they are called
    if given is None:
        return None
    made = _read_end(page, path, name, given)
    if made is None or probe is None:
        return made
    asked = _read_end(page, (*path, "probe"), name, probe)
    if asked is not None:
        conditions = {key: probe[key] for key in ("happened", "not_happened") if key in probe}
        asked = asked._replace(care=conditions)
    return made._replace(probe=asked)


def _read_end(page: Page, path: Route, name: str, given: Fields) -> NamedTool | None:
    """What a tool or its probe calls."""
    kinds = [kind for kind in ENDS if kind in given.said]
    if len(kinds) != 1:
        page.say(path, f"a tool has exactly one of {', '.join(f'`{kind}`' for kind in ENDS)}")
        return None
    kind = kinds[0]
    if kind not in given:
        return None
    call = given[kind]
    if kind == "shell" and not (isinstance(call, list) and call and all(isinstance(one, str) for one in call)):
        given.say(kind, "`shell` is a list: the program and its arguments, each a text")
        return None
    if kind == "python" and "{{" not in str(call) and not FUNCTION.fullmatch(str(call)):
        given.say(kind, f"`{call}` names no function", "write it as `module:name`")
        return None
    if kind == "http" and not (isinstance(call, dict) and "url" in call):
        given.say(kind, "`http` is a mapping with a `url`")
        return None
    for key, of in (("ok_exit", "shell"), ("ok_status", "http"), ("output", "shell")):
        if key in given and kind != of:
            given.say(key, f"`{key}` is for `{of}`")
    care = {key: given[key] for key in CARE if key in given}
    is_text = given.get("output") == "text"
    return NamedTool(name, kind, call, care, given.get("input", {}), is_text)


def expand(given: Fields, tool: NamedTool) -> Fields | None:
    """The call of a named tool as the call of what it stands for; None after a note."""
    params = given.get("params", {})
    if isinstance(params, str) and WHOLE.fullmatch(params.strip()):
        params = GivenWhole(params)
    elif isinstance(params, dict):
        params = with_defaults(tool.schema, params)
    else:
        hint = "name each of them, or write one expression that gives them all"
        given.say("params", f"`params` of the tool `{tool.name}` must be a mapping", hint)
        return None
    fixed = {name: value for name, value in params.items() if "{{" not in str(value) and not is_secret(value)}
    for problem in problems({**tool.schema, "required": []}, fixed, "params") if tool.schema else ():
        given.say("params", f"{problem} (the tool `{tool.name}`)")
    for name in tool.schema.get("required", ()):
        if name not in params:
            given.page.say(given.path, f"the tool `{tool.name}` needs `{name}` under `params`")
    values = {
        **_care(given, tool, params),
        **{key: value for key, value in given.values.items() if key not in ("tool", "params")},
    }
    said = (set(given.said) - {"tool", "params"}) | {"params"}
    if tool.probe is not None:
        values["probe"] = _make_probe(given, tool.probe, params)
    if tool.kind != "mcp" and isinstance(values.get("key"), str):
        values["key"] = f"{tool.name} {values['key']}"  # two tools that are both `shell` do not share their keys
    match tool.kind:
        case "python":
            values |= {"python": tool.call, "params": _hand_over(params)}
            said |= {"python"}
        case "mcp":
            values |= {"tool": tool.call, "params": _hand_over(params)}
            said |= {"tool"}
        case _:
            values |= {"tool": tool.kind, "params": _arguments(given, tool, params)}
            said |= {"tool"}
    return Fields(given.page, given.path, values, given.type, said)


def _care(given: Fields, tool: NamedTool, params: dict[str, Any]) -> dict[str, Any]:
    """What holds of every call of a tool, with the params of this one in its key and its question."""
    care = {
        name: _put(given, value, params) if name in ("key", "approval") else value for name, value in tool.care.items()
    }
    if "key" not in care or "key" in given:
        return care
    read = PARAM.findall(str(tool.care["key"]))
    for name in dict.fromkeys(read):
        if name not in params:
            given.page.say(given.path, f"the key of the tool `{tool.name}` needs `{name}` under `params`")
        elif is_secret(params.get(name)):
            given.page.say(given.path, f"the key of the tool `{tool.name}` cannot hold the secret `{name}`")
    return {**care, "key": _as_text(care["key"])} if read else care


def _make_probe(given: Fields, tool: NamedTool, params: dict[str, Any]) -> Probe:
    """The call that finds out whether another one of these params happened."""
    match tool.kind:
        case "python":
            return Probe("python", {"function": tool.call, "args": _hand_over(params)}, **tool.care)
        case "mcp":
            return Probe(tool.call, _hand_over(params), **tool.care)
    return Probe(tool.kind, _arguments(given, tool, params), **tool.care)


def _arguments(given: Fields, tool: NamedTool, params: dict[str, Any]) -> dict[str, Any]:
    """What `shell` or `http` is given: the tool's own, with the call's params in their places."""
    if tool.kind == "shell":
        is_json = {} if tool.is_text else {"is_json": True}
        return {"argv": _put(given, tool.call, params), "stdin_json": _hand_over(params), **is_json}
    request: dict[str, Any] = _put(given, tool.call, params)
    has_body = "json" in request or "body" in request
    is_bare = has_body or str(request.get("method", "GET")).upper() in BODILESS
    return request if is_bare else {**request, "json": _hand_over(params)}


def _hand_over(params: dict[str, Any]) -> Any:
    """All params as a program or a function is given them."""
    return params.text if isinstance(params, GivenWhole) else params


def _put(given: Fields, value: Any, params: dict[str, Any]) -> Any:
    """A template with the call's own templates in the place of `{{ params.NAME }}`."""
    if isinstance(value, dict):
        return {key: _put(given, inner, params) for key, inner in value.items()}
    if isinstance(value, list):
        return [_put(given, inner, params) for inner in value]
    if not isinstance(value, str) or "params" not in value:
        return value
    whole = PARAM.fullmatch(value.strip())
    if whole is not None:
        return params.get(whole[1])
    if any(is_secret(params.get(name)) for name in PARAM.findall(value)):
        given.page.say(
            given.path, f"`{value[:80]}` puts a secret into a text", "{secret: NAME, prefix: …} stands alone"
        )
        return value
    made = PARAM.sub(lambda found: _as_text(params.get(found[1])), value)
    if any(PARAMS.search(part) for part in re.findall(r"\{\{.*?\}\}", PARAM.sub("", value))):
        given.page.say(
            given.path, f"`{value[:80]}` computes with `params`", "`{{ params.NAME }}` stands alone in a tool"
        )
    return made


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)
