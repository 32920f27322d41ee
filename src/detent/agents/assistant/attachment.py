"""`@file` in a message: what the file holds goes with the message, an image as an image.

Only what somebody types names files like this: a program that hands over other people's words must not send along
whatever they name. It has `--attach`. On the page the files are those of the server's folder that may be shown.
"""

import base64
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from detent.agents.assistant.file_diff import find_inside
from detent.agents.assistant.image import IMAGE_MAX, image_kind
from detent.errors import Refused

FILE_MAX = 100_000  # characters of one file
ENTRIES_MAX = 200  # of a folder
NAMES_MAX = 50  # that are offered while one is typed
_NAMED = re.compile(r"(?<!\S)@(?:\"(?P<quoted>[^\"]+)\"|(?P<plain>[^\s\"]+))")


class Attached(NamedTuple):
    """A message with the files it names."""

    message: str
    images: list[dict[str, str]]
    names: list[str]


def attach(message: str, folder: Path) -> Attached:
    """The message with the content of the files it names; a name that is no file stays as it is."""
    named = [found["quoted"] or found["plain"] for found in _NAMED.finditer(message)]
    found = {name: _find(folder, name) or _find(folder, name.rstrip(".,;:!?)")) for name in named}
    return attach_files(message, {name: path for name, path in found.items() if path is not None})


def attach_named(message: str, names: Sequence[str]) -> Attached:
    """The message with these files; one that is not there is a mistake."""
    found = {name: _find(Path(), name) for name in names}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        raise Refused(f"there is no file `{missing[0]}` to attach")
    return attach_files(message, {name: path for name, path in found.items() if path is not None})


def attach_inside(message: str, names: Sequence[str], folder: Path, hidden: Path) -> Attached:
    """The message with those of these files that somebody elsewhere may see; another name stays a word."""
    found = dict[str, Path]()
    for name in names:
        for called in (name, name.rstrip(".,;:!?)")):
            path = find_inside(folder, hidden, Path(called))
            if path is not None and (path.is_file() or path.is_dir()):
                found.setdefault(called, path)
                break
    return attach_files(message, found)


def list_inside(begun: str, folder: Path, hidden: Path) -> list[str]:
    """Files and folders whose name begins like this and that somebody elsewhere may see."""
    above, slash, start = begun.rpartition("/")
    place = find_inside(folder, hidden, Path(above or ".")) if not begun.startswith("/") else None
    try:
        found = sorted(place.iterdir()) if place is not None else []
    except OSError:
        return []
    seen = [(one.name, find_inside(folder, hidden, one)) for one in found if one.name.startswith(start)]
    names = [name + ("/" if path.is_dir() else "") for name, path in seen if path is not None]
    return [f"{above}{slash}{name}" for name in names[:NAMES_MAX]]


def attach_files(message: str, files: Mapping[str, Path]) -> Attached:
    """The message with the content of these files."""
    texts, images, names = list[str](), list[dict[str, str]](), list[str]()
    for name, path in files.items():
        if str(path) in names:
            continue
        names.append(str(path))
        if path.is_dir():
            texts.append(_list_folder(path, name))
            continue
        image = _read_image(path, name)
        if image is not None:
            images.append(image)
        else:
            texts.append(_read_text(path, name))
    return Attached("\n\n".join([message, *texts]), images, names)


def _find(folder: Path, name: str) -> Path | None:
    try:
        path = folder / Path(name).expanduser()
        return path if path.is_file() or path.is_dir() else None
    except (OSError, ValueError, RuntimeError):
        return None


def _read_image(path: Path, name: str) -> dict[str, str] | None:
    try:
        with path.open("rb") as file:
            raw = file.read(IMAGE_MAX + 1)
    except OSError as error:
        raise Refused(f"@{name}: {error.strerror or error}") from None
    kind = image_kind(raw[:IMAGE_MAX])
    if kind and len(raw) > IMAGE_MAX:
        raise Refused(f"@{name}: an image may have at most {IMAGE_MAX:,} bytes")
    return {"media_type": kind, "data": base64.b64encode(raw).decode()} if kind else None


def _read_text(path: Path, name: str) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            text = file.read(FILE_MAX + 1)
    except UnicodeDecodeError:
        raise Refused(f"@{name}: this is neither text nor an image that models take") from None
    except OSError as error:
        raise Refused(f"@{name}: {error.strerror or error}") from None
    cut = f"\n… (cut after {FILE_MAX:,} characters)" if len(text) > FILE_MAX else ""
    fence = "```" if "```" not in text else "~~~~~~"
    return f"File {name}:\n{fence}\n{text[:FILE_MAX]}{cut}\n{fence}"


def _list_folder(path: Path, name: str) -> str:
    try:
        found = sorted(f"{one.name}/" if one.is_dir() else one.name for one in path.iterdir()
                       if not one.name.startswith("."))  # fmt: skip
    except OSError as error:
        raise Refused(f"@{name}: {error.strerror or error}") from None
    more = [f"… ({len(found) - ENTRIES_MAX} more)"] if len(found) > ENTRIES_MAX else []
    return "\n".join([f"Folder {name}:", *found[:ENTRIES_MAX], *more])
