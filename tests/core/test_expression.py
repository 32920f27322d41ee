"""The expression language: what it means, what it refuses, and that it agrees with Jinja2 where both speak."""

import json
import math
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jinja2 import ChainableUndefined, Environment

from detent.core.expression import compile_condition, compile_template, is_constant, names
from detent.core.expression.filter import FILTERS, TESTS
from detent.core.expression.step_filter import STEP_FILTERS
from detent.errors import DefinitionError, ExpressionError
from tests.effort import examples

SCOPE: dict[str, Any] = {
    "context": {"order": {"id": 7, "tags": ["new", "vip"], "total": 12.5}, "name": "Ada Lovelace", "none": None},
    "result": {"check": {"success": True, "score": 3}},
    "rows": [{"a": 1, "b": {"c": "x"}}, {"a": 3, "b": {"c": "y"}}, {"a": 2}],
    "attempt": 1,
    "text": "héllo",
    "nul": "a\0b",
    "truth": True,
}
HOSTILE = "x" * 1_000_000


def evaluate(source: str, scope: dict[str, Any] | None = None) -> Any:
    return compile_template("{{ " + source + " }}")(SCOPE if scope is None else scope)


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("context.order.id", 7),
        ("context['order'].id", 7),
        ("context.order.tags[0]", "new"),
        ("context.order.tags.1", "vip"),
        ("context.order.tags[-1]", "vip"),
        ("context.order.tags[9]", None),
        ("context.order.tags[true]", None),
        ("context.order.tags['x']", None),
        ("context.order.id.deeper.still", None),
        ("missing.entirely", None),
        ("context[missing]", None),
        ("rows[attempt].a", 3),
        ("text[1:3]", "él"),
        ("context.order.tags[:1]", ["new"]),
        ("text[::-1]", "olléh"),
        ("missing[1:]", None),
        ("1 + 2 * 3 - 4 / 8", 6.5),
        ("7 // 2", 3),
        ("-7 % 3", 2),
        ("2 ** 10", 1024),
        ("2 ** -1", 0.5),
        ("-attempt", -1),
        ("+attempt", 1),
        ("'a' + 'b'", "ab"),
        ("[1] + [2]", [1, 2]),
        ("'n=' ~ 1 ~ none ~ true ~ [1, {'b': 1, 'a': 2}]", 'n=1true[1,{"a":2,"b":1}]'),
        ("1 < 2 < 3", True),
        ("1 < 3 < 2", False),
        ("'a' < 'b'", True),
        ("1 == 1.0", True),
        ("true == 1", False),
        ("[1, true] == [1, 1]", False),
        ("{'a': [1, 2]} == {'a': [1, 2.0]}", True),
        ("{'a': 1} != {'a': 2}", True),
        ("[] == {}", False),
        ("none == missing", True),
        ("'vip' in context.order.tags", True),
        ("1 in [true]", False),
        ("'id' in context.order", True),
        ("'éll' in text", True),
        ("'x' in missing", False),
        ("'x' not in missing", True),
        ("attempt or 'x'", 1),
        ("missing or 'x'", "x"),
        ("0 and 1", 0),
        ("not missing", True),
        ("'yes' if attempt else 'no'", "yes"),
        ("'yes' if missing", None),
        ("(1, 2)", [1, 2]),
        ("{'a': attempt, text: 2}", {"a": 1, "héllo": 2}),
        ("[True, false, None, 1_000, 0x10, 1e3]", [True, False, None, 1000, 16, 1000.0]),
        ("self", None),
        ("nul", "a\0b"),
        ("'}}' ~ \"{{\"", "}}{{"),
        ("{'a': {'b': 1}}", {"a": {"b": 1}}),
    ],
)
def test_an_expression_has_this_value(source: str, value: Any) -> None:
    found = evaluate(source)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("context.name is defined", True),
        ("context.none is defined", True),
        ("context.nothing is defined", False),
        ("context.nothing.at.all is undefined", True),
        ("rows[2].b is defined", False),
        ("rows[attempt].b is defined", True),
        ("nothing is not defined", True),
        ("context.none is none", True),
        ("truth is true", True),
        ("attempt is true", False),
        ("truth is false", False),
        ("truth is boolean", True),
        ("truth is number", False),
        ("1.5 is number", True),
        ("truth is integer", False),
        ("1.0 is float", True),
        ("text is string", True),
        ("context is mapping", True),
        ("rows is sequence", True),
        ("context is sequence", False),
        ("3 is odd", True),
        ("3 is even", False),
        ("9 is divisibleby 3", True),
        ("'vip' is in context.order.tags", True),
        ("1 is eq 1.0", True),
        ("1 is ne 1", False),
        ("1 is lt 2 and 1 is le 1 and 2 is gt 1 and 2 is ge 2", True),
        ("'' is empty and [] is empty and {} is empty and missing is empty", True),
        ("0 is empty", False),
        ("false is empty", False),
    ],
)
def test_a_test_says_yes_or_no(source: str, value: bool) -> None:
    assert evaluate(source) is value


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("missing | default('x')", "x"),
        ("context.none | d('x')", "x"),
        ("'' | default('x')", ""),
        ("'' | default('x', true)", "x"),
        ("0 | default(5, boolean=true)", 5),
        ("rows | length", 3),
        ("missing | count", 0),
        ("'ABC' | lower", "abc"),
        ("'abc' | upper", "ABC"),
        ("12 | upper", "12"),
        ("'  a ' | trim", "a"),
        ("'ada loveLACE-king' | title", "Ada Lovelace-King"),
        ("'aDA' | capitalize", "Ada"),
        ("[1, 'a', none] | join(', ')", "1, a, "),
        ("'a,b,,c' | split(',')", ["a", "b", "", "c"]),
        ("' a  b ' | split", ["a", "b"]),
        ("'a,b,c' | split(',', 1)", ["a", "b,c"]),
        ("'aaa' | replace('a', 'b')", "bbb"),
        ("'aaa' | replace('a', 'b', 2)", "bba"),
        ("2.5 | round", 2.0),
        ("2.567 | round(2)", 2.57),
        ("2.1 | round(0, 'ceil')", 3.0),
        ("2.9 | round(method='floor')", 2.0),
        ("'42' | int", 42),
        ("'4.9' | int", 4),
        ("'x' | int", 0),
        ("none | int(7)", 7),
        ("'1.5' | float", 1.5),
        ("'x' | float(2.5)", 2.5),
        ("12.0 | string", "12.0"),
        ("-3 | abs", 3),
        ("rows | first", {"a": 1, "b": {"c": "x"}}),
        ("[] | first", None),
        ("'abc' | last", "c"),
        ("missing | last", None),
        ("[3, 1.5] | min", 1.5),
        ("['b', 'a'] | max", "b"),
        ("[] | max", None),
        ("[1, 2.5] | sum", 3.5),
        ("rows | sum('a')", 6),
        ("[2, 1, 3] | sort", [1, 2, 3]),
        ("[2, 1, 3] | sort(true)", [3, 2, 1]),
        ("rows | sort(attribute='a') | map(attribute='a') | list", [1, 2, 3]),
        ("[1, 1.0, true, 'a', 'a', [1], [1.0], [true]] | unique", [1, True, "a", [1], [True]]),
        ("[1, 2] | reverse", [2, 1]),
        ("'abc' | reverse", "cba"),
        ("{'b': 1, 'a': 2} | keys", ["b", "a"]),
        ("{'b': 1, 'a': 2} | values", [1, 2]),
        ("{'b': 1} | items", [["b", 1]]),
        ("missing | items", []),
        ("'ab' | list", ["a", "b"]),
        ("{'b': [1, 2.0], 'a': 'é'} | tojson", '{"a":"é","b":[1,2.0]}'),
        ("'{\"a\": [1, null]}' | fromjson", {"a": [1, None]}),
        ("rows | map(attribute='b.c')", ["x", "y", None]),
        ("rows | map(attribute='b.c', default='-')", ["x", "y", "-"]),
        ("[[1, 2], [3]] | map(attribute='0')", [1, 3]),
        ("rows | selectattr('a', 'gt', 1) | map(attribute='a')", [3, 2]),
        ("rows | selectattr('a', 'in', [1, 2]) | map(attribute='a')", [1, 2]),
        ("rows | selectattr('b') | length", 2),
        ("rows | rejectattr('b') | length", 1),
        ("rows | selectattr('b', 'true') | length", 0),
        ("rows | selectattr('b', 'defined') | length", 2),
        ("rows | rejectattr('a', 'odd') | map(attribute='a')", [2]),
        ("context | get('name')", "Ada Lovelace"),
        ("context | get('nothing', 5)", 5),
        ("rows | get(0) | get('a')", 1),
        ("'abcdef' | truncate(5)", "ab..."),
        ("'abcdef' | truncate(4, '')", "abcd"),
        ("'abc' | sha256", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        ("null | join(',')", ""),
        ("null | list", []),
        ("'x' | float", 0.0),
        ("[] | float(7)", 7),
        ("3 | float", 3.0),
    ],
)
def test_a_filter_gives_this_value(source: str, value: Any) -> None:
    found = evaluate(source)
    assert found == value
    assert type(found) is type(value)


