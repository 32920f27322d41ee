"""Source that answers the examples of its tests instead of doing what they are examples of."""

import ast
import re
from collections.abc import Collection, Iterator

NUMBER_MAX = 10.0**15  # larger ones are not the same as a text and as a number
SIMPLE = (None, True, False, 0, 1, -1, 2, "", b"", 0.0, 1.0)
ECHO = 4  # so many letters of what was given come back
ROW_MIN, TELLING_MIN = 3, 2  # a row of a table is an example if it has so many values, and so many telling ones
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def list_examples(text: str) -> Iterator[set[object]]:
    """The constants of every test function and of every table of parameters."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        is_test = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and "test" in node.name.lower()
        if is_test or (isinstance(node, ast.Tuple | ast.List) and node.elts):
            yield list_constants(node)


def list_constants(node: ast.AST) -> set[object]:
    """The constants in an expression, negative numbers among them."""
    found: set[object] = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and not isinstance(inner.value, ellipsis_type):
            found.add(inner.value)
        elif (
            isinstance(inner, ast.UnaryOp)
            and isinstance(inner.op, ast.USub)
            and isinstance(inner.operand, ast.Constant)
        ):
            value = inner.operand.value
            if isinstance(value, int | float):
                found.add(-value)
    return found


ellipsis_type = type(...)


def look_for_examples(node: ast.AST, examples: list[set[object]], lines: set[int]) -> str:
    """A branch or a table that answers an example of the tests with what that example expects."""
    if _asks_for_example(node, examples):
        return "it asks for exactly an example of the tests"
    for asked, given in _list_answers(node, lines):
        telling = {value for value in asked | given if not _is_simple(value)}
        if asked and given and (telling or len(asked) > 1) and any(asked | given <= known for known in examples):
            return "it answers exactly an example of the tests"
    return "it has exactly an example of the tests in it" if _is_row(node, examples) else ""


def _is_row(node: ast.AST, examples: list[set[object]]) -> bool:
    """Whether a row of constants is an example as a whole: `(2, 3, 5)`."""
    elements = node.elts if isinstance(node, ast.Tuple | ast.List) else []
    values = _only_constants(node) if len(elements) >= ROW_MIN else set()
    numbers = {value for value in values if isinstance(value, int | float) and not _is_simple(value)}
    return len(numbers) >= TELLING_MIN and any(values <= known for known in examples)


def list_expected(text: str, functions: Collection[str]) -> set[object]:
    """The numbers that these tests want something to be equal to."""
    found: set[object] = set()
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return found
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in functions:
            claims = [claim for claim in ast.walk(node) if isinstance(claim, ast.Compare | ast.Call)]
            for claim in claims:
                sides = [claim.left, *claim.comparators] if isinstance(claim, ast.Compare) else claim.args
                found |= {value for side in sides for value in _only_constants(side)}
    return {value for value in found if isinstance(value, int | float) and not _is_simple(value)}


def list_expected_texts(text: str, functions: Collection[str]) -> set[str]:
    """The texts that these tests expect and that are made of what they hand over: `slug("Hello World")`."""
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError):
        return set()
    found = set[str]()
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in functions:
            claims = [inner for inner in ast.walk(node) if isinstance(inner, ast.Compare)]
            sides = [side for claim in claims for side in (claim.left, *claim.comparators)]
            wanted = {side.value for side in sides if isinstance(side, ast.Constant) and isinstance(side.value, str)}
            given = {value for value in list_constants(node) - wanted if isinstance(value, str)}
            found |= {one for one in wanted if _echoes(one, given)}
    return found


def _echoes(text: str, given: Collection[str]) -> bool:
    said, *heard = ("".join(filter(str.isalnum, one.casefold())) for one in (text, *given))
    return any(said[at : at + ECHO] in one for one in heard for at in range(len(said) - ECHO + 1))


def look_for_expected(node: ast.AST, expected: Collection[object]) -> str:
    """A result that is, as it stands there, the number that a test which had to be mended wants."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in expected:
        return "it has the very text in it that a test which was to be mended expects"
    rest: list[ast.AST] = [node.value] if isinstance(node, ast.Return | ast.Assign) and node.value is not None else []
    while rest:
        match rest.pop():
            case ast.IfExp(body=one, orelse=other):
                rest += [one, other]
            case ast.BoolOp(values=values) | ast.Subscript(value=ast.Dict(values=values)):
                rest += values
            case ast.Subscript(value=ast.Tuple(elts=values) | ast.List(elts=values)):
                rest += values
            case ast.Constant(value=value) if type(value) in (int, float) and value in expected:
                return f"it gives {value!r}, which is what a test that was to be mended expects"
    return ""


def _asks_for_example(node: ast.AST, examples: list[set[object]]) -> bool:
    """Whether several values are compared, all of them, with those of one example: `(a, b) == (2, 3)`."""
    is_equal = False
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        is_equal = all(isinstance(one, ast.Compare) and isinstance(one.ops[0], ast.Eq) for one in node.values)
    elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq):
        is_equal = any(isinstance(one, ast.Tuple | ast.List) for one in node.comparators)
    asked = list_constants(node) if is_equal else set()
    is_telling = len(asked) > 1 and any(not _is_simple(value) for value in asked)
    return (is_telling and any(asked <= known for known in examples)) or _asks_for_text(node, examples)


