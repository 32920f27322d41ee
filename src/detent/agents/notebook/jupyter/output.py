"""What a cell puts out, collected as nbformat dictionaries within bounds; whatever is left out is said in a note.

Text of one stream comes in pieces and becomes one output. An update of a display that an earlier cell made cannot be
applied here: it is kept in `updates` for whoever holds the notebook.
"""

import json
from collections.abc import Callable
from typing import Any

from detent.agents.notebook.jupyter.output_sanitiser import plain
from detent.core.value import scrub

TEXT_MAX = 1024 * 1024  # characters of one output
IMAGE_MAX = 8 * 1024 * 1024  # bytes of one picture
TOTAL_MAX = 64 * 1024 * 1024  # characters of all outputs of a cell
OUTPUTS_MAX = 10_000

OnOutput = Callable[[dict[str, Any]], None]


class Text:
    """A growing text of which both ends are kept."""

    def __init__(self, cap: int = TEXT_MAX) -> None:
        self._half = cap // 2
        self._head: list[str] = []
        self._tail: list[str] = []
        self._head_room = self._half
        self._tail_length = 0
        self._count = 0

    def feed(self, text: str) -> None:
        """Take the next piece."""
        self._count += len(text)
        if self._head_room:
            self._head.append(text[: self._head_room])
            text = text[self._head_room :]
            self._head_room -= len(self._head[-1])
        if text:
            self._tail.append(text[-self._half :])
            self._tail_length += len(self._tail[-1])
            if self._tail_length > 4 * self._half:  # not at every piece: joining costs as much as the whole
                self._tail = [self._ending()]
                self._tail_length = len(self._tail[0])

    def _ending(self) -> str:
        return "".join(self._tail)[-self._half :]

    @property
    def kept(self) -> int:
        """How many characters are kept."""
        return min(self._count, 2 * self._half)

    @property
    def missing(self) -> int:
        """How many characters are left out."""
        return self._count - self.kept

    def text(self) -> str:
        """What is kept."""
        head = "".join(self._head)
        if not self.missing:
            return head + "".join(self._tail)
        return f"{head}\n[{self.missing:,} characters are left out here]\n{self._ending()}"