def test_every_filter_and_test_of_the_table_is_tried_above() -> None:
    text = Path(__file__).read_text(encoding="utf-8")
    own = FILTERS.keys() - STEP_FILTERS.keys()  # those are the compiler's, and tried in tests/surfaces/test_steps.py
    assert {name for name in own if f"| {name}" in text} == own
    assert {name for name in TESTS if f" is {name}" in text} == set(TESTS)


@pytest.mark.parametrize(
    ("source", "verdict"),
    [
        ("{{ result.check.success and attempt < 3 }}", True),
        ("result.check.success and attempt < 3", True),
        ("  {{ missing }}  ", False),
        ("context.order.tags", True),
        ("0.0", False),
        ("{'a': {'b': 1}}", True),
        ("text == '{{'", False),
    ],
)
def test_a_condition_with_or_without_braces_is_a_boolean(source: str, verdict: bool) -> None:
    assert compile_condition(source)(SCOPE) is verdict


def test_a_whole_expression_keeps_its_type_and_mixed_text_interpolates() -> None:
    template = {
        "whole": "{{ context.order.tags }}",
        "mixed": "{{ attempt }}/{{ missing }}/{{ truth }}/{{ context.order.tags }}/{{ 1.0 }}/{{ text }}",
        "blank": " {{ attempt }}",
        "{{ key }}": [1, {"deep": ["{{ text }}!"]}],
        "json": '{"a": {"b": 1}}',
    }
    assert compile_template(template)(SCOPE) == {
        "whole": ["new", "vip"],
        "mixed": '1//true/["new","vip"]/1.0/héllo',
        "blank": " 1",
        "{{ key }}": [1, {"deep": ["héllo!"]}],
        "json": '{"a": {"b": 1}}',
    }


