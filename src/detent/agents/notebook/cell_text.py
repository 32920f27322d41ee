"""Text as it comes from a generator, made fit for a cell: instruction phrases and fences taken off."""

import re
from typing import Any

from detent.agents.notebook.cell import snake

_PHRASE = re.compile(
    r"(?:add (?:text|code)(?: (?:of|to) the notebook)?(?: and run it)?|update the title (?:of|to) the notebook)"
    r"\s*:[ \t]?",
    re.IGNORECASE,
)
_FENCE = re.compile(
    r"\s*(?P<mark>`{3,}|~{3,})[ \t]*(?:python3?|py|ipython3?)?[ \t]*\n(?P<body>.*?)\n?(?P=mark)\s*", re.S | re.I
)
_DULL = ("import ", "from ", "try:", "#", "%", "@")  # beginnings of lines that say little about a cell
_MARKUP = re.compile(r"\*\*|`|&lt;|^#+ |^> ?|^[-*] ")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


def text_of(content: str) -> str:
    """A text without its leading instruction phrase."""
    found = _PHRASE.match(content.lstrip())
    return content.lstrip()[found.end() :].lstrip("\n") if found else content


def code_of(content: str) -> str:
    """Code without instruction phrase, outer fence and outer white space."""
    code = text_of(content)
    fenced = _FENCE.fullmatch(code)
    return (fenced["body"] if fenced else code).strip("\n").rstrip()


def heading(content: str, level: int) -> str:
    """A heading of that level, whatever level the text came with."""
    return f"{'#' * level} {text_of(content).strip().lstrip('#').strip()}"


def plain_text(text: str) -> str:
    """A text without the colours of a terminal."""
    return _ANSI.sub("", text)


def last_of_progress(text: str) -> str:
    """A text as a terminal leaves it: what a carriage return goes back over is written over."""
    lines = []
    for line in text.replace("\r\n", "\n").split("\n"):
        shown = ""
        for part in line.split("\r"):
            shown = part + shown[len(part) :] if part else shown
        lines.append(shown)
    return "\n".join(lines)


def peek(code: str) -> str:
    """The line that says most about a cell: the comment it begins with, else the first that does something."""
    lines = [line.strip() for line in code.splitlines() if line.strip()]
    if lines and lines[0].startswith("# "):
        return lines[0][2:].strip()
    return next((line for line in lines if not line.startswith(_DULL)), lines[0] if lines else "")


def gist(text: str) -> str:
    """The first line of a text, without its marks."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return _MARKUP.sub(lambda found: "<" if found[0] == "&lt;" else "", line)


def action_of(given: Any) -> dict[str, Any]:
    """An action with its keys in snake_case, its name under `action`, and a wrapper taken off; {} if it is none."""
    if isinstance(given, dict) and isinstance(given.get("action"), dict):
        given = given["action"]
    if not isinstance(given, dict):
        return {}
    action: dict[str, Any] = {}
    for name, value in given.items():
        action.setdefault(snake(str(name)), value)
    if "action" not in action and isinstance(action.get("type"), str):
        action["action"] = action.pop("type")
    name = action.get("action")
    if not isinstance(name, str):
        return {}
    action["action"] = name.strip().replace("-", "_")
    return action
