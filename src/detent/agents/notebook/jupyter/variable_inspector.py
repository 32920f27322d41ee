"""What looks at variables from inside the kernel: its text is sent there, so it imports the standard library only.

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
from collections.abc import Callable
from typing import Any

MIME = "application/vnd.detent.look+json"
TEXT_MAX = 200
ITEMS_MAX = 70  # the smallest item takes three characters: more would not be seen
DEPTH_MAX = 8
NAMES_MAX = 2_000
WHOLE_MAX = 2**63
FLUSH_S = 0.05  # how long printed text may lie in the kernel: what lies there is lost if it is killed
DIGITS_BITS_MAX = 14_000  # Python refuses to write longer numbers in decimal

LISTS = (list, tuple, set, frozenset, collections.deque)
DICTS = (dict, collections.OrderedDict, collections.defaultdict, collections.Counter)
SIZED = (*LISTS, *DICTS, str, bytes, bytearray)
# By identity: comparing or hashing a class may run its metaclass.
LIST_IDS = frozenset(map(id, LISTS))
DICT_IDS = frozenset(map(id, DICTS))
SIZED_IDS = frozenset(map(id, SIZED))
FIXED = (int, float, complex, bool, str, bytes, range, type(None), types.ModuleType, types.BuiltinFunctionType)
FIXED_IDS = frozenset(map(id, FIXED))

# Standard classes whose own text is short and safe, while the object is exactly of that class.
WRITTEN = {
    "datetime": ("datetime", "date", "time", "timedelta"),
    "decimal": ("Decimal",),
    "fractions": ("Fraction",),
    "uuid": ("UUID",),
    "pathlib": ("PosixPath",),
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
    ("scipy", "_spbase"): ("scipy.sparse._base", "sparse"),
    ("torch", "Tensor"): ("torch", "tensor"),
    ("sklearn", "BaseEstimator"): ("sklearn.base", "estimator"),
}

_written = json.JSONEncoder(ensure_ascii=False).encode  # made once: with options, json.dumps makes one at every call
_known: dict[int, tuple[type, str, Any]] = {}  # the class itself keeps its identity from being given away
_rows: dict[str, VariableRow] = {}  # every name of the namespace without a leading underscore
_seen: set[Any] = set()  # every key of the namespace
_hidden: dict[str, Any] = {}  # names that the shell itself put there
_details: dict[tuple[str, str], tuple[Any, Any]] = {}
_seq = 0
_shell: Any = None
summary: Callable[..., Any] | None = None  # the second module sent: strategies for single variables


class RawJson:
    """A JSON text that the kernel's display machinery passes on as it is."""

    def __init__(self, text: str) -> None:
        self.text = text

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:  # noqa: ARG002
        return {MIME: self.text}

    def __repr__(self) -> str:
        return "<look>"


def name_of(kind: type) -> str:
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
        if base is kind and name in WRITTEN.get(root, ()) and getattr(sys.modules.get(root), name, None) is kind:
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
    name = name_of(kind)
    if id(kind) in SIZED_IDS:
        return f"{name}({len(value)})"
    if kind is int:
        return f"int({value.bit_length()} bits)"
    if issubclass(kind, type):  # not isinstance, which asks the object
        return f"class {name_of(value)}"
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
        if found == "written" or kind is complex or kind is range:
            return self._cut(str(value)[:TEXT_MAX])
        if found == "scalar":
            item = value.item()
            return self.plain(item, depth) if type(item) is not kind else self._cut(brief(value))
        return self._cut(brief(value) if found or id(kind) in SIZED_IDS or issubclass(kind, type) else name_of(kind))

    def _inner(self, value: Any, kind: type, depth: int) -> Any:
        if depth >= DEPTH_MAX:
            return self._cut("...")
        if len(value) > self.left:
            self.is_whole = False
        room = max(0, self.left)
        if id(kind) in DICT_IDS:
            rows = [
                (self._key(key), self.plain(inner, depth + 1)) for key, inner in itertools.islice(value.items(), room)
            ]
            return self._cut([list(row) for row in rows]) if len(dict(rows)) < len(rows) else dict(rows)
        items = itertools.islice(value, room)
        if kind is set or kind is frozenset:  # so that equal sets look alike
            return sorted((self.plain(inner, depth + 1) for inner in items), key=lambda one: (str(type(one)), str(one)))
        return [self.plain(inner, depth + 1) for inner in items]

    def _key(self, key: Any) -> str:
        return key[:TEXT_MAX] if type(key) is str else _written(Walk().plain(key))[:TEXT_MAX]

    def _whole(self, value: int) -> Any:
        if -WHOLE_MAX <= value < WHOLE_MAX:
            return value
        return self._cut(str(value)[:TEXT_MAX] if value.bit_length() < DIGITS_BITS_MAX else brief(value))

    def _cut(self, what: Any) -> Any:
        self.is_whole = False
        return what


