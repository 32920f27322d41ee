"""What looks at variables from inside the kernel; its source text is sent there, so it imports the standard library only.

It never runs foreign code: it walks exact builtin types, and it knows frames, arrays and estimators by the identity of
their class, whose own descriptors it reads. No `__repr__`, `__len__` or attribute of a stranger is touched. Whatever it
finds becomes ASCII JSON text. (An expression that somebody asks to evaluate is, of course, run.)
"""

from __future__ import annotations

import collections
import itertools
import json
import sys
import time
import types
from typing import Any, Callable  # the kernel's Python may be older than ours

MIME = "application/vnd.detent.look+json"
TEXT_MAX = 200
ITEMS_MAX = 120
DEPTH_MAX = 8
NAMES_MAX = 2_000
WHOLE_MAX = 2**63
DIGITS_BITS_MAX = 14_000  # Python refuses to write longer numbers in decimal

LISTS = (list, tuple, set, frozenset, collections.deque)
DICTS = (dict, collections.OrderedDict, collections.defaultdict, collections.Counter)
SIZED = (*LISTS, *DICTS, str, bytes, bytearray)
# By identity: comparing or hashing a class may run its metaclass.
LIST_IDS = frozenset(map(id, LISTS))
DICT_IDS = frozenset(map(id, DICTS))
SIZED_IDS = frozenset(map(id, SIZED))

# Standard classes whose own text is short and safe, while the object is exactly of that class.
WRITTEN = {
    ("datetime", "datetime"),
    ("datetime", "date"),
    ("datetime", "time"),
    ("datetime", "timedelta"),
    ("decimal", "Decimal"),
    ("fractions", "Fraction"),
    ("uuid", "UUID"),
    ("pathlib", "PosixPath"),
}

# Where a public class of a library lives, and what family it belongs to; subclasses are found through their bases.
FAMILIES = {
    ("pandas", "DataFrame"): ("pandas", "frame"),
    ("pandas", "Series"): ("pandas", "series"),
    ("pandas", "Index"): ("pandas", "series"),
    ("pandas", "Timestamp"): ("pandas", "written"),
    ("pandas", "Timedelta"): ("pandas", "written"),
    ("polars", "DataFrame"): ("polars", "frame"),
    ("polars", "Series"): ("polars", "series"),
    ("numpy", "ndarray"): ("numpy", "array"),
    ("numpy", "generic"): ("numpy", "scalar"),
    ("scipy", "spmatrix"): ("scipy.sparse", "sparse"),
    ("scipy", "sparray"): ("scipy.sparse", "sparse"),
    ("torch", "Tensor"): ("torch", "tensor"),
    ("sklearn", "BaseEstimator"): ("sklearn.base", "estimator"),
}

_known: dict[int, tuple[type, str, Any]] = {}  # the class itself keeps its identity from being given away
_sent: dict[str, str] = {}
_details: dict[tuple[str, str], tuple[Any, Any]] = {}
_seq = 0
_shell: Any = None
summary: Callable[..., Any] | None = None  # the second module sent: strategies for single variables


class Answer:
    """A JSON text that the kernel's display machinery passes on as it is."""

    def __init__(self, text: str) -> None:
        self.text = text

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:  # noqa: ARG002
        return {MIME: self.text}

    def __repr__(self) -> str:
        return "<look>"


def named(kind: type) -> str:
    """The name of a class, whatever its metaclass would say."""
    return str(type.__getattribute__(kind, "__name__"))[:TEXT_MAX]


def family(kind: type) -> tuple[str, Any]:
    """What a class is to us, and the library's own class it descends from."""
    known = _known.get(id(kind))
    if known is None:
        if len(_known) > NAMES_MAX:
            _known.clear()
        known = _known[id(kind)] = (kind, *_family(kind))
    return known[1:]


def _family(kind: type) -> tuple[str, Any]:
    for base in type.__getattribute__(kind, "__mro__"):
        module, name = type.__getattribute__(base, "__module__"), type.__getattribute__(base, "__name__")
        if type(module) is not str:
            continue
        root = module.partition(".")[0]
        if base is kind and (root, name) in WRITTEN and getattr(sys.modules.get(root), name, None) is kind:
            return "written", base
        place, found = FAMILIES.get((root, name), ("", ""))
        if place and getattr(sys.modules.get(place), name, None) is base:
            return found, base
    return "", None


