"""The expressions `{{ … }}` of workflow files: Jinja2's grammar over JSON values, compiled at load.

There are no calls, no attributes of Python objects and no statements, and every size is capped. A missing
path is null, a boolean is not a number (`true == 1` is false), and a result may share parts with the scope:
values are immutable.

`template` finds the expressions in a text, `parser` turns one into Jinja2's tree, `compiler` turns the tree into
closures, `filter` and `value_operation` are what these call. docs/decisions/0017 says why it is our own.
"""

from detent.core.expression.parser import parse, unwind
from detent.core.expression.template import (
    compile_condition,
    compile_template,
    inner_of,
    is_constant,
    list_needed,
    names,
)

__all__ = [
    "compile_condition",
    "compile_template",
    "inner_of",
    "is_constant",
    "list_needed",
    "names",
    "parse",
    "unwind",
]
