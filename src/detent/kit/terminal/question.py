"""A question as it is put to a person: the exact call, what is known of it, and the commands that answer it."""

import time
from collections.abc import Iterator
from typing import Any

from detent.kit.call_evidence import Rows, explain_doubt, lines_of
from detent.kit.error_translation import translate_error
from detent.kit.homoglyphs import look_alikes
from detent.kit.language import _
from detent.kit.safe_text import brief, call_lines, pad, visible, when, wide
from detent.kit.terminal.caller import Caller

LABEL_WIDTH = 10


def render_question(
    caller: Caller, question: dict[str, Any], *, is_filled_in: bool = False, is_brief: bool = False
) -> Iterator[tuple[str, str]]:
    """A question as lines with their colours.

    `is_filled_in`: the fields of a form are asked for one by one, so its schema need not be read. `is_brief`: it is
    answered where it stands, so that neither numbers nor commands are of use.
    """
    yield "", ""
    is_own = question["reason"] == "outcome_unknown"  # all else is in the words of its author
    for line in question["question"].split("\n"):
        yield f"  │ {visible(translate_error(line) if is_own else line)}", "yellow"
    for name, value in _rows(caller, question, is_filled_in, is_brief):
        yield f"  {pad(name, LABEL_WIDTH)} {value}", ""
    yield "", ""
    if is_brief:
        return
    for command in _ways(caller, question):
        yield f"    {command}", "cyan"


def _rows(caller: Caller, question: dict[str, Any], is_filled_in: bool, is_brief: bool) -> Rows:
    if not is_brief:
        yield _("contract"), f"{visible(question['contract_id'])}  ({when(question['since'])})"
    is_form_alone = is_filled_in and question["call"]["effect"] == "assistant.form"  # it does nothing but ask
    yield from lines_of(_("call"), [] if is_form_alone else call_lines(question["call"]))
    for text in look_alikes(question["call"]):
        yield _("CAREFUL"), text
    if question.get("call_hash") and not is_brief:
        yield _("hash"), question["call_hash"][:16]
    yield from explain_doubt(question, caller.command)
    if question.get("approvers"):
        yield _("approvers"), visible(", ".join(question["approvers"]))
    if question.get("quorum"):
        done = len(question.get("approved_by", ()))
        yield _("needed"), _("{done} of {count} have approved", done=done, count=question["quorum"])
    if question.get("require_signature"):
        yield _("signature"), _("Every answer must be signed.")
    if question.get("claimed"):
        yield _("CAREFUL"), _("Only claimed: this home has no people, so nobody checks these names.")
    rule = question.get("data", {}).get("policy")
    if isinstance(rule, dict) and rule.get("rule"):
        yield _("rule"), visible(str(rule["rule"]))
    if question.get("schema") and not is_filled_in:
        yield _("form"), brief(question["schema"], 2000)
    if question.get("expires_at"):
        yield _("expires"), when(question["expires_at"], time.time())


def _ways(caller: Caller, question: dict[str, Any]) -> list[str]:
    words, reason = (question["run_id"], question["contract_id"]), question["reason"]
    sign = ("--sign",) if question.get("require_signature") else ()
    if reason == "outcome_unknown" and "machine" in question.get("data", {}):
        return [
            f"{_('do it elsewhere:')} {caller.command('answer', *words, '--outcome', 'not-happened', *sign)}",
            f"{_('stop:')} {caller.command('answer', *words, '--outcome', 'give-up', *sign)}",
        ]
    if reason == "outcome_unknown":
        return [
            caller.command("answer", *words, "--outcome", "happened", "--result", "JSON", *sign),
            caller.command("answer", *words, "--outcome", "not-happened", *sign),
            caller.command("answer", *words, "--outcome", "give-up", *sign),
        ]
    yes = ("answer", *words, "--data", "JSON") if reason == "form" else ("approve", *words)
    if not question.get("earlier"):
        return [caller.command(*yes, *sign), caller.command("reject", *words, *sign)]
    given = () if "result" in question["earlier"] or question["earlier"].get("is_shortened") else ("--result", "JSON")
    ways = [
        (_("do it:") if "until" in question["earlier"] else _("do it again:"), caller.command(*yes, *sign)),
        (_("use that result:"), caller.command("answer", *words, "--outcome", "use", *given, *sign)),
        (_("stop:"), caller.command("reject", *words, *sign)),
    ]
    width = max(wide(label) for label, _command in ways)
    return [f"{pad(label, width)} {command}" for label, command in ways]