def shape(value: Any) -> tuple[int, ...] | None:
    """The shape of a frame, series, array or tensor."""
    found, base = family(type(value))
    if found not in ("frame", "series", "array", "sparse", "tensor"):
        return None
    return tuple(int(length) for length in base.shape.__get__(value, type(value)))


def brief(value: Any) -> str:
    """One line for anything: `DataFrame(1460×79)`, `list(3)`, `LinearRegression(fitted)`, `Widget`."""
    kind = type(value)
    name = named(kind)
    if id(kind) in SIZED_IDS:
        return f"{name}({len(value)})"
    if kind is int:
        return f"int({value.bit_length()} bits)"
    if issubclass(kind, type):  # not isinstance, which asks the object
        return f"class {named(value)}"
    try:
        lengths = shape(value)
        if lengths is not None:
            return f"{name}({'×'.join(map(str, lengths))})"
        if family(kind)[0] == "estimator":
            own = object.__getattribute__(value, "__dict__")
            return f"{name}(fitted)" if any(key[-1:] == "_" and key[:1] != "_" for key in own) else name
    except Exception:  # noqa: BLE001  # a half-built object of a library: its name must do
        return name
    return name


class Walk:
    """One bounded pass over a builtin value; `is_whole` turns false when something had to be left out."""

    def __init__(self) -> None:
        self.left = ITEMS_MAX
        self.is_whole = True

    def plain(self, value: Any, depth: int = 0) -> Any:
        """The value as JSON data."""
        self.left -= 1
        kind = type(value)
        if value is None or kind is bool:
            return value
        if kind is str:
            return value if len(value) <= TEXT_MAX else self._cut(value[:TEXT_MAX] + "...")
        if kind is int:
            return self._whole(value)
        if kind is float:
            return value if value - value == 0 else self._cut(str(value))
        if id(kind) in LIST_IDS or id(kind) in DICT_IDS:
            return self._inner(value, kind, depth)
        found = family(kind)[0]
        if found == "written":
            return self._cut(str(value)[:TEXT_MAX])
        if found == "scalar":
            item = value.item()
            return self.plain(item, depth) if type(item) is not kind else self._cut(brief(value))
        return self._cut(str(value)[:TEXT_MAX] if kind is complex or kind is range else brief(value))

    def _inner(self, value: Any, kind: type, depth: int) -> Any:
        if depth >= DEPTH_MAX:
            return self._cut("...")
        if len(value) > self.left:
            self.is_whole = False
        room = max(0, self.left)
        if id(kind) in DICT_IDS:
            rows = [(self._key(key), self.plain(inner, depth + 1)) for key, inner in itertools.islice(value.items(), room)]
            return self._cut([list(row) for row in rows]) if len(dict(rows)) < len(rows) else dict(rows)
        items = itertools.islice(value, room)
        if kind is set or kind is frozenset:  # so that equal sets look alike
            return sorted((self.plain(inner, depth + 1) for inner in items), key=lambda one: (str(type(one)), str(one)))
        return [self.plain(inner, depth + 1) for inner in items]

    def _key(self, key: Any) -> str:
        return key[:TEXT_MAX] if type(key) is str else json.dumps(Walk().plain(key), ensure_ascii=False)[:TEXT_MAX]

    def _whole(self, value: int) -> Any:
        if -WHOLE_MAX <= value < WHOLE_MAX:
            return value
        return self._cut(str(value)[:TEXT_MAX] if value.bit_length() < DIGITS_BITS_MAX else brief(value))

    def _cut(self, what: Any) -> Any:
        self.is_whole = False
        return what


def shown(value: Any) -> tuple[Any, bool]:
    """A small builtin as JSON, anything else as one line of text; and whether that is all of it."""
    walk = Walk()
    found = walk.plain(value)
    if type(found) is list or type(found) is dict:
        text = json.dumps(found, ensure_ascii=False)
        if len(text) > TEXT_MAX:
            return text[:TEXT_MAX] + "...", False
    return found, walk.is_whole


