"""The grammar of workflow files as one table: every key, what may stand there, and what it is for.

The compiler refuses what is not in the table and checks what is; the JSON Schema for editors is made from it too.
"""

from typing import Literal, NamedTuple

STATE_TYPES = ("initial", "normal", "final", "error", "wait", "parallel")
ACTION_TYPES = ("tool_call", "conditional", "set_variable", "log", "parallel", "for_each")
STEP_ACTIONS = ("increment_variable", "set_variable", "log")
HANDLER_ACTIONS = ("log_error", "notify_requester", "retry_with_backoff", "kill_workflow")
LEVELS = ("debug", "info", "warning", "error", "notify")
EFFECTS = ("pure", "idempotent", "irreversible")
OUTPUTS = ("json", "text")
SANDBOXES = ("off", "home", "folder", "strict")
REPEATS = ("ask", "allow", "refuse", "reuse")
SCOPES = ("global", "session", "run")
WHEN_FULL = ("queue", "cancel_previous", "drop", "ask")
CATCH_UPS = ("none", "last", "all")
IMPLICIT_ERRORS = ("error", "error_state")  # undeclared names that mean a failed end
RETRY = "retry"  # the undeclared name that means: enter the source state again
ERROR = "error"  # the event that stands for a failure of the state's work
GRAMMAR_VERSION = 1
ERROR_TYPES = (
    "validation_error",
    "tool_failure",
    "tool_failure.exit",
    "tool_failure.http",
    "tool_failure.exception",
    "tool_failure.not_found",
    "tool_failure.unknown_outcome",
    "timeout",
    "timeout.action",
    "timeout.state",
    "timeout.event",
    "timeout.approval",
    "timeout.workflow",
    "approval_rejected",
    "expression_error",
    "no_transition",
    "loop_limit",
    "budget_exceeded",
    "branch_failed",
    "cancelled",
    "engine_error",
    "already_done",
    "key_held",
)
# What an expression can read; `set_variable` can set the first three.
ROOTS = ("context", "variables", "state", "result", "attempt", "event", "error", "approval", "run", "branch", "item")
# What there is of those that have no names of the author's.
FIELDS = {"run": ("id", "machine", "state", "by", "session", "started_at"), "branch": ("index", "item", "path")}

Kind = Literal[
    "text",  # words for people
    "label",  # a text or a number, kept as it is written
    "name",  # letters, digits and `_`
    "variable",  # names joined by dots
    "state",  # the name of a state
    "states",  # the name of a state, or `*`
    "effect",  # the name of a tool, or an expression
    "choice",  # one of `choices`
    "error_type",
    "flag",
    "count",  # a whole number, 0 or more
    "positive",  # a whole number, 1 or more
    "integer",
    "amount",  # a number, 0 or more
    "duration",  # seconds, or a text such as 90s, 15m, 2h, 7d; in some places an expression
    "condition",  # an expression that says yes or no
    "template",  # any value, with expressions in its texts
    "templates",  # a mapping of such values
    "items",  # a list, or an expression that gives one
    "plain",  # a mapping of plain values
    "names",  # a text or a list of texts
    "numbers",  # a whole number or a list of them
    "schema",  # JSON Schema, or a short form of it
    "inputs",  # the same, with secrets
    "join",
    "path",
    "one",  # a mapping of the shape `of`
    "many",  # a list of mappings of the shape `of`
    "named",  # a mapping from names to mappings of the shape `of`
    "awaits",
    "branches",
    "approval",
    "tools",  # a mapping from names to mappings of the shape `tool`
    "triggers",  # a mapping from names to mappings of the shape `trigger`
]


class Key(NamedTuple):
    """One key of a mapping."""

    kind: Kind
    about: str
    is_needed: bool = False
    choices: tuple[str, ...] = ()
    of: str = ""
    types: tuple[str, ...] = ()  # only in states or actions of these types; empty: in all

    @property
    def hint(self) -> str:
        """What it is for, as the end of a sentence."""
        first = self.about[0] if self.about[1].isupper() else self.about[0].lower()
        return f"{first}{self.about[1:].rstrip('.')}"

    def fits(self, type: str) -> bool:
        """Whether the key may stand in a mapping of that type."""
        return not self.types or not type or type in self.types


Shape = dict[str, Key]

_CALL, _BOTH = ("tool_call",), ("parallel", "for_each")