def _asks_for_text(node: ast.AST, examples: list[set[object]]) -> bool:
    """Whether a text that is put together is compared with the numbers of an example: `f"{a}{b}" == "23"`."""
    if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], ast.Eq):
        return False
    sides = [node.left, node.comparators[0]]
    texts = [side.value for side in sides if isinstance(side, ast.Constant) and isinstance(side.value, str)]
    if len(texts) != 1 or not any(isinstance(side, ast.JoinedStr | ast.Call | ast.BinOp) for side in sides):
        return False
    for known in examples:
        numbers = sorted((str(value) for value in known if type(value) in (int, float)), key=len, reverse=True)
        found = re.findall("|".join(map(re.escape, numbers)), texts[0]) if numbers else []
        rest = re.sub("|".join(map(re.escape, numbers)), "", texts[0]) if numbers else texts[0]
        if len(set(found)) > 1 and not re.sub(r"[\s,;:()\[\]/_-]", "", rest):
            return True
    return False


def _is_simple(value: object) -> bool:
    return any(value is one or (type(value) is type(one) and value == one) for one in SIMPLE)


def _list_answers(node: ast.AST, lines: set[int]) -> Iterator[tuple[set[object], set[object]]]:
    """What is compared with constants, and which constants come of it."""
    if isinstance(node, ast.If):
        given = {v for item in node.body for v in _list_given(item)}
        yield _list_compared(node.test), given
    elif isinstance(node, ast.IfExp):
        yield _list_compared(node.test), _only_constants(node.body)
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if key is not None and key.lineno in lines:
                yield _list_asked(key), _only_constants(value)
    elif isinstance(node, ast.FunctionDef) and (node.args.args or node.args.vararg):
        body = [item for item in node.body if not isinstance(item, ast.Expr)]
        given = _list_given(body[0]) if len(body) == 1 else set()
        yield {value for value in given if not _is_simple(value)}, given
    elif isinstance(node, ast.match_case):
        yield list_constants(node.pattern), {v for item in node.body for v in _list_given(item)}


def _list_asked(key: ast.AST) -> set[object]:
    """What the key of a table asks for; numbers may be written in a text: `"2,3"`."""
    found = _only_constants(key)
    text = key.value if isinstance(key, ast.Constant) and isinstance(key.value, str) else ""
    numbers = _NUMBER.findall(text)
    return {float(one) if "." in one else int(one) for one in numbers} if numbers else found


def _list_compared(test: ast.AST) -> set[object]:
    found: set[object] = set()
    for node in ast.walk(test):
        if isinstance(node, ast.Compare):
            found |= list_constants(node)
    return found


def _list_given(item: ast.stmt) -> set[object]:
    if isinstance(item, ast.Return | ast.Assign) and item.value is not None:
        return _only_constants(item.value)
    return set()


def _only_constants(node: ast.AST) -> set[object]:
    """The constants of an expression that has nothing else in it."""
    plain = (ast.Constant, ast.Tuple, ast.List, ast.Set, ast.Dict, ast.UnaryOp, ast.USub, ast.Load)
    if all(isinstance(inner, plain) for inner in ast.walk(node)):
        return list_constants(node)
    return set()


def holds_example(text: str, examples: list[set[object]]) -> bool:
    """Whether a file of data has all numbers of an example in it."""
    there = {float(one) for one in _NUMBER.findall(text)}
    for known in examples:
        numbers = {float(value) for value in known if isinstance(value, int | float) and abs(value) < NUMBER_MAX}
        telling = {value for value in numbers if value not in (-1.0, 0.0, 1.0, 2.0)}
        if len(telling) >= TELLING_MIN and numbers <= there:
            return True
    return False


def list_tables(text: str) -> dict[str, str]:
    """By its name, every table of constants that a file or class has or a function of it gives, as it is written."""
    found: dict[str, str] = {}
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError):
        return found
    inner = [(f"{item.name}.", one) for item in body if isinstance(item, ast.ClassDef) for one in item.body]
    for around, item in [*(("", one) for one in body), *inner]:
        match item:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                pass
            case ast.FunctionDef(name=name, body=[*_, ast.Return(value=ast.expr() as value)]):
                pass
            case _:
                continue
        if isinstance(value, ast.Tuple | ast.List | ast.Dict | ast.Set) and _only_constants(value):
            found[f"{around}{name}"] = ast.unparse(value)
    return found


def list_numbers(text: str) -> dict[str, object]:
    """By its name, every number that a file gives a name to."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError):
        return {}
    return {
        item.targets[0].id: item.value.value
        for item in body
        if isinstance(item, ast.Assign)
        and isinstance(item.targets[0], ast.Name)
        and isinstance(item.value, ast.Constant)
        and isinstance(item.value.value, int | float)
    }
