"""Suggested rules: what people have approved again and again, as text that somebody may adopt.

Nothing is adopted by itself, and in doubt nothing is suggested: every argument must be pinned, nobody may ever have
refused or changed such a call, and questions for certain people, forms, doubts and repeats are left to people.
"""

import glob
import json
import re
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple

import msgspec
import yaml

from detent.core.policy import Call, Policy, Rule
from detent.core.value import digest
from detent.define.document import read_document
from detent.define.policy import NAME_MAX, PATTERN_MAX, compile_policy
from detent.errors import DetentError
from detent.host.policy_check import OWN
from detent.host.port import Reader
from detent.kit.audit.argument_pin import pin_exactly, pin_pattern
from detent.kit.audit.backtest import Period, run_backtest
from detent.kit.audit.decision import AuditDecision
from detent.kit.audit.decision_trail import AuditFilter, read_decisions
from detent.kit.safe_text import visible

AT_LEAST = 5
SUGGESTED_MAX = 50
DISTINCT_MAX = 500  # calls of one effect that are looked at together
WORKFLOWS_MAX = 20
PEOPLE_MAX = 20
ASKERS = ("engine", "policy")  # who asks about a call before it is made
SCHEMA = """
create table yes (effect text, kind text, args text, workflow text, by text, at real);
create table no (effect text, args text);
create index yes_by_call on yes (effect, kind, args);
create index no_by_effect on no (effect)
"""


class SuggestedRule(msgspec.Struct, frozen=True):
    """A rule that people's answers suggest, with what it rests on and what it would have done."""

    name: str
    effect: str
    effect_kind: str
    when: str
    workflows: list[str]
    approvals: int
    people: list[str]
    oldest: float
    newest: float
    yaml: str
    would_allow: int = 0  # calls of the whole journal that it would have let pass
    would_spare: int = 0  # of them, how many people were asked about
    allowed_though_refused: int = 0


class SuggestReport(msgspec.Struct, frozen=True):
    """The suggested rules, and all of them as one text to be put above the rules that ask."""

    suggestions: list[SuggestedRule]
    yaml: str


class _Evidence(NamedTuple):
    """What a suggestion rests on."""

    effect: str
    kind: str
    when: str
    calls: list[str]  # the distinct arguments, as JSON


def suggest_rules(
    reader: Reader, policy: Policy | None, since: float | None = None, at_least: int = AT_LEAST
) -> SuggestReport:
    """Rules for what people have approved at least so often since a time, and nobody has ever refused."""
    current = policy or Policy()
    with closing(sqlite3.connect("", isolation_level=None, check_same_thread=False)) as db:
        db.executescript(SCHEMA)
        db.execute("begin")
        for one in read_decisions(reader, AuditFilter()):
            _keep(db, one, since)
        found = [made for one in _evidence(db, at_least) if (made := _suggest(db, one, current)) is not None]
    found.sort(key=lambda made: -made[0].approvals)
    tested = _test(reader, current, found[:SUGGESTED_MAX])
    return SuggestReport(tested, "rules:\n" + "".join(one.yaml for one in tested) if tested else "")


def _keep(db: sqlite3.Connection, one: AuditDecision, since: float | None) -> None:
    if one.arguments is None or one.effect in OWN or not one.effect:
        return
    args = json.dumps(one.arguments, sort_keys=True, ensure_ascii=False)
    call = (one.effect, one.effect_kind, args, one.workflow)
    if one.answer in ("reject", "edit", "deny", "give_up"):
        db.execute("insert into no values (?, ?)", (one.effect, args))
    is_open = not (one.approvers or one.quorum or one.is_separate)
    is_yes = (one.decision, one.answer) == ("answer", "approve") and one.asked_by in ASKERS and is_open
    if is_yes and (since is None or one.at >= since):
        db.execute("insert into yes values (?, ?, ?, ?, ?, ?)", (*call, one.by, one.at))


def _evidence(db: sqlite3.Connection, at_least: int) -> Iterator[_Evidence]:
    """Identical calls first; then, of what is left of an effect, calls with a pattern."""
    groups = "select effect, kind, args from yes group by effect, kind, args having count(*) >= ? order by 1, 2, 3"
    exact: set[tuple[str, str, str]] = set()
    for effect, kind, args in db.execute(groups, (at_least,)).fetchmany(10 * SUGGESTED_MAX):
        exact.add((effect, kind, args))
        yield _Evidence(effect, kind, pin_exactly(json.loads(args)), [args])
    kinds = "select effect, kind from yes group by effect, kind having count(*) >= ? and count(distinct args) > 1"
    for effect, kind in db.execute(f"{kinds} order by 1, 2", (at_least,)).fetchall():
        every = "select args, count(*) from yes where effect = ? and kind = ? group by args limit ?"
        rows = db.execute(every, (effect, kind, DISTINCT_MAX + 1)).fetchall()
        rest = [(args, count) for args, count in rows if (effect, kind, args) not in exact]
        if len(rows) > DISTINCT_MAX or len(rest) < 2 or sum(count for _args, count in rest) < at_least:
            continue
        calls = [json.loads(args) for args, count in rest for _ in range(min(count, 2))]
        yield _Evidence(effect, kind, pin_pattern(effect, kind, calls), [args for args, _count in rest])