WORKFLOW: Shape = {
    "grammar": Key("positive", "The version of this grammar; 1 is the only one."),
    "version": Key("label", "The author's label; never interpreted."),
    "name": Key("label", "What the workflow is called."),
    "description": Key("text", "What it is for."),
    "input": Key("inputs", "What a run must be given: JSON Schema, or names with their types; `secret` is kept out."),
    "variables": Key("plain", "Values every expression can read as `variables.NAME`."),
    "states": Key("named", "The states, by name.", is_needed=True, of="state"),
    "transitions": Key("many", "The ways between states, tried in this order.", of="transition"),
    "error_handlers": Key("many", "What to do when a state fails.", of="handler"),
    "limits": Key("one", "Bounds over the whole life of a run.", of="limits"),
    "output": Key("template", "What a run gives when it has ended; without it, its context."),
    "finally": Key("many", "What is done last, however a run ends.", of="action"),
    "tools": Key("tools", "Names for programs, functions, requests and MCP tools, for `tool:` of an action."),
    "group": Key("one", "With which other runs it does not go on at the same time.", of="group"),
    "triggers": Key("triggers", "What starts runs when nobody does, by name; armed with `detent trigger add`."),
    "attributes": Key("templates", "Single values by which people look for a run, by name; at most 16."),
}
NESTED: Shape = {
    "id": Key("name", "The branch's name, where branches are a list."),
    "name": Key("name", "The same as `id`."),
} | {
    name: key._replace(is_needed=name == "states")
    for name, key in WORKFLOW.items()
    if name in ("states", "transitions", "variables", "error_handlers", "limits", "description")
}
STATE: Shape = {
    "type": Key("choice", "What kind of state it is; normal by default.", choices=STATE_TYPES),
    "description": Key("text", "What happens here."),
    "variables": Key("plain", "Values of this state, read as `state.NAME`; kept while the state is entered again."),
    "actions": Key("many", "What to do here, in this order.", of="action"),
    "timeout": Key(
        "duration",
        "How long the run may stay here; then the error is `timeout`.",
        types=("initial", "normal", "wait", "parallel"),
    ),
    "for": Key("awaits", "The events that end the wait.", types=("wait",)),
    "endless": Key("text", "Why the wait has no `timeout`.", types=("wait",)),
    "duration": Key("duration", "How long to sleep.", types=("wait",)),
    "branches": Key("branches", "Lines of work that go on side by side.", types=("parallel",)),
    "join": Key("join", "How many branches must succeed: all, any, or a number.", types=("parallel",)),
    "fail_fast": Key("flag", "Whether the first failed branch ends the others.", types=("parallel",)),
    "concurrency": Key("positive", "How many branches at the same time.", types=("parallel",)),
    "tolerate": Key("count", "How many branches may fail.", types=("parallel",)),
}
ACTION: Shape = {
    "id": Key("name", "The action's name; its latest result is read as `result.ID`."),
    "type": Key("choice", "What kind of action it is; a `tool` makes it a tool_call.", choices=ACTION_TYPES),
    "description": Key("text", "What it does."),
    "when": Key("condition", "Do it only if this holds."),
    "tool": Key("effect", "The tool to call, by name: shell, http, files.write, python, …", types=_CALL),
    "python": Key("text", "Short for the tool `python`: the function as `module:name`.", types=_CALL),
    "workflow": Key("path", "Another workflow file to run as a child.", types=_CALL),
    "params": Key("templates", "What the tool is given.", types=(*_CALL, "conditional", "set_variable", "log")),
    "input": Key("templates", "What the child workflow is given.", types=_CALL),
    "side_effect": Key("flag", "Ask a person before the call, and make it at most once.", types=_CALL),
    "effect": Key("choice", "What the call does to the world; overrides the tool's own.", choices=EFFECTS, types=_CALL),
    "approval": Key("approval", "Ask a person first, and who may answer.", types=_CALL),
    "timeout": Key("duration", "How long the call may take.", types=_CALL),
    "retry": Key("one", "Try again when the call fails.", of="retry", types=_CALL),
    "rate": Key("text", "How many of these calls may begin in which time in one run, such as `10/min`.", types=_CALL),
    "sandbox": Key("choice", "What the program of `shell` or `python` runs in.", choices=SANDBOXES, types=_CALL),
    "paths": Key("plain", "What the stricter sandboxes let through: lists of paths under read and write.", types=_CALL),
    "network": Key("flag", "Whether a strict sandbox has a network.", types=_CALL),
    "ok_exit": Key("numbers", "The exit codes of `shell` that mean success; 0 by default.", types=_CALL),
    "ok_status": Key("numbers", "Statuses of `http`, of 400 and more, that mean success.", types=_CALL),
    "key": Key("template", "Your own idempotency key.", types=_CALL),
    "scope": Key("choice", "How far the idempotency key reaches.", choices=SCOPES, types=_CALL),
    "repeat": Key("template", "Why an identical irreversible call is wanted again.", types=_CALL),
    "on_repeat": Key(
        "choice",
        "What to do when another run has done the same: ask (default), allow, refuse, reuse its result.",
        choices=REPEATS,
        types=_CALL,
    ),
    "undo": Key(
        "one", "The call that takes this one back, if the run ends otherwise than well.", of="action", types=_CALL
    ),
    "condition": Key("condition", "What to look at; the result is `value`.", types=("conditional",)),
    "name": Key("variable", "The variable to set; a bare name is the context's.", types=("set_variable",)),
    "variable": Key("variable", "The same as `name`.", types=("set_variable",)),
    "value": Key("template", "What to set it to.", types=("set_variable",)),
    "message": Key("template", "What to write down.", types=("log",)),
    "level": Key("choice", "How important it is.", choices=LEVELS, types=("log",)),
    "items": Key("items", "The list to go through.", types=("for_each",)),
    "for_each": Key("items", "Short for `type: for_each` with `items`.", types=("for_each",)),
    "actions": Key("many", "The actions side by side, or those for each item.", of="action", types=_BOTH),
    "branches": Key("branches", "Lines of work that go on side by side.", types=("parallel",)),
    "join": Key("join", "How many must succeed: all, any, or a number.", types=_BOTH),
    "fail_fast": Key("flag", "Whether the first failure ends the others.", types=_BOTH),
    "concurrency": Key("positive", "How many at the same time; of a `for_each` that does not say, 50.", types=_BOTH),
    "tolerate": Key("count", "How many may fail.", types=_BOTH),
}
TRANSITION: Shape = {
    "from": Key("states", "The state it leaves; `*` is every state.", is_needed=True),
    "to": Key("state", "The state it leads to; `retry` enters the same state again.", is_needed=True),
    "condition": Key("condition", "Taken only if this holds; without it, when the state's work succeeded."),
    "on": Key("name", "Taken when this event comes; `error`: when the state's work failed."),
    "priority": Key("integer", "Higher is tried first; 0 by default."),
    "description": Key("text", "When this way is taken."),
    "on_transition": Key("many", "What to set or log on the way.", of="step"),
}
STEP: Shape = {
    "action": Key("choice", "What to do.", is_needed=True, choices=STEP_ACTIONS),
    "variable": Key("variable", "The variable to change.", types=("increment_variable", "set_variable")),
    "name": Key("variable", "The same as `variable`.", types=("increment_variable", "set_variable")),
    "by": Key("template", "How much to add; 1 by default.", types=("increment_variable",)),
    "value": Key("template", "What to set it to.", types=("set_variable",)),
    "message": Key("template", "What to write down.", types=("log",)),
    "level": Key("choice", "How important it is.", choices=LEVELS, types=("log",)),
}
_BACKOFF = ("retry_with_backoff",)
HANDLER: Shape = {
    "on_state": Key("states", "The state whose failures it takes; `*` is every state."),
    "error_type": Key("error_type", "The errors it takes, with their children; without it, what nothing else takes."),
    "action": Key("choice", "What to do.", is_needed=True, choices=HANDLER_ACTIONS),
    "fallback_state": Key("state", "Where to go then; without it the run fails."),
    "max_retries": Key("count", "How many further attempts; 3 by default.", types=_BACKOFF),
    "delay": Key("duration", "The first pause; 1 s by default.", types=_BACKOFF),
    "factor": Key("amount", "By how much each pause grows; 2 by default.", types=_BACKOFF),
    "max_delay": Key("duration", "The longest pause; 60 s by default.", types=_BACKOFF),
    "message": Key("template", "What to write down or to tell."),
    "description": Key("text", "What it is for."),
}
RETRYING: Shape = {
    "max_retries": Key("count", "How many further attempts.", is_needed=True),
    "on": Key("names", "The error types to try again on; without it, all that may be."),
    "delay": Key("duration", "The first pause; 1 s by default."),
    "factor": Key("amount", "By how much each pause grows; 2 by default."),
    "max_delay": Key("duration", "The longest pause; 60 s by default."),
}
APPROVAL: Shape = {
    "question": Key("template", "What to ask."),
    "approvers": Key("names", "Who may answer; without it, anybody."),
    "roles": Key("names", "Roles whose holders may answer."),
    "quorum": Key("positive", "How many different people must say yes."),
    "different_from_initiator": Key("flag", "Whoever started the run may not answer."),
    "require_signature": Key("flag", "Whoever answers must sign with their SSH key."),
    "expires": Key("duration", "How long the question stands; then the error is `timeout.approval`."),
    "on_expire": Key("state", "Where to go when nobody has answered in time."),
    "on_reject": Key(
        "state",
        "Where to go when somebody says no; how the run ends is up to that state. Without it: rejected.",
    ),
    "form": Key("schema", "What the answer must bring: JSON Schema, or names with their types."),
    "data": Key("plain", "Shown with the question."),
}
LIMITS: Shape = {
    "max_transitions": Key("positive", "1000 by default."),
    "max_visits": Key("positive", "How often one state may be entered."),
    "max_duration": Key("duration", "How long a run may take."),
    "max_cost_usd": Key("amount", "What a run may cost."),
    "max_tokens": Key("positive", "How many tokens a run may use."),
}
AWAIT: Shape = {
    "event": Key("name", "The event's name.", is_needed=True),
    "match": Key("condition", "Only an event for which this holds; the event is `event`."),
}
TOOL: Shape = {
    "shell": Key("items", "A program and its arguments; `params` are its stdin as JSON, its JSON output the result."),
    "python": Key("text", "A function as `module:name`; `params` are its arguments."),
    "http": Key("templates", "A request: url, method, headers, …; `params` are its JSON body, unless it has one."),
    "mcp": Key("text", "A tool of an MCP server as `server.tool`; `params` are its arguments."),
    "description": Key("text", "What it does."),
    "input": Key("schema", "What `params` must be: JSON Schema, or names with their types."),
    "output": Key("choice", "What a program prints: json (the default), or text, read as `stdout`.", choices=OUTPUTS),
    "probe": Key("one", "The call that finds out whether a call of this tool happened, when nobody knows.", of="probe"),
} | {
    name: ACTION[name]._replace(types=())
    for name in (
        "effect", "timeout", "retry", "rate", "key", "scope", "sandbox", "paths", "network", "ok_exit", "ok_status",
        "approval", "on_repeat",
    )
}  # fmt: skip
TOOL["rate"] = Key("text", "How many calls of it may begin in which time, in all runs together, such as `10/min`.")
PROBE: Shape = {
    **{kind: TOOL[kind] for kind in ("shell", "python", "http", "mcp", "output")},
    "happened": Key("condition", "It happened if this holds of `result`; `result.happened == true` by default."),
    "not_happened": Key("condition", "It did not if this holds; `result.happened == false` by default."),
}
GROUP: Shape = {
    "key": Key("template", "Runs with the same key are one group; it can read `context`, the input.", is_needed=True),
    "limit": Key("positive", "How many of them go on at the same time; 1 by default."),
    "rate": Key("text", "Instead of `limit`: how many may begin in which time, such as `10/min`; the others wait."),
    "when_full": Key("choice", "What a run does that finds no place: queue by default.", choices=WHEN_FULL),
}
TRIGGER: Shape = {
    "schedule": Key("text", "A cron line: minute, hour, day of the month, month, day of the week."),
    "every": Key("duration", "How long from one run to the next, counted from `start`."),
    "timezone": Key("text", "Whose clock a cron line means, such as Europe/Berlin; UTC by default."),
    "catch_up": Key("choice", "What to do about times that nobody was there for: last by default.", choices=CATCH_UPS),
    "jitter": Key("duration", "Begin up to so much later, each time by another part of it."),
    "start": Key("label", "Not before this day or moment, such as 2026-01-31 or 2026-01-31T08:00."),
    "end": Key("label", "Not after this day or moment."),
    "webhook": Key("text", "The hook of detent.serve.yaml whose messages start a run; the message is `event.body`."),
    "file": Key("text", "A file or a pattern such as inbox/*.csv below this file's folder; its path is `event.path`."),
    "settle": Key("duration", "How long a file must not have changed; 2 s by default."),
    "existing": Key("flag", "Whether files count that were there before the trigger was armed."),
    "run_ended": Key("text", "The name of another workflow; the run that has ended is `event`."),
    "status": Key("names", "Only runs that have ended so: completed, failed, rejected or cancelled."),
    "signal": Key("name", "A signal sent with `detent trigger send`; what it carries is `event.data`."),
    "schema": Key("schema", "What the message or signal must look like: JSON Schema, or names with their types."),
    "when": Key("condition", "Start a run only if this holds; it can read `event` and `trigger`."),
    "input": Key("templates", "What the run is given; it can read `event` and `trigger`."),
    "description": Key("text", "What it is for."),
}

SHAPES: dict[str, Shape] = {
    "workflow": WORKFLOW,
    "nested": NESTED,
    "state": STATE,
    "action": ACTION,
    "transition": TRANSITION,
    "step": STEP,
    "handler": HANDLER,
    "retry": RETRYING,
    "approval": APPROVAL,
    "limits": LIMITS,
    "await": AWAIT,
    "tool": TOOL,
    "probe": PROBE,
    "group": GROUP,
    "trigger": TRIGGER,
}
# Which key says the type of a mapping, and what it is when nothing is said.
TYPED = {"state": ("type", "normal"), "action": ("type", ""), "step": ("action", ""), "handler": ("action", "")}