def test_order_and_newlines_of_a_template_are_kept() -> None:
    template = compile_template({"b": "x\r\n{{ attempt }}\r\n", "a": 1, "c": "{{ text }}"})
    assert json.dumps(template(SCOPE)) == json.dumps({"b": "x\r\n1\r\n", "a": 1, "c": "héllo"})


def test_constants_are_returned_as_they_are() -> None:
    value = {"a": [1, "text", {"b": None}], "dynamic": "{{ attempt }}"}
    constant = {"a": [1, "}} text {", {"b": None}]}
    assert compile_template(constant)(SCOPE) is constant
    assert compile_template(value)(SCOPE)["a"] is value["a"]
    assert compile_template("{{ context }}")(SCOPE) is SCOPE["context"]
    assert is_constant(constant)
    assert not is_constant(value)
    assert not is_constant("a {{ b }}")


def test_names_are_the_paths_that_are_read() -> None:
    assert names("{{ context.order and result.check.success }}") == {"context.order", "result.check.success"}
    assert names("a['b'].c[0].d + e[f.g].h | default(i.j, boolean=k)") == {"a.b.c", "e", "f.g", "i.j", "k"}
    assert names("(a.b or c).d is eq e and x[y:z] ~ {'k': m}") == {"a.b", "c", "e", "x", "y", "z", "m"}
    assert names("dear {{ a.b }} and {{ c }}") == {"a.b", "c"}
    assert names("1 + 1") == frozenset()
    with pytest.raises(DefinitionError):
        names("a b")