def _suggest(db: sqlite3.Connection, one: _Evidence, policy: Policy) -> tuple[SuggestedRule, Rule] | None:
    """The rule, if it can be written down, takes all these calls, and takes none that anybody has refused."""
    marks = ", ".join("?" * len(one.calls))
    given = (one.effect, one.kind, *one.calls)
    where = f"from yes where effect = ? and kind = ? and args in ({marks})"
    count, oldest, newest = db.execute(f"select count(*), min(at), max(at) {where}", given).fetchone()
    workflows = [row[0] for row in db.execute(f"select distinct workflow {where} order by 1 limit 100", given)]
    people = [row[0] for row in db.execute(f"select distinct by {where} order by 1 limit {PEOPLE_MAX}", given)]
    rule = _rule(one, workflows, policy) if one.when else None
    if rule is None:
        return None
    calls = [Call(one.effect, json.loads(args), one.kind, workflow) for args in one.calls for workflow in workflows]
    if any(rule.takes(call) is None for call in calls) or _is_refused(db, rule, one.effect):
        return None
    if any((said := policy.decide(call)) is not None and _is_settled(said.decision, said.is_rule) for call in calls):
        return None
    text = _write(rule, f"approved {count} times from {_day(oldest)} to {_day(newest)}, never refused")
    if not text:
        return None
    known = (rule.name, one.effect, one.kind, rule.when, workflows, count, people, oldest, newest, text)
    return SuggestedRule(*known), rule


def _is_settled(decision: str, is_rule: bool) -> bool:
    """Whether a policy has its own mind about a call already: allowed by a rule, or denied."""
    return decision == "deny" or (decision == "allow" and is_rule)


def _rule(one: _Evidence, workflows: list[str], policy: Policy) -> Rule | None:
    patterns = [glob.escape(name) for name in (one.effect, *workflows)]
    is_readable = all(visible(text) == text and len(text) <= PATTERN_MAX for text in patterns)
    if not is_readable or "" in workflows or len(workflows) > WORKFLOWS_MAX:
        return None
    slug = re.sub(r"[^a-z0-9]+", "-", one.effect.lower()).strip("-") or "call"
    name = f"allow-{slug[: NAME_MAX - 20]}-{digest([one.effect, one.kind, one.when])[:6]}"
    if any(rule.name == name for rule in policy.rules):
        return None
    kinds: Any = (one.kind,)
    return Rule(name, "allow", tools=(patterns[0],), workflows=tuple(patterns[1:]), kinds=kinds, when=one.when)


def _is_refused(db: sqlite3.Connection, rule: Rule, effect: str) -> bool:
    """Whether anybody has ever refused or changed such a call, in whatever workflow."""
    anywhere = msgspec.structs.replace(rule, workflows=(), kinds=())
    rows = db.execute("select args from no where effect = ?", (effect,))
    return any(anywhere.takes(Call(effect, json.loads(args))) is not None for (args,) in rows)


def _write(rule: Rule, about: str) -> str:
    """The rule as an item of a policy file; nothing if reading it does not give the same rule."""
    given = {
        "name": rule.name, "decision": rule.decision, "description": about, "tool": list(rule.tools),
        "kind": list(rule.kinds), "workflow": list(rule.workflows), "when": rule.when,
    }  # fmt: skip
    text: str = yaml.safe_dump([given], sort_keys=False, allow_unicode=True, width=2**31, default_flow_style=False)
    text = "".join(f"  {line}\n" for line in text.splitlines())
    try:
        (read,) = compile_policy(read_document(f"rules:\n{text}", "suggestion")).rules
    except (DetentError, ValueError):
        return ""
    return text if msgspec.to_builtins(read) == msgspec.to_builtins(rule) else ""


def _test(reader: Reader, policy: Policy, found: list[tuple[SuggestedRule, Rule]]) -> list[SuggestedRule]:
    """Every rule with what it would have done, above the rules of today; one that would have done harm is left out."""
    if not found:
        return []
    rules = (*(rule for _made, rule in found), *policy.rules)
    report = run_backtest(reader, msgspec.structs.replace(policy, rules=rules), Period(), listed_max=1)
    counts = {one.rule: one for one in report.new_rules}
    tested = []
    for made, rule in found:
        one = counts[rule.name]
        if not one.refused + one.edited:
            tested.append(msgspec.structs.replace(made, would_allow=one.allow, would_spare=one.approved))
    return tested


def _day(at: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(at))