def show(value: Any) -> tuple[Any, bool]:
    """A small builtin as JSON, anything else as one line of text; and whether that is all of it."""
    walk = Walk()
    found = walk.plain(value)
    if type(found) is list or type(found) is dict:
        text = _written(found)
        if len(text) > TEXT_MAX:
            return text[:TEXT_MAX] + "...", False
    return found, walk.is_whole


def is_imported(value: Any) -> bool:
    """Whether it is a function or a class that somebody else wrote: a name, but nothing the user made."""
    kind = type(value)
    if kind is types.BuiltinFunctionType:
        return True
    if kind is types.FunctionType:
        return bool(value.__module__ != "__main__")
    return issubclass(kind, type) and type.__getattribute__(value, "__module__") != "__main__"


class VariableRow:
    """What was last seen of a name."""

    def __init__(self) -> None:
        self.ident = 0  # of the object; 0: not looked at yet
        self.held: Any = None  # the object itself if it can never change, so that its identity stays its own
        self.size: Any = None
        self.token = ""  # what was shown; "": nothing, for it is no variable

    def is_stale(self, value: Any, is_suspect: bool) -> bool:
        """Whether the name must be looked at again."""
        if self.ident != id(value):
            return True
        return self.held is None and (is_suspect or self.size != size(value))

    def take(self, value: Any) -> list[Any] | None:
        """Look: the type, what is shown, whether that is all; None for what is no variable of the user."""
        kind = type(value)
        self.ident = id(value)
        self.held = value if id(kind) in FIXED_IDS else None
        self.size = None if self.held is not None else size(value)
        if kind is types.ModuleType or is_imported(value):
            self.token = ""
            return None
        try:
            shows, is_whole = show(value)
        except Exception:  # noqa: BLE001  # another thread changes it while we look
            shows, is_whole = name_of(kind), False
        return [name_of(kind), shows, is_whole]


def size(value: Any) -> Any:
    """A cheap sign that a mutable object has changed."""
    if id(type(value)) in SIZED_IDS:
        return len(value)
    try:
        return shape(value)
    except Exception:  # noqa: BLE001  # a half-built object of a library
        return None


def track(namespace: dict[str, Any]) -> None:
    """Find names that are new, without walking over all the old ones: new keys of a dict are at its end."""
    fresh = list(itertools.takewhile(lambda name: name not in _seen, reversed(namespace)))
    _seen.update(fresh)
    if not _seen.issuperset(namespace):  # an old name was deleted and made again after a new one
        fresh = [name for name in reversed(namespace) if name not in _rows]
        _seen.update(fresh)
    for name in reversed(fresh):
        if type(name) is str and name[:1] != "_" and name not in _rows:
            _rows[name] = VariableRow()


def is_wild(value: Any) -> bool:
    """Whether code of the user stands behind it, which may change anything when it is called."""
    kind = type(value)
    if kind is types.FunctionType or issubclass(kind, type):
        return not is_imported(value)
    return kind is types.MethodType or type.__getattribute__(kind, "__module__") in ("__main__", "functools")