REFUSED_AT_LOAD = {
    "''.__class__.__mro__": "private",
    "x['__class__']": "private",
    "x|attr('__class__')": "unknown filter `attr`",
    "x.__init__.__globals__": "private",
    "cycler.__init__": "private",
    "_secret": "private",
    "_" + "x" * 3_000: "private",
    "x|" + "y" * 3_000: "unknown filter",
    "x.a._b.c": "private",
    "x|_upper": "private",
    "x is _odd": "private",
    "x|map(attribute='a.__class__')": "private",
    "x|selectattr('_a')": "private",
    "x|get('__class__')": "private",
    "＿＿class＿＿": "Invalid character in identifier",
    "x['＿class']": "private",
    "x|ｕpper": "unknown filter",
    "namespace()": "calls are not allowed; use a filter such as `| length`",
    "range(10**9)": "calls are not allowed",
    "x.items()": "calls are not allowed",
    "lipsum(n=5)": "calls are not allowed",
    "(x|upper)()": "calls are not allowed",
    "'{0.__class__}'|format(x)": "unknown filter `format`",
    "'%s'|format": "unknown filter `format`",
    "x|lenght": "unknown filter `lenght`, did you mean `length`?",
    "x|regex('a')": "unknown filter",
    "x is intger": "unknown test `intger`, did you mean `integer`?",
    "x|selectattr('a', 'equals')": "unknown test `equals`",
    "x|upper(1)": "filter `upper`: too many positional arguments",
    "x|replace('a')": "filter `replace`: missing a required argument: 'new'",
    "x|unique(work=1)": "filter `unique`: got an unexpected keyword argument 'work'",
    "x|join(*y)": "`*` and `**` arguments are not allowed",
    "x|map('upper')": "filter `map`",
    "x|a.b": "unknown filter `a.b`",
    "{% for x in y %}": "statements",
    "{% raw %}": "statements",
    "{# note #}": "comments",
    "# for x in y": "unexpected char '#'",
    "a b": "unexpected `b`",
    "a, b": "unexpected `,`",
    "a = 1": "unexpected `=`",
    "a }} b": "unexpected `}}`",
    "{{ a }} and {{ b }}": "one expression",
    "a == {{ b }}": "inside one `{{ }}`",
    "{{ {{ }} }}": "inside one `{{ }}`",
    "{{ a": "not closed",
    "{{ 'a }}": "unexpected char",
    "{{ a }": "not closed",
    "{{- a -}}": "trim",
    "{{+a}}": "trim",
    "": "an expression is missing",
    "{{   }}": "an expression is missing",
    "(": "unexpected",
    "(]": "unexpected ']'",
    "a[]": "one index",
    "a[1, 2]": "one index",
    "{1: 2}": "keys of a mapping must be text",
    "1e999": "infinite",
    "-1e999": "infinite",
    "9" * 1300: "4,096 bits",
    "'\\ud800'": "lone surrogate",
    "'\ud800'": "surrogates not allowed",
    "'\\d'": "unknown escape `\\d`",
    "'\\x'": "truncated",
    "a\0b": "unexpected char",
    "1.٢": "invalid",
    "a" * 4_001: "longer than 4,000 characters",
    "[" * 20_000: "longer than 4,000 characters",
    "[" * 3_000: "nested",
    "(" * 3_000: "nested",
    "{" * 3_000: "not closed",
    " a < {" + "{" * 3_000: "nested",
    "{'a':" * 600: "nested",
    "a[" * 1_500: "nested",
    "x|default(" * 300: "nested",
    "(" * 41 + "a" + ")" * 41: "nested",
    "not " * 900 + "a": "nested",
    "- " * 1_900 + "a": "nested",
    "-" * 3_999 + "a": "nested",
    "+" * 3_999 + "a": "nested",
    "a if b else " * 300 + "c": "nested",
    "a if b else (" * 45 + "c" + ")" * 45: "nested",
    "1" + "+1" * 1_900: "nested",
    "1" + "**1" * 1_300: "nested",
    "x" + "|upper" * 600: "nested",
    "x" + "|d(x" * 45 + ")" * 45: "nested",
    "a" + " if b" * 500: "nested",
    "(-" * 41 + "a" + ")" * 41: "nested",
    "(not not not not " * 35 + "a" + ")" * 35: "nested",
}