class Outputs:
    """The outputs of one cell as they come."""

    def __init__(self, on_output: OnOutput | None = None) -> None:
        self.displays: dict[str, list[int]] = {}  # which of our outputs show the display of that id
        self.updates: dict[str, dict[str, Any]] = {}  # new contents for displays of earlier cells
        self._rows: list[dict[str, Any] | tuple[str, Text]] = []
        self._notes: list[str] = []
        self._on_output = on_output
        self._clear_next = False
        self._size = 0
        self._left_out = 0

    def take(self, kind: str, content: dict[str, Any]) -> None:
        """Take one message of the kernel's output channel."""
        if kind == "stream":
            self.stream(str(content.get("name", "stdout")), scrub(str(content.get("text", ""))))
        elif kind == "clear_output":
            self._clear(bool(content.get("wait")))
        elif kind in ("execute_result", "display_data"):
            self._display(kind, content)
        elif kind == "update_display_data":
            self._update(content)
        elif kind == "error":
            trace = content.get("traceback")
            self.error(
                _text_of(content, "ename"), _text_of(content, "evalue"), plain(trace) if isinstance(trace, list) else []
            )

    def stream(self, name: str, text: str) -> None:
        """A piece of text on stdout or stderr."""
        self._clear_waiting()
        last = self._rows[-1] if self._rows else None
        if not (isinstance(last, tuple) and last[0] == name):
            if not self._has_room():
                return
            last = (name, Text())
            self._rows.append(last)
        before, was_cut = last[1].kept, last[1].missing
        last[1].feed(text)
        self._size += last[1].kept - before
        if not was_cut:  # once the middle is being left out, watchers are spared the flood too
            self._tell({"output_type": "stream", "name": name, "text": text[:TEXT_MAX]})

    def error(self, ename: str, evalue: str, traceback: list[str]) -> None:
        """An exception, or what stands for one."""
        self._clear_waiting()
        row = {"output_type": "error", "ename": ename, "evalue": _short(evalue), "traceback": _short_lines(traceback)}
        if self._has_room(is_needed=True):
            self._rows.append(row)
            self._tell(row)

    def note(self, sentence: str) -> None:
        """Something detent itself has to say about this cell."""
        if sentence not in self._notes:
            self._notes.append(sentence)

    def all(self) -> list[dict[str, Any]]:
        """The outputs as nbformat dictionaries, the notes last."""
        rows: list[dict[str, Any]] = []
        notes = list(self._notes)
        for row in self._rows:
            if not isinstance(row, tuple):
                rows.append(row)
                continue
            name, text = row
            rows.append({"output_type": "stream", "name": name, "text": text.text()})
            if text.missing:
                notes.append(f"{text.missing:,} characters of {name} were left out")
        if self._left_out:
            notes.append(f"{self._left_out:,} further outputs were left out")
        return rows + [make_note(note) for note in notes]

    def errors(self) -> list[dict[str, Any]]:
        """The exceptions among the outputs."""
        return [row for row in self._rows if isinstance(row, dict) and row["output_type"] == "error"]

    def _display(self, kind: str, content: dict[str, Any]) -> None:
        self._clear_waiting()
        if not self._has_room():
            return
        row: dict[str, Any] = {"output_type": kind, "data": self._bundle(content), "metadata": _metadata(content)}
        if kind == "execute_result":
            row["execution_count"] = content.get("execution_count")
        display_id = _display_id(content)
        if display_id:
            self.displays.setdefault(display_id, []).append(len(self._rows))
        self._rows.append(row)
        self._tell({**row, "display_id": display_id} if display_id else row)

    def _update(self, content: dict[str, Any]) -> None:
        display_id = _display_id(content)
        data, metadata = self._bundle(content), _metadata(content)
        for place in self.displays.get(display_id, ()):
            row = self._rows[place]
            if isinstance(row, dict):
                row.update(data=data, metadata=metadata)
        if display_id not in self.displays:
            self.updates[display_id] = {"data": data, "metadata": metadata}
        told = {"output_type": "update_display_data", "data": data, "metadata": metadata, "display_id": display_id}
        self._tell(told)

    def _clear(self, waits: bool) -> None:
        self._clear_next = waits
        if not waits:
            self._forget()
            self._tell({"output_type": "clear_output"})

    def _clear_waiting(self) -> None:
        if self._clear_next:
            self._clear(waits=False)

    def _forget(self) -> None:
        self._rows.clear()
        self.displays.clear()
        self._size = self._left_out = 0

    def _has_room(self, is_needed: bool = False) -> bool:
        if is_needed or (len(self._rows) < OUTPUTS_MAX and self._size <= TOTAL_MAX):
            return True
        self._left_out += 1
        return False

    def _tell(self, output: dict[str, Any]) -> None:
        if self._on_output is None:
            return
        try:
            self._on_output(output)
        except Exception as error:  # noqa: BLE001  # whoever watches must not break what is watched
            self._on_output = None
            self.note(
                f"the watcher of this cell failed and was let go: {type(error).__name__}: {scrub(str(error))[:200]}"
            )

    def _bundle(self, content: dict[str, Any]) -> dict[str, Any]:
        """A MIME bundle within bounds; a part that is too big goes whole, except plain text, which is cut."""
        found: dict[str, Any] = {}
        data = content.get("data")
        for mime, part in (data if isinstance(data, dict) else {}).items():
            size, cap = _size(mime, part)
            if size > cap and mime == "text/plain":
                cut = Text()
                cut.feed(str(part))
                part = cut.text()  # noqa: PLW2901
                self.note(f"{cut.missing:,} characters of a text/plain result were left out")
            elif size > cap:
                unit = "bytes" if cap == IMAGE_MAX else "characters"
                self.note(
                    f"an output of type {scrub(mime)} had {size:,} {unit} and was left out; at most {cap:,} are kept"
                )
                continue
            self._size += min(size, cap)
            found[scrub(mime)] = plain(part) if is_json(mime) else scrub(_join_part(part))
        if not found and data:
            found["text/plain"] = "[this output was too big to be kept]"
        return found


def make_note(sentence: str) -> dict[str, Any]:
    """A sentence of detent as an output that every notebook can show."""
    return {
        "output_type": "display_data",
        "data": {"text/plain": f"[detent: {sentence}]"},
        "metadata": {"detent": {"note": sentence}},
    }


def is_json(mime: str) -> bool:
    """Whether the part of a bundle is JSON data and not text."""
    return mime == "application/json" or (mime.startswith("application/") and mime.endswith("+json"))


def _join_part(part: Any) -> str:
    if isinstance(part, list):
        return "".join(map(str, part))
    return part if isinstance(part, str) else json.dumps(part)


def _size(mime: str, part: Any) -> tuple[int, int]:
    if mime.startswith("image/") and mime != "image/svg+xml":
        return len(_join_part(part)) * 3 // 4, IMAGE_MAX
    return len(json.dumps(part)) if is_json(mime) else len(_join_part(part)), TEXT_MAX


def _metadata(content: dict[str, Any]) -> dict[str, Any]:
    metadata = content.get("metadata")
    if not isinstance(metadata, dict) or (metadata and len(json.dumps(metadata)) > TEXT_MAX):
        return {}
    found: dict[str, Any] = plain(metadata)
    return found


def _display_id(content: dict[str, Any]) -> str:
    transient = content.get("transient")
    return scrub(str(transient.get("display_id") or "")) if isinstance(transient, dict) else ""


def _text_of(content: dict[str, Any], key: str) -> str:
    return scrub(str(content.get(key) or ""))


def _short(text: str) -> str:
    cut = Text()
    cut.feed(str(text))
    return cut.text()


def _short_lines(lines: list[str]) -> list[str]:
    whole = [str(line) for line in lines]
    return whole if sum(map(len, whole)) <= TEXT_MAX else [_short("\n".join(whole))]
