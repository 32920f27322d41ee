"""The grammar of `steps:` files as one table: every key, what may stand there, and what it is for.

A key that is not in the table is a warning and no error: these files come from elsewhere and run unchanged.
"""

from typing import Any

from detent.define.compile_context import Page, kind_of
from detent.define.document import Route
from detent.define.grammar import Key, Shape
from detent.define.key_check import Fields, fields

MILLISECONDS_MAX = 2**31 - 1
ON_ERROR = ("stop", "continue", "skip_rest")
DEEDS = ("run", "command", "pipeline", "workflow", "parallel", "for_each")

FILE: Shape = {
    "name": Key("label", "What the workflow is called."),
    "description": Key("label", "What it is for."),
    "triggers": Key("triggers", "What starts runs when nobody does, by name; armed with `detent trigger add`."),
    "version": Key("label", "The author's label; never interpreted."),
    "args": Key("one", "The arguments of a run, each with a `default` and a `description`."),
    "env": Key("one", "Environment variables of every step."),
    "cwd": Key("text", "The folder every step works in."),
    "cost_limit": Key("one", "How many dollars a run may cost, and what to do then.", of="cost_limit"),
    "unsafe_substitution": Key("flag", "Put arguments and results into shell lines as code, as the original does."),
    "login_shell": Key("flag", "Run shell lines in a login shell, `sh -lc`."),
    "steps": Key("many", "The steps, done one after the other.", is_needed=True, of="step"),
}
_WORK: Shape = {
    "id": Key("text", "The step's name; what it gave is read as `$ID.stdout` and `$ID.json`.", is_needed=True),
    "run": Key("text", "A shell line."),
    "command": Key("text", "The same as `run`."),
    "pipeline": Key("text", "Native stages, joined by `|`."),
    "env": Key("one", "Further environment variables."),
    "cwd": Key("text", "The folder to work in."),
    "stdin": Key("one", "What the step reads: a reference, a text, or a value."),
    "approval": Key("one", "Ask a person first: true, `required`, a prompt, or a mapping."),
    "input": Key("one", "Ask a person for data.", of="input"),
    "when": Key("one", "Do it only if this holds."),
    "condition": Key("one", "The same as `when`."),
    "timeout_ms": Key("one", "How long it may take, in milliseconds."),
    "on_error": Key("choice", "What follows when it fails; stop by default.", choices=ON_ERROR),
    "retry": Key("one", "Try again when it fails; such a step may be done twice.", of="retry"),
    "description": Key("label", "What it does."),
    "name": Key("label", "A title for people."),
}
STEP: Shape = {
    **_WORK,
    "workflow": Key("text", "Another file to run as a child."),
    "workflow_args": Key("one", "What that file is given."),
    "parallel": Key("one", "Branches that go on side by side.", of="parallel"),
    "for_each": Key("text", "A reference to the list to go through."),
    "steps": Key("many", "What to do for every item.", of="branch"),
    "item_var": Key("text", "What an item is called; `item` by default."),
    "index_var": Key("text", "What its position is called; `index` by default."),
    "batch_size": Key("positive", "After how many items to pause; 1 by default."),
    "pause_ms": Key("one", "How long to pause, in milliseconds."),
}
BRANCH: Shape = _WORK
PARALLEL: Shape = {
    "wait": Key("choice", "How many branches must succeed: all, or any one.", choices=("all", "any")),
    "timeout_ms": Key("one", "How long the branches may take, in milliseconds."),
    "branches": Key("many", "The branches.", is_needed=True, of="branch"),
}
RETRY: Shape = {
    "max": Key("positive", "How many attempts there are in all."),
    "backoff": Key("choice", "How the delay grows.", choices=("fixed", "exponential")),
    "delay_ms": Key("one", "The first delay, in milliseconds; 1000 by default."),
    "max_delay_ms": Key("one", "The longest delay, in milliseconds; 30000 by default."),
    "jitter": Key("flag", "Whether the delay varies."),
}
APPROVAL: Shape = {
    "prompt": Key("text", "What is asked."),
    "items": Key("one", "What it is about, as a list."),
    "preview": Key("text", "What it is about, as a text."),
    "initiated_by": Key("text", "Who wants it done."),
    "initiatedBy": Key("text", "The same as `initiated_by`."),
    "required_approver": Key("text", "Who alone may say yes."),
    "requiredApprover": Key("text", "The same as `required_approver`."),
    "require_different_approver": Key("flag", "Whoever wants it done may not say yes."),
    "requireDifferentApprover": Key("flag", "The same as `require_different_approver`."),
}
INPUT: Shape = {
    "prompt": Key("text", "What is asked.", is_needed=True),
    "responseSchema": Key("one", "JSON Schema of the answer.", is_needed=True),
    "defaults": Key("one", "What the form begins with."),
}
COST: Shape = {
    "max_usd": Key("amount", "How many dollars.", is_needed=True),
    "action": Key("choice", "What to do then; warn by default.", choices=("warn", "stop")),
}
SHAPES = {
    "file": FILE,
    "step": STEP,
    "branch": BRANCH,
    "parallel": PARALLEL,
    "retry": RETRY,
    "approval": APPROVAL,
    "input": INPUT,
    "cost_limit": COST,
}


def read_fields(page: Page, path: Route, value: Any, shape: Shape, what: str) -> Fields | None:
    """The keys of a mapping that are what the table wants; None where it is no mapping at all."""
    return fields(page, path, value, shape, what, is_foreign=True)


def read_milliseconds(given: Fields, key: str, least: int = 1, default: float = 0.0) -> float:
    """A time in seconds; a note, and 0, where it is none."""
    value = given.get(key)
    if value is None:
        return default
    is_number = isinstance(value, int if least else (int, float)) and not isinstance(value, bool)
    if not is_number or not least <= value <= MILLISECONDS_MAX:
        wanted = "a whole number" if least else "a number"
        given.say(key, f"`{key}` must be {wanted} between {least} and {MILLISECONDS_MAX}, not {kind_of(value)}")
        return 0.0
    return float(value) / 1000