@pytest.mark.parametrize(("source", "problem"), REFUSED_AT_LOAD.items(), ids=range(len(REFUSED_AT_LOAD)))
def test_a_bad_or_hostile_source_is_refused_at_load(source: str, problem: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        compile_condition(source)
    assert problem in str(refused.value)
    assert len(str(refused.value)) < 600
    assert "\n" not in str(refused.value)
    str(refused.value).encode()


@pytest.mark.parametrize(
    "text",
    ["{% for x in y %}{{ x }}{% endfor %}", "{% raw %}x{% endraw %}", "a {# note #} b", "{{ a", "{{ a }} {{", "{{-1}}"],
)
def test_a_bad_text_is_refused_at_load(text: str) -> None:
    with pytest.raises(DefinitionError):
        compile_template({"deep": [text]})


def deep(levels: int) -> Any:
    value: Any = "{{ a }}"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("value", [deep(65), deep(100_000), math.nan, [math.inf], {1: "a"}, {"a": object()}, (1, 2)])
def test_a_template_that_is_not_json_is_refused_at_load(value: Any) -> None:
    with pytest.raises(DefinitionError):
        compile_template(value)


@pytest.mark.parametrize("text", ["${#array[@]}", "100%} {%", "}} alone", "{ {a} }", "# heading"])
def test_braces_that_open_nothing_are_text(text: str) -> None:
    assert is_constant(text)
    assert compile_template(text)({}) == text


@pytest.mark.parametrize(
    ("source", "holds"),
    [
        ("a" + ".b" * 1_900, False),
        (" or ".join(["x == 'a'"] * 300), True),
        (" and ".join(["attempt"] * 300), True),
        ("'a'" + "~'a'" * 900, True),
        ("1" + "<2" * 1_500, False),
        ("[" + "1," * 1_900 + "]", True),
        ("(" * 40 + "attempt" + ")" * 40, True),
        ("[" * 40 + "attempt" + "]" * 40, True),
        ("not " * 40 + "attempt", True),
        ("x" + "|upper" * 40, True),
    ],
)
def test_what_is_long_but_not_deep_works(source: str, holds: bool) -> None:
    assert bool(compile_condition(source)({"x": "a", "attempt": 1})) is holds


FAILS_AT_RUN = {
    "1 / 0": "division by zero",
    "1 // 0": "division by zero",
    "1 % 0.0": "division by zero",
    "0 ** -1": "division by zero",
    "4 is divisibleby 0": "division by zero",
    "'a' < 1": "not text and a number",
    "none < 1": "not null and a number",
    "true < 2": "not a boolean and a number",
    "[1] < [2]": "not a list and a list",
    "'a' * 10**9": "`*` does not work on text and a number",
    "[[1] * 10**9]": "`*` does not work on a list and a number",
    "true + 1": "`+` does not work on a boolean and a number",
    "missing + 1": "`+` does not work on null and a number",
    "'%s' % 1": "`%` does not work on text",
    "-'a'": "a number is needed, not text",
    "-true": "a number is needed, not a boolean",
    "2 ** (10**9)": "4,096 bits",
    "(10**1000) ** (10**1000)": "4,096 bits",
    "(10**1000) * (10**1000)": "4,096 bits",
    "2 ** 4095 + 2 ** 4095": "4,096 bits",
    "(-8) ** 0.5": "not a real number",
    "10.0 ** 400": "too large",
    "1e308 * 10": "infinite",
    "1e308 - -1e308": "infinite",
    "10 ** 1000 / 3": "too large",
    "10 ** 1000 + 0.5": "too large",
    "big ~ big": "1,000,000 characters",
    "big + 'x'": "1,000,000 characters",
    "big | replace('x', 'yy')": "1,000,000 characters",
    "big | replace('', 'yy')": "1,000,000 characters",
    "('xx' | list) | join(big)": "1,000,000 characters",
    "[big, big] | join": "1,000,000 characters",
    "[big, big] | tojson": "1,000,000 characters",
    "big | list": "100,000 items",
    "big | split('x')": "100,000 items",
    "many + many": "100,000 items",
    "many | map(attribute='x') + many": "100,000 items",
    "many | selectattr('x', 'in', many)": "too much work",
    "many | map(attribute=big)": "too much work",
    "[" + "many," * 200 + "] == [" + "copy," * 200 + "]": "too much work",
    "[" + "big|upper," * 40 + "]": "too much work",
    "1.5 | round(10**9)": "at most 30 digits",
    "1.5 | round(-10**9)": "at most 30 digits",
    "1.5 | round(1, 'up')": "'ceil'",
    "['a', 'b'] | sum": "a number is needed, not text",
    "[1, 'a'] | sort": "only numbers or texts have an order",
    "[1, none] | max": "only numbers or texts have an order",
    "'a' | abs": "a number is needed",
    "1.5 is odd": "a whole number is needed",
    "5 | length": "have a length",
    "5 | first + 1": "null and a number",
    "5 | join": "a list is needed",
    "5 | keys": "a mapping is needed",
    "[1] | upper": "text is needed, not a list",
    "'a' | split('')": "empty text",
    "text[::0]": "cannot be zero",
    "text['a':]": "a whole number is needed",
    "{1 + 1: 2}": "keys of a mapping must be text",
    "1 in 'abc'": "cannot look for a number in text",
    "'a' in 5": "cannot look for text in a number",
    "'{' | fromjson": "not JSON",
    "'NaN' | fromjson": "infinite",
    "'[1e999]' | fromjson": "infinite",
    "'-Infinity' | fromjson": "infinite",
    "'\\\"\\\\ud800\\\"' | fromjson": "lone surrogate",
    "brackets | fromjson": "nested",
    "'1e400' | float": "infinite",
    "'nan' | float": "infinite",
    "digits | int": "result too large",
    "[1] | map(attribute=1)": "named by text",
    "[1] | selectattr('a', text)": "unknown test",
    "nan": "infinite",
    "nan < 1": "infinite",
    "inf + 1": "infinite",
    "[nan] | tojson": "infinite",
    "'n' ~ nan": "infinite",
    "half | sha256": "lone surrogate",
    "thing ~ ''": "not JSON",
    "[thing] | tojson": "not JSON",
    "tower | tojson": "levels",
}


# Made only for the sources that name them: most are far too much.
AWKWARD: dict[str, Callable[[], Any]] = {
    "big": lambda: HOSTILE,
    "many": lambda: [[at] for at in range(60_000)],
    "copy": lambda: [[at] for at in range(60_000)],
    "brackets": lambda: "[" * 900_000,
    "digits": lambda: "9" * 900_000,
    "nan": lambda: math.nan,
    "inf": lambda: math.inf,
    "half": lambda: "\ud800",
    "thing": object,
    "tower": lambda: deep(100_000),
}


@pytest.mark.parametrize(("source", "problem"), FAILS_AT_RUN.items(), ids=range(len(FAILS_AT_RUN)))
def test_values_it_cannot_work_with_fail_in_words(source: str, problem: str) -> None:
    scope = SCOPE | {name: make() for name, make in AWKWARD.items() if name in source}
    with pytest.raises(ExpressionError) as failed:
        compile_template("{{ " + source + " }}")(scope)
    assert problem in str(failed.value)


def test_a_run_time_error_names_the_expression() -> None:
    with pytest.raises(ExpressionError, match=r"^`attempt / 0`: division by zero$"):
        compile_template({"a": ["text {{ attempt / 0 }}"]})(SCOPE)
    with pytest.raises(ExpressionError, match=r"^`attempt / 0`: division by zero$"):
        compile_condition("{{ attempt / 0 }}")(SCOPE)


def test_a_condition_does_not_look_at_what_it_skips() -> None:
    assert compile_condition("false and 1 / 0")({}) is False
    assert compile_condition("true or 1 / 0")({}) is True
    assert compile_condition("'x' if true else 1 / 0")({}) is True


def test_equality_of_towers_neither_recurses_nor_crashes() -> None:
    scope = {"a": deep(100_000), "b": deep(100_000)}
    assert compile_condition("a == b")(scope) is True
    assert compile_condition("a in [b]")(scope) is True


def test_the_work_of_one_template_is_bounded() -> None:
    sorts = "[" + "many|sort," * 300 + "]"
    many = list(range(100_000))
    with pytest.raises(ExpressionError, match="too much work"):
        compile_template(["{{ " + sorts + " }}"] * 50)({"many": many})


def test_a_deep_caller_gets_a_refusal_and_not_a_recursion_error() -> None:
    def dive(levels: int) -> None:
        if levels:
            dive(levels - 1)
        else:
            compile_condition("(" * 40 + "dive" + ")" * 40)

    with pytest.raises(DefinitionError, match="nested"):
        dive(sys.getrecursionlimit() - 400)


def test_escapes_never_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert evaluate(r"'a\\d\n\t\x41\u00e9'") == "a\\d\n\tAé"


def test_importing_the_module_does_not_import_jinja2() -> None:
    code = "import sys, detent.core.expression; sys.exit('jinja2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-9, 9), st.floats(-9, 9, width=16), st.text("ab \"'\\é", max_size=4)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abk"), inner, max_size=3),
    max_leaves=6,
)

