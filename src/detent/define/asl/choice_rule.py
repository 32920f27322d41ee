"""The rules of Choice states, as conditions."""

import json
import re
from typing import Any

from detent.define.asl.path_expression import NotCarried, Paths

COMPARISONS = {
    "Equals": "==",
    "LessThan": "<",
    "GreaterThan": ">",
    "LessThanEquals": "<=",
    "GreaterThanEquals": ">=",
}
KINDS = ("String", "Numeric", "Boolean", "Timestamp")
TESTS = {"IsNull": "none", "IsString": "string", "IsNumeric": "number", "IsBoolean": "boolean", "IsPresent": "defined"}
OPERATOR = re.compile(rf"({'|'.join(KINDS)})({'|'.join(COMPARISONS)})(Path)?")


def condition(rule: dict[str, Any], paths: Paths) -> str:
    """A rule as a condition, without braces."""
    for word, joint in (("And", " and "), ("Or", " or ")):
        if word in rule:
            return joint.join(f"({condition(one, paths)})" for one in rule[word])
    if "Not" in rule:
        return f"not ({condition(rule['Not'], paths)})"
    if "Condition" in rule:
        raise NotCarried("conditions in JSONata have no counterpart")
    value = paths.expression(str(rule.get("Variable", "")))
    for key, given in rule.items():
        if key in TESTS:
            said = f"{value} is {TESTS[key]}"
            return said if given else f"not ({said})"
        if key == "StringMatches":
            return _matches(value, str(given))
        found = OPERATOR.fullmatch(key)
        if found is not None:
            other = paths.expression(str(given)) if found[3] else json.dumps(given, ensure_ascii=False)
            return f"{value} {COMPARISONS[found[2]]} {other}"
    raise NotCarried(f"the rule {', '.join(key for key in rule if key not in ('Next', 'Variable'))} has no counterpart")


def _matches(value: str, pattern: str) -> str:
    """A text with at most one `*` in it: how it begins and how it ends."""
    if "\\" in pattern or pattern.count("*") > 1:
        raise NotCarried("the rule StringMatches with several `*`, or with `\\`, has no counterpart")
    begin, star, end = pattern.partition("*")
    if not star:
        return f"{value} == {json.dumps(begin, ensure_ascii=False)}"
    said = [f"{value} is string", f"{value} | length >= {len(begin) + len(end)}"]
    said += [f"{value}[:{len(begin)}] == {json.dumps(begin, ensure_ascii=False)}"] if begin else []
    said += [f"{value}[-{len(end)}:] == {json.dumps(end, ensure_ascii=False)}"] if end else []
    return " and ".join(said)
