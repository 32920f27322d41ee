"""Names that somebody puts together so that nobody finds them: `"_py" + "test"`, `getattr(sys, name)`.

What is made of constants only is worked out; what is looked up in another module by a name that is made at run time is
said to be so.
"""

import ast
import re
from collections.abc import Iterator, Mapping

TEXT_MAX = 1000
INSIDES = ("sys", "os", "inspect", "builtins")  # which other modules have imported, too
_PLAIN = re.compile(r"(?:[^%{}]|%s|\{\d?\})*")  # a pattern that only joins what it is given
_METHODS = ("lower", "upper", "strip", "swapcase", "casefold", "title", "decode", "encode", "replace", "removeprefix",
            "removesuffix", "lstrip", "rstrip", "format")  # fmt: skip
_LOOKING = ("getattr", "setattr", "delattr", "hasattr")
_IMPORTING = ("import_module", "__import__", "find_spec", "run_module", "resolve_name", "attrgetter", "methodcaller")


class Disguises:
    """What is known of one file: its constants by name, and the names that stand for modules."""

    def __init__(self, tree: ast.Module) -> None:
        self.modules = dict(_list_modules(tree))
        self._constants: dict[str, str] = {}
        nodes = list(ast.walk(tree))
        self._functions = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
        self._origins = {
            one.asname or one.name: f"{node.module}.{one.name}"
            for node in nodes
            if isinstance(node, ast.ImportFrom)
            for one in node.names
        }
        self.imported = set(self._origins)
        for node in nodes:
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                name, value = node.targets[0].id, self.work_out(node.value)
                if value is not None:
                    self._constants[name] = value
                if isinstance(node.value, ast.Name) and node.value.id in self.modules:
                    self.modules[name] = self.modules[node.value.id]
                if isinstance(node.value, ast.Attribute) and node.value.attr in INSIDES:
                    self.modules[name] = node.value.attr

    def is_function(self, node: ast.AST) -> bool:
        """Whether an expression is a function of this file."""
        return isinstance(node, ast.Lambda) or (isinstance(node, ast.Name) and node.id in self._functions)

    def name_of(self, node: ast.AST) -> str:
        """The name of something of another module, with the module's own: `subprocess.Popen`."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            module = self.modules.get(node.value.id, "")
            return f"{module}.{node.attr}" if module else ""
        return self._origins.get(node.id, "") if isinstance(node, ast.Name) else ""

    def work_out(self, node: ast.AST | None) -> str | None:
        """The text that an expression of constants comes to; None: it is no such expression, or a long one."""
        found = self._work_out(node)
        return found if found is not None and len(found) <= TEXT_MAX else None

    def _work_out(self, node: ast.AST | None) -> str | None:
        if isinstance(node, ast.Constant):
            return _decode(node.value)
        if isinstance(node, ast.Name):
            return self._constants.get(node.id)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self._join("", [node.left, node.right])
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            given = list(node.right.elts) if isinstance(node.right, ast.Tuple) else [node.right]
            return self._call("__mod__", self.work_out(node.left), [self.work_out(one) for one in given])
        if isinstance(node, ast.JoinedStr):
            return self._join("", [one.value if isinstance(one, ast.FormattedValue) else one for one in node.values])
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
            return _slice(self.work_out(node.value), node.slice)
        return self._work_out_call(node) if isinstance(node, ast.Call) and not node.keywords else None

    def _work_out_call(self, call: ast.Call) -> str | None:
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        first = call.args[0] if call.args else None
        listed = list(first.elts) if isinstance(first, ast.List | ast.Tuple) else []
        if name in ("chr", "bytes", "bytearray") and (listed or name == "chr"):
            return _spell([getattr(one, "value", None) for one in (listed or call.args[:1])])
        if name in ("str", "bytes", "fromhex"):
            return _unhex(self.work_out(first)) if name == "fromhex" else self.work_out(first)
        if not isinstance(call.func, ast.Attribute):
            return None
        if name == "join" and listed:
            return self._join(self.work_out(call.func.value), listed)
        return self._call(name, self.work_out(call.func.value), [self.work_out(arg) for arg in call.args])

    def _call(self, name: str, whole: str | None, given: list[str | None]) -> str | None:
        """A method of a text."""
        if whole is None or name not in (*_METHODS, "__mod__") or None in given:
            return None
        if name in ("decode", "encode"):
            return whole
        if name in ("format", "__mod__") and not _PLAIN.fullmatch(whole):
            return None
        try:
            return str(whole % tuple(given) if name == "__mod__" else getattr(whole, name)(*given))
        except (TypeError, ValueError, IndexError):
            return None

    def _join(self, between: str | None, nodes: list[ast.expr]) -> str | None:
        found = [self.work_out(node) for node in nodes]
        known = [one for one in found if one is not None]
        return between.join(known) if between is not None and len(known) == len(found) else None

    def find_lookup(self, node: ast.AST) -> str:
        """What is looked up in a module by a name that is not written down; empty: nothing."""
        if isinstance(node, ast.Attribute) and node.attr == "__dict__" and self._module_of(node.value):
            return f"all names of `{self._module_of(node.value)}`"
        if not isinstance(node, ast.Call) or not node.args:
            return ""
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in _IMPORTING:
            return "" if isinstance(node.args[0], ast.Constant) else f"something by `{name}`"
        module = self._module_of(node.args[0])
        is_open = len(node.args) < 2 or not isinstance(node.args[1], ast.Constant)
        if module and (name in ("vars", "dir") or (name in _LOOKING and is_open)):
            return f"a name of `{module}`"
        return ""

    def _module_of(self, node: ast.AST) -> str:
        """The module that an expression stands for."""
        return self.modules.get(node.id, "") if isinstance(node, ast.Name) else ""


def _list_modules(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (
                    alias.asname or alias.name.partition(".")[0],
                    alias.name if alias.asname else alias.name.partition(".")[0],
                )
        elif isinstance(node, ast.ImportFrom):
            yield from ((alias.asname or alias.name, alias.name) for alias in node.names if alias.name in INSIDES)


def _decode(value: object) -> str | None:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return value if isinstance(value, str) else None


def _spell(codes: list[object]) -> str | None:
    known = [code for code in codes if isinstance(code, int) and 0 <= code < 0x110000]
    return "".join(map(chr, known)) if len(known) == len(codes) else None


def _unhex(text: str | None) -> str | None:
    try:
        return bytes.fromhex(text).decode("latin-1") if text is not None else None
    except ValueError:
        return None


def _slice(whole: str | None, piece: ast.Slice) -> str | None:
    """A part of a text between constant bounds."""
    if whole is None:
        return None
    bounds: list[int | None] = []
    for bound in (piece.lower, piece.upper, piece.step):
        try:
            value = ast.literal_eval(bound) if bound is not None else None
        except ValueError:
            return None
        if value is not None and not isinstance(value, int):
            return None
        bounds.append(value)
    return whole[slice(*bounds)] if bounds[2] != 0 else None


def list_texts(tree: ast.Module, known: Disguises) -> Mapping[int, str]:
    """By the identity of its node: every text that is put together, as a whole."""
    found: dict[int, str] = {}
    inner: set[int] = set()
    for node in ast.walk(tree):
        if id(node) in inner or isinstance(node, ast.Constant | ast.Name):
            continue
        text = known.work_out(node)
        if text is not None:
            found[id(node)] = text
            inner |= {id(one) for one in ast.walk(node)} - {id(node)}
    return found