# The shared subset, by kind of value. detent differs from Jinja2 by design, and this leaves out: booleans where
# numbers are (true == 1, true + 1, order, `is number`), null where undefined differs from it (missing paths stand only
# where both agree), text made from null, booleans and containers (~, join), repetition and formatting (* and % on text
# and lists), order of lists, attributes of Python objects (d.keys), case-blind sort, unique, min and max, truncate,
# and powers with other exponents than small whole numbers.
NUMBERS = ["i", "f", "d.n", "l[0]", "0", "1", "2", "3.5", "(-1)", "10"]
TEXTS = ["s", "d.s", "d['s']", "''", "'a'", "'B c'"]
LISTS = ["l", "d.l", "[1, 2, 3]", "[]", "[i, f, 1]", "l[1:]"]
ANY = ["x", "y", "d.x", "n", "d"]
MISSING = ["nope", "d.nope", "d.nope.more", "i.nope", "l[99]", "s[99]"]


def leaf(options: list[str]) -> st.SearchStrategy[str]:
    return st.sampled_from(options)


def mix(*parts: Any) -> st.SearchStrategy[str]:
    strategies = [part if isinstance(part, st.SearchStrategy) else st.just(part) for part in parts]
    return st.tuples(*strategies).map("".join)


def grow(depth: int) -> dict[str, st.SearchStrategy[str]]:
    """Source of each kind; `wild` may be of any kind, so that failing alike is compared too."""
    if depth == 0:
        kinds = {"number": leaf(NUMBERS), "text": leaf(TEXTS), "list": leaf(LISTS)}
        kinds["truth"] = leaf(["b", "true", "false", "(i > 0)", "(s == 'a')"])
        kinds["wild"] = st.one_of(*kinds.values(), leaf(ANY))
        return kinds
    kinds = grow(depth - 1)
    number, text, items, truth, wild = (kinds[kind] for kind in ("number", "text", "list", "truth", "wild"))
    plain = st.one_of(number, text)
    order = leaf([" < ", " <= ", " > ", " >= ", " == ", " != "])
    comparable = number | text | items
    grown = {
        "number": st.one_of(
            number,
            mix("(", number, leaf([" + ", " - ", " * ", " / ", " // ", " % "]), number, ")"),
            mix("(", number, " ** ", leaf(["0", "1", "2"]), ")"),
            mix("(-", number, ")"),
            mix("(", comparable, leaf(["|length", "|count"]), ")"),
            mix("(", number, "|abs)"),
            mix("(", number, "|round(", leaf(["0", "1", "2"]), leaf(["", ", 'floor'", ", 'ceil'"]), "))"),
            mix("(", plain, leaf(["|int", "|float", "|int(3)"]), ")"),
            mix("([", number, ", ", number, "]|", leaf(["sum", "min", "max", "first", "last"]), ")"),
            mix("(", number, " if ", truth, " else ", number, ")"),
        ),
        "text": st.one_of(
            text,
            mix("(", text, " + ", text, ")"),
            mix("(", text, " ~ ", plain, ")"),
            mix("(", text, leaf(["|upper", "|lower", "|trim", "|title", "|capitalize", "|reverse", "|string"]), ")"),
            mix("(", text, "|replace('a', ", text, "))"),
            mix("([", plain, ", ", plain, "]|join(", text, "))"),
            mix("(", text, leaf(["[1:]", "[:1]", "[::-1]", "[0:2]"]), ")"),
        ),
        "list": st.one_of(
            items,
            mix("(", items, " + ", items, ")"),
            mix("[", wild, ", ", wild, "]"),
            mix("(", items, leaf(["[1:]", "[:2]", "[::-1]"]), ")"),
            mix("(", items, leaf(["|list", "|reverse|list"]), ")"),
            mix("([", number, ", ", number, ", ", number, "]|sort)"),
            leaf(["(d|list)", "(rows|map(attribute='k')|list)", "(rows|selectattr('k', 'gt', 1)|list)"]),
        ),
        "truth": st.one_of(
            truth,
            mix("(", number, order, number, ")"),
            mix("(", text, order, text, ")"),
            mix("(", number, leaf([" < ", " <= "]), number, order, number, ")"),
            mix("(", comparable, leaf([" == ", " != "]), comparable, ")"),
            mix("(", text, leaf([" in ", " not in "]), text, ")"),
            mix("(", text, leaf([" in d", " in d.k", " not in ['a', 'b']"]), ")"),
            mix("(", number, leaf([" in ", " not in "]), leaf(["[1, 2, 3]", "[i, 2]"]), ")"),
            mix("(not ", wild, ")"),
            mix("(not ", leaf(MISSING), ")"),
            mix("(", leaf(MISSING) | wild, leaf([" is defined", " is undefined", " is not defined"]), ")"),
            mix("(", wild, leaf([" is none", " is string", " is mapping", " is boolean", " is integer"]), ")"),
            mix("(", wild, leaf([" is true", " is false", " is float"]), ")"),
            mix("(", number, leaf([" is eq ", " is ne ", " is lt ", " is ge "]), leaf(NUMBERS[:6]), ")"),
            mix("(", leaf(["i", "3", "4"]), leaf([" is odd", " is even", " is divisibleby 2"]), ")"),
        ),
    }
    grown["wild"] = st.one_of(
        *grown.values(),
        wild,
        mix("(", wild, leaf([" and ", " or "]), wild, ")"),
        mix("(", wild, " if ", wild, " else ", wild, ")"),
        mix("(", leaf(MISSING), "|default(", wild, "))"),
        mix("(", number, leaf([" + ", " - ", " < "]), text, ")"),
        mix("(", text, leaf([" - ", " / ", " < "]), items, ")"),
        mix("(n", leaf([" + ", " < "]), number, ")"),
        mix("{'a': ", wild, ", 'b': ", wild, "}"),
    )
    return grown


