"""Policy files: which calls may be made, which are asked about first, and which are not made at all.

Read as strictly as a workflow: every problem at once, each with its line and column.
"""

from pathlib import Path
from typing import Any

from detent.core.expression import names as paths
from detent.core.policy import DECISIONS, LEVELS, ROLE, ROOTS, SPEAKER, Policy, Rule
from detent.define.compile_context import Page, items
from detent.define.document import Document, Route, read_document, read_file
from detent.define.grammar import EFFECTS, REPEATS, Key, Shape
from detent.define.key_check import Fields, fields
from detent.define.machine_builder import lean
from detent.define.problem import cut, refuse
from detent.define.schema import DRAFT, shape_schema
from detent.define.value_check import MISSING, check, seconds

TITLE = "detent policy"
RULES_MAX = 1_000
PATTERN_MAX = 200
NAME_MAX = 100

_ASK = ("ask",)
POLICY: Shape = {
    "version": Key("label", "The author's label; never interpreted."),
    "description": Key("text", "What it is for."),
    "rules": Key("many", "The rules, tried in this order; the first that is for a call decides.", of="rule"),
    "default": Key("one", "What holds where no rule applies, by kind of effect.", of="default"),
    "roles": Key("plain", "Who holds which role: names with lists of people."),
    "sandbox": Key("choice", "The weakest sandbox that an action may choose.", choices=LEVELS),
    "mcp_may_approve_irreversible": Key(
        "flag", "Let the user of an MCP client also approve what cannot be taken back."
    ),
}
RULE: Shape = {
    "name": Key("text", "What the rule is called in journals and answers.", is_needed=True),
    "decision": Key("choice", "What it decides.", is_needed=True, choices=DECISIONS),
    "description": Key("text", "What it is for."),
    "tool": Key("names", "The tools it is for; `*`, `?` and `[…]` are patterns."),
    "workflow": Key("names", "The workflows it is for, by name or pattern."),
    "initiator": Key("names", "Who started the run, by name or pattern."),
    "kind": Key("names", "The kinds of effect it is for: pure, idempotent, irreversible."),
    "when": Key("condition", "Only calls for which this holds; it can read args, tool, kind, run and the like."),
    "program": Key("names", "The real path of the program that would run, or its last part; patterns."),
    "path": Key("names", "Real paths that would be written, read or worked in; patterns."),
    "host": Key("names", "The hosts that would be talked to, by name or pattern."),
    "sandbox": Key("choice", "The weakest sandbox in which these calls may be made.", choices=LEVELS),
    "cost_over": Key("amount", "Only once the run has cost more than so many US dollars."),
    "message": Key("template", "What to ask, or why it is denied."),
    "approvers": Key("names", "Who may answer: people, and roles as `role:NAME`.", types=_ASK),
    "quorum": Key("positive", "How many different people must say yes.", types=_ASK),
    "different_from_initiator": Key("flag", "Whoever started the run may not answer.", types=_ASK),
    "expires": Key("duration", "How long the question stands; then the error is `timeout.approval`.", types=_ASK),
    "require_signature": Key("flag", "Whoever answers must sign with their SSH key.", types=_ASK),
    "on_repeat": Key(
        "choice", "What to do when the same was done in another run.", types=("ask", "allow"), choices=REPEATS
    ),
    "named_too": Key("flag", "Also answer questions that are meant for certain people.", types=("allow",)),
}
DEFAULT: Shape = {
    kind: Key("choice", f"What holds for {kind} effects.", choices=DECISIONS) for kind in EFFECTS
}  # fmt: skip


def load_policy(path: str | Path) -> Policy:
    """Read a policy from a file; raises one DefinitionError with everything that is wrong with it."""
    return compile_policy(read_document(read_file(Path(path)), str(path)))


def compile_policy(document: Document) -> Policy:
    """The policy a document describes."""
    page = Page(document)
    given = fields(page, (), page.value, POLICY, "a policy")
    roles: dict[str, tuple[str, ...]] = {}
    rules: list[Rule] = []
    default: dict[str, Any] = {}
    may_approve, level = False, ""
    if given is not None:
        roles = _roles(page, given)
        rules = _rules(page, given, roles)
        wanted = fields(page, given.at("default"), given.get("default"), DEFAULT, "`default`")
        default = wanted.values if wanted is not None else {}
        may_approve, level = given.get("mcp_may_approve_irreversible", False), given.get("sandbox", "")
    refuse(page.problems)
    return lean(
        Policy,
        rules=tuple(rules),
        default=default,
        roles=roles,
        mcp_may_approve_irreversible=may_approve,
        sandbox=level,
    )


