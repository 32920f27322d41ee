"""A machine in the making from a list of steps: names, rows, work, and what steps can refer to so far."""

from typing import Any, NamedTuple

from detent.core.machine import Action, Retry, Transition
from detent.define.compile_context import Page
from detent.define.document import Route
from detent.define.key_check import Fields
from detent.define.machine_builder import FindChild, lean
from detent.define.steps.condition import BadCondition, translate
from detent.define.steps.key_table import RETRY, read_fields, read_milliseconds
from detent.define.steps.reference import StepScope, StepSource, path_of, render_text
from detent.define.value_check import NAME_MAX, mend_name


class StepsPlan:
    """Everything that becomes one machine."""

    def __init__(self, page: Page, given: Fields, find_child: FindChild) -> None:
        self.page, self.given, self.find_child = page, given, find_child
        self.arguments: frozenset[str] = frozenset()
        self.environment = "{{ context | step_env }}"  # the arguments as every program finds them
        self.is_unsafe = bool(given.get("unsafe_substitution"))
        self.shell = ["sh", "-lc" if given.get("login_shell") else "-c"]
        self.rows: list[Transition] = []
        self.work: dict[str, tuple[Action, ...]] = {}
        self.timeouts_s: dict[str, float] = {}
        self.gates: dict[str, Any] = {}  # what questions show, under `variables.gates`
        self.order: list[str] = []  # the top-level steps
        self.places: dict[str, Route] = {}  # by state or action, where the step stands
        self.ids: dict[str, str] = {}  # by name, the ids of branches that are no names
        self.seen: set[str] = set()  # ids so far
        self.done = self.cancelled = ""  # the ends
        self._names: set[str] = set()

    def name(self, id: str, path: Route) -> str:
        """A name for the machine that nothing else has."""
        base = id if id.isidentifier() and not id.startswith("_") and len(id) <= NAME_MAX - 12 else mend_name(id)
        base = base[: NAME_MAX - 12].strip("_") or "step"
        name, number = base, 1
        while name in self._names:
            number += 1
            name = f"{base}_{number}"
        self._names.add(name)
        self.places[name] = path
        return name


class StepCare(NamedTuple):
    """What a step says about failing, or has from the step around it."""

    when: str = ""
    timeout_s: float = 0.0
    retry: Retry | None = None
    kind: str = ""  # `idempotent`: it may be done twice
    tolerate: int = 0  # its branch goes on after a failure
    env: tuple[dict[str, str], ...] = ()
    cwd: str = ""


def read_retry(given: Fields) -> Retry | None:
    """Further attempts; None where there are none."""
    said = read_fields(given.page, given.at("retry"), given["retry"], RETRY, "`retry`") if "retry" in given else None
    if said is None:
        return None
    delay_s, longest_s = read_milliseconds(said, "delay_ms", 0, 1.0), read_milliseconds(said, "max_delay_ms", 0, 30.0)
    is_fixed = said.get("backoff", "fixed") == "fixed"
    if said.get("max", 1) < 2:
        return None
    return lean(
        Retry,
        limit=said["max"] - 1,
        delay_s=delay_s,
        factor=1.0 if is_fixed else 2.0,
        delay_s_max=max(delay_s, longest_s) if is_fixed else longest_s,
        is_exact=not said.get("jitter", False),
    )


def read_condition(given: Fields, scope: StepScope) -> str:
    """The condition of a step as the machine's; empty where it has none or is wrong."""
    key = "when" if "when" in given else "condition"
    said = given.get(key)
    if said is None:
        return ""
    if not isinstance(said, (str, bool)) or said == "":
        given.say(key, f"`{key}` must be a condition, as in `$check.json.ok == true`")
        return ""
    try:
        return translate(said, scope)
    except BadCondition as problem:
        given.say(key, f"this condition cannot be used: {problem}")
        return ""


def read_environment(given: Fields, scope: StepScope) -> dict[str, str]:
    """Environment variables, each a text with references."""
    said = given.get("env")
    if said is None:
        return {}
    if not isinstance(said, dict):
        given.say("env", "`env` must be a mapping from names to texts")
        return {}
    made = {}
    for name, value in said.items():
        if value is None:
            continue  # a name without a value sets nothing
        if isinstance(value, (dict, list)):
            given.page.say(given.at("env", name), f"`{name}` must be a text")
        elif "=" in name or "\0" in name or not name:
            given.page.say(given.at("env", name), "this is not the name of an environment variable", at_key=True)
        else:
            word = str(value).lower() if isinstance(value, bool) else str(value)
            made[name] = render_text(word, scope)
    return made


def source_of(name: str, *, has_subject: bool = False) -> StepSource:
    """Where what a step gave is found."""
    subject = path_of("result", f"{name}__subject") if has_subject else "none"
    return StepSource(path_of("result", name), path_of("approval", name), subject)