scopes = st.fixed_dictionaries(
    {
        "i": st.integers(-9, 9),
        "f": st.floats(-9, 9, width=16),
        "b": st.booleans(),
        "s": st.text("abC \"'é", max_size=5),
        "n": st.none(),
        "l": st.lists(st.integers(-9, 9), min_size=1, max_size=4),
        "x": values,
        "y": values,
        "rows": st.lists(st.fixed_dictionaries({"k": st.integers(0, 3)}), max_size=3),
        "d": st.fixed_dictionaries(
            {
                "n": st.integers(-9, 9),
                "s": st.text("ab", max_size=3),
                "l": st.lists(st.integers(-9, 9), max_size=4),
                "x": values,
                "k": st.lists(st.sampled_from("ab"), max_size=2),
            }
        ),
    }
)

JINJA = Environment(undefined=ChainableUndefined)  # noqa: S701 - expressions, not pages


def by_jinja(source: str, scope: dict[str, Any]) -> Any:
    return JINJA.compile_expression(source, undefined_to_none=True)(**scope)


@settings(max_examples=examples(1_000), deadline=None, suppress_health_check=list(HealthCheck))
@given(source=grow(2)["wild"] | leaf(MISSING), scope=scopes)
def test_the_shared_subset_means_what_it_means_in_jinja2(source: str, scope: dict[str, Any]) -> None:
    before = json.dumps(scope)
    try:
        expected = by_jinja(source, scope)
    except Exception as error:  # noqa: BLE001 - Jinja2 lets every kind of error out
        with pytest.raises(ExpressionError):
            pytest.fail(f"jinja: {error!r}, detent: {evaluate(source, scope)!r}")
        return
    found = evaluate(source, scope)
    assert repr(found) == repr(expected)
    assert compile_condition(source)(scope) is bool(expected)
    assert json.dumps(scope) == before