def variables(namespace: dict[str, Any], hidden: dict[str, Any], until: float) -> tuple[dict[str, str], bool]:
    """Every variable of the user as JSON text: type, what is shown, whether that is all; and whether time sufficed."""
    found: dict[str, str] = {}
    for name, value in reversed(list(namespace.items())):  # the newest first
        if type(name) is not str or name[:1] == "_" or type(value) is types.ModuleType:
            continue
        if name in hidden and hidden[name] is value:
            continue
        if len(found) >= NAMES_MAX or time.monotonic() > until:
            return found, False
        try:
            entry = [named(type(value)), *shown(value)]
        except Exception:  # noqa: BLE001  # another thread changes it while we look
            entry = [named(type(value)), named(type(value)), False]
        found[name] = json.dumps(entry)
    return found, True


def evaluated(source: str, namespace: dict[str, Any]) -> dict[str, Any]:
    """The value of an expression, or the error it raised: never an exception."""
    try:
        value = eval(compile(source.strip(), "<expression>", "eval"), namespace, {})  # noqa: S307
        found, is_whole = shown(value)
        return {"value": found, "type": named(type(value)), "is_whole": is_whole}
    except BaseException as error:  # noqa: BLE001  # SystemExit and KeyboardInterrupt too
        said = BaseException.args.__get__(error, BaseException)  # type: ignore[attr-defined]
        if len(said) == 1 or issubclass(type(error), SyntaxError):
            said = said[0]
        said = shown(said)[0]
        return {"error": {"ename": named(type(error)), "evalue": said if type(said) is str else json.dumps(said)}}


def detailed(name: str, value: Any, strategy: str, is_mentioned: bool) -> Any:
    """What a strategy says of a variable; the last answer if nothing about the variable has changed since."""
    token = (id(value), type(value), brief(value))
    if not is_mentioned and (name, strategy) in _details and _details[name, strategy][0] == token:
        return _details[name, strategy][1]
    try:
        found = summary(sys.modules[__name__], value, strategy) if summary else brief(value)
    except Exception as error:  # noqa: BLE001  # a library's own trouble with this object
        found = f"{brief(value)} (not available: {named(type(error))})"
    _details[name, strategy] = (token, found)
    return found


def look(request: str) -> Answer:
    """Answer one request: changed variables since its `seq`, details asked for, expressions evaluated."""
    global _seq  # noqa: PLW0603
    asked = json.loads(request)
    namespace = sys.modules["__main__"].__dict__ if _shell is None else _shell.user_ns
    hidden = {} if _shell is None else _shell.user_ns_hidden
    answer: dict[str, Any] = {}
    if asked.get("expressions"):
        answer["expressions"] = {key: evaluated(text, namespace) for key, text in asked["expressions"].items()}
    found, is_complete = variables(namespace, hidden, time.monotonic() + asked.get("budget_s", 0.25))
    if asked.get("seq") != _seq or not _seq:
        _sent.clear()
        answer["is_full"] = True
    changed = [f"{json.dumps(name)}: {entry}" for name, entry in found.items() if _sent.get(name) != entry]
    answer["gone"] = [name for name in _sent if name not in found and (is_complete or name not in namespace)]
    for name in answer["gone"]:
        del _sent[name]
    _sent.update(found)
    if asked.get("strategies"):
        mentioned = set(asked.get("mentioned", ()))
        answer["details"] = {
            name: detailed(name, namespace[name], strategy, name in mentioned)
            for name, strategy in asked["strategies"].items()
            if name in namespace
        }
    _seq += 1
    answer.update(seq=_seq, is_complete=is_complete)
    return Answer(f'{json.dumps(answer)[:-1]}, "changed": {{{", ".join(changed)}}}}}')


def install() -> None:
    """Bind to the shell, and teach the kernel to send half characters instead of losing the whole message."""
    global _shell  # noqa: PLW0603
    from IPython import get_ipython  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415

    _shell = get_ipython()
    from jupyter_client.jsonutil import (  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415
        json_clean,
        json_default,
    )

    session = _shell.kernel.session
    pack = session.pack

    def forgiving(message: Any) -> bytes:
        try:
            packed: bytes = pack(message)
        except UnicodeEncodeError:
            try:
                packed = json.dumps(message, default=json_default, allow_nan=False).encode("ascii")
            except (TypeError, ValueError):
                packed = json.dumps(json_clean(message), default=json_default).encode("ascii")
        return packed

    session.pack = forgiving
    for stream, fd in ((sys.stdout, 1), (sys.stderr, 2)):
        if getattr(stream, "_original_stdstream_copy", None) is None:
            stream._original_stdstream_copy = fd  # type: ignore[union-attr]  # fileno() of ours, for subprocesses
