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
        found = OPERATOR.fullmatch(key)
        if found is not None:
            other = paths.expression(str(given)) if found[3] else json.dumps(given, ensure_ascii=False)
            return f"{value} {COMPARISONS[found[2]]} {other}"
    raise NotCarried(f"the rule {', '.join(key for key in rule if key not in ('Next', 'Variable'))} has no counterpart")