def policy_schema() -> dict[str, Any]:
    """The JSON Schema of policy files, for editors."""
    shapes = {"rule": shape_schema("rule", RULE), "default": shape_schema("default", DEFAULT)}
    return {"$schema": DRAFT, "title": TITLE, **shape_schema("policy", POLICY), "$defs": shapes}


def _roles(page: Page, given: Fields) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for role, people in given.get("roles", {}).items():
        place = given.at("roles", role)
        checked = check(page, place, people, Key("names", "Who holds it."), role)
        if checked is MISSING:
            continue
        for person in checked:
            if person.startswith((ROLE, SPEAKER)):
                page.say(place, f"`{cut(person)}` is not a person", "a role is held by people, not by other roles")
        found[role] = checked
    return found


def _rules(page: Page, given: Fields, roles: dict[str, tuple[str, ...]]) -> list[Rule]:
    path, value = given.at("rules"), given.get("rules")
    if isinstance(value, list) and len(value) > RULES_MAX:
        page.say(path, f"more than {RULES_MAX:,} rules")
        return []
    found: dict[str, Rule] = {}
    for number, (place, inner) in enumerate(items(page, path, value, "`rules`"), 1):
        decision = inner.get("decision") if isinstance(inner, dict) else None
        type = decision if isinstance(decision, str) and decision in DECISIONS else ""
        one = fields(page, place, inner, RULE, f"rule {number}", type)
        rule = _rule(page, one, roles) if one is not None and "name" in one and "decision" in one else None
        if rule is None:
            continue
        if rule.name in found:
            page.say((*place, "name"), f"a second rule is called `{cut(rule.name)}`", "its name is how it is known")
        found[rule.name] = rule
    return list(found.values())


def _rule(page: Page, given: Fields, roles: dict[str, tuple[str, ...]]) -> Rule | None:
    name = given["name"]
    if len(name) > NAME_MAX or not name.isprintable() or name.startswith("default:"):
        given.say("name", f"`{cut(name)}` cannot be a rule's name", f"a short text, at most {NAME_MAX} characters")
        return None
    for key in ("when", "message"):
        if isinstance(given.get(key), str):
            _check_reads(page, given.at(key), given[key])
    message = given.get("message", "")
    if not isinstance(message, str):
        given.say("message", "`message` must be a text")
        message = ""
    return lean(
        Rule,
        name=name,
        decision=given["decision"],
        tools=_patterns(given, "tool"),
        workflows=_patterns(given, "workflow"),
        initiators=_patterns(given, "initiator"),
        kinds=_kinds(page, given),
        when=given.get("when", ""),
        programs=_patterns(given, "program"),
        paths=_patterns(given, "path"),
        hosts=_patterns(given, "host"),
        sandbox=given.get("sandbox", ""),
        cost_over=float(given.get("cost_over", -1.0)),
        message=message,
        approvers=_approvers(page, given, roles),
        quorum=int(given.get("quorum", 1)),
        separate=given.get("different_from_initiator", False),
        expires_s=seconds(page, given.at("expires"), given.get("expires"), "expires"),
        is_for_named=given.get("named_too", False),
        on_repeat=given.get("on_repeat", ""),
        require_signature=given.get("require_signature", False),
    )


def _check_reads(page: Page, path: Route, source: str) -> None:
    """Note a name that a rule cannot read: it would be null, and the rule would never apply."""
    if path[-1] == "message" and "{{" not in source:
        return
    for read in sorted(paths(source)):
        root = read.partition(".")[0]
        if root not in ROOTS:
            page.say(path, *page.unknown("name", root, ROOTS))


def _patterns(given: Fields, key: str) -> tuple[str, ...]:
    found: tuple[str, ...] = given.get(key, ())
    for one in found:
        if len(one) > PATTERN_MAX:
            given.say(key, f"a pattern of more than {PATTERN_MAX} characters")
    return found


def _kinds(page: Page, given: Fields) -> tuple[Any, ...]:
    found: tuple[str, ...] = given.get("kind", ())
    for one in found:
        if one not in EFFECTS:
            given.say("kind", *page.unknown("kind", one, EFFECTS))
    return found


def _approvers(page: Page, given: Fields, roles: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    found: tuple[str, ...] = given.get("approvers", ())
    for one in found:
        if one.startswith(ROLE) and one.removeprefix(ROLE) not in roles:
            given.say("approvers", *page.unknown("role", one.removeprefix(ROLE), roles))
    people = Policy(roles=roles).people(found)
    quorum = given.get("quorum", 1)
    if people and quorum > len(people):
        given.say("quorum", f"a quorum of {quorum} can never be reached", f"{len(people)} may answer")
    return found