def variables(namespace: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
    """Look at what is new, changed, mentioned, or the same object as something mentioned; report what differs."""
    is_full = not _seq or asked.get("seq") != _seq
    if is_full:
        _rows.clear()
        _seen.clear()
    track(namespace)
    mentioned = [namespace[name] for name in asked.get("mentioned", ()) if name in namespace]
    touched = {id(value) for value in mentioned}
    is_suspect = is_full or bool(asked.get("is_wild")) or any(map(is_wild, mentioned))
    until = time.monotonic() + asked.get("budget_s", 0.25)
    changed: dict[str, list[Any]] = {}
    gone, count, is_complete = [], sum(1 for row in _rows.values() if row.token), True
    for name in reversed(list(_rows)):  # the newest first
        row = _rows[name]
        was = row.token
        if name not in namespace:
            del _rows[name]
            _seen.discard(name)
        elif row.is_stale(namespace[name], is_suspect or row.ident in touched):
            if time.monotonic() > until or (count >= NAMES_MAX and not was):
                is_complete = False
                continue
            entry = None if name in _hidden and _hidden[name] is namespace[name] else row.take(namespace[name])
            row.token = "" if entry is None else repr(entry)  # 1 and True are equal, their texts are not
            if entry is not None and row.token != was:
                changed[name] = entry
        if was and (name not in _rows or not row.token):
            gone.append(name)
        count += bool(row.token and name in _rows) - bool(was)
    report = dict(reversed(changed.items()))
    return {"changed": report, "gone": gone, "is_full": is_full, "is_complete": is_complete}


def evaluate(source: str, namespace: dict[str, Any]) -> dict[str, Any]:
    """The value of an expression, or the error it raised: never an exception."""
    try:
        value = eval(compile(source.strip(), "<expression>", "eval"), namespace, {})  # noqa: S307
        found, is_whole = show(value)
        return {"value": found, "type": name_of(type(value)), "is_whole": is_whole}
    except BaseException as error:  # noqa: BLE001  # SystemExit and KeyboardInterrupt too
        said = BaseException.args.__get__(error, BaseException)  # type: ignore[attr-defined]
        if len(said) == 1 or (said and issubclass(type(error), SyntaxError)):
            said = said[0]
        said = show(said)[0]
        return {"error": {"ename": name_of(type(error)), "evalue": said if type(said) is str else json.dumps(said)}}


def detail(name: str, value: Any, strategy: str, is_mentioned: bool) -> Any:
    """What a strategy says of a variable; the last answer if nothing about the variable has changed since."""
    token = (id(value), id(type(value)), brief(value))
    if not is_mentioned and (name, strategy) in _details and _details[name, strategy][0] == token:
        return _details[name, strategy][1]
    try:
        found = summary(sys.modules[__name__], value, strategy) if summary else brief(value)
    except Exception as error:  # noqa: BLE001  # a library's own trouble with this object
        found = f"{brief(value)} (not available: {name_of(type(error))})"
    _details[name, strategy] = (token, found)
    return found


def look(request: str) -> RawJson:
    """Answer one request: changed variables since its `seq`, details asked for, expressions evaluated."""
    global _seq  # noqa: PLW0603
    asked = json.loads(request)
    namespace = sys.modules["__main__"].__dict__ if _shell is None else _shell.user_ns
    answer: dict[str, Any] = {}
    if asked.get("expressions"):
        answer["expressions"] = {key: evaluate(text, namespace) for key, text in asked["expressions"].items()}
    answer.update(variables(namespace, asked))
    if asked.get("strategies"):
        mentioned = set(asked.get("mentioned", ()))
        answer["details"] = {
            name: detail(name, namespace[name], strategy, name in mentioned)
            for name, strategy in asked["strategies"].items()
            if name in namespace
        }
    deeds = sys.modules[__name__ + "_deed"].take() if __name__ + "_deed" in sys.modules else []
    if deeds:
        answer["deeds"] = deeds
    _seq += 1
    answer["seq"] = _seq
    return RawJson(json.dumps(answer))


def install() -> None:
    """Bind to the shell, and teach the kernel to send half characters instead of losing the whole message."""
    global _shell, _hidden  # noqa: PLW0603
    from IPython import get_ipython  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415

    _shell = get_ipython()
    _hidden = _shell.user_ns_hidden
    from jupyter_client.jsonutil import (  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415
        json_clean,
        json_default,
    )

    render = _shell._format_user_obj

    def pass_on(value: Any) -> Any:
        """Our own answer needs none of the ten formatters that look at every other value."""
        if type(value) is RawJson:
            return {"status": "ok", "data": {MIME: value.text}, "metadata": {}}
        return render(value)

    _shell._format_user_obj = pass_on
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
        stream.flush_interval = FLUSH_S  # type: ignore[union-attr]
        if getattr(stream, "_original_stdstream_copy", None) is None:
            stream._original_stdstream_copy = fd  # type: ignore[union-attr]  # fileno() of ours, for subprocesses