TOKENS = [
    *"abx_.,:()[]{}|~+-*/%<>=!'\"\\#\0 \n",
    *("{{", "}}", "{%", "%}", "{#", "#}", "**", "//", "==", "<=", "__class__", "'a'", "'", "é", "＿a", "\ud800"),
    *("0", "1", "-1", "2.5", "1e999", "999999999", "true", "none", " not ", " and ", " or ", " in ", " is "),
    *(" if ", " else ", "[0]", "['k']", "[1:]", "()", ".k", "x.k", "{'k': x}", "[x, 1]", "(x)", "**x"),
    *(f"|{name}" for name in FILTERS),
    *(f"|{name}(x)" for name in FILTERS),
    *(f"|{name}('a', 2)" for name in FILTERS),
    *(f" is {name} x " for name in TESTS),
]
words = st.lists(st.sampled_from(TOKENS), max_size=14).map("".join)


def tried(source: str, scope: dict[str, Any]) -> None:
    try:
        condition = compile_condition(source)
        names(source)
    except DefinitionError:
        return
    try:
        assert condition(scope) is condition(scope)
    except ExpressionError:
        return


@settings(max_examples=examples(2_000), deadline=None)
@given(source=words, value=values)
def test_nothing_but_our_own_errors_comes_out_of_any_text(source: str, value: Any) -> None:
    scope = {"x": value, "a": value, "b": 3}
    tried(source, scope)
    tried("x" + source, scope)
    try:
        compile_template({"t": "pre " + source, "whole": "{{ x" + source + " }}"})(scope)
    except (DefinitionError, ExpressionError):
        return


calls = st.builds(
    lambda name, given: f"x|{name}({', '.join(given)})",
    st.sampled_from(sorted(FILTERS)),
    st.lists(st.sampled_from(["y", "'a'", "1", "-1", "none", "''", "true", "reverse=y", "attribute='a'"]), max_size=3),
)


@settings(max_examples=examples(2_000), deadline=None)
@given(source=calls, x=values, y=values)
def test_a_filter_takes_any_values_and_gives_json_or_our_own_error(source: str, x: Any, y: Any) -> None:
    try:
        template = compile_template("{{ " + source + " }}")
    except DefinitionError:
        return
    try:
        value = template({"x": x, "y": y})
    except ExpressionError:
        return
    assert json.loads(json.dumps(value, allow_nan=False)) == value
    assert template({"x": x, "y": y}) == value
