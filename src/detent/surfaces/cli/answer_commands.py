"""Commands that answer a waiting contract: approve, reject, answer.

An answer carries the hash of the call that was looked at here, so that it cannot be taken for another one.
"""

from typing import Any

import click

from detent.core.answer import answer_of, misfit
from detent.core.needed_result import find_unsaid
from detent.errors import NotWaiting, Refused
from detent.kit.language import _
from detent.kit.safe_text import as_json, visible
from detent.kit.terminal.caller import Caller, emit
from detent.kit.terminal.option import (
    by_option,
    comment_option,
    contract_argument,
    no_wait_option,
    parse_json,
    parse_object,
    run_argument,
    verb,
)
from detent.kit.terminal.run_driver import move
from detent.kit.terminal.run_view import RunReport
from detent.surfaces.cli.answer_signing import SigningWish, make_payload, read_wish, sign_answer, sign_options

OUTCOMES = {"happened": "happened", "not-happened": "not_happened", "give-up": "give_up"}
USE = "use"  # what the earlier deed gave stands for a second one


@verb("approve")
@run_argument
@contract_argument
@comment_option
@click.option("--args", "edited", default="", metavar="JSON", help=_("Approve with these arguments instead."))
@click.option("--patch", default="", metavar="JSON", help=_("Values for the run's context."))
@sign_options
@no_wait_option
@by_option
async def approve(
    caller: Caller, run: str, contract: str, comment: str, edited: str, patch: str, by: str, **signing: Any
) -> int:
    """Answer yes."""
    said: dict[str, Any] = {"approved": True, "comment": comment}
    if edited:
        said["args"] = parse_object(edited, "--args")
    if patch:
        said["patch"] = parse_object(patch, "--patch")
    return await _answer(caller, run, contract, said, by, read_wish(signing))


@verb("reject")
@run_argument
@contract_argument
@comment_option
@sign_options
@no_wait_option
@by_option
async def reject(caller: Caller, run: str, contract: str, comment: str, by: str, **signing: Any) -> int:
    """Answer no."""
    return await _answer(caller, run, contract, {"approved": False, "comment": comment}, by, read_wish(signing))


@verb("answer")
@run_argument
@contract_argument
@click.option("--data", default=None, metavar="JSON", help=_("The answers to a form."))
@click.option(
    "--outcome", type=click.Choice([*OUTCOMES, USE]),
    help=_("The outcome of a call in doubt; or `use` the result of the same call, made before."),
)  # fmt: skip
@click.option("--result", default="", metavar="JSON", help=_("With `--outcome happened` or `use`: its result."))
@comment_option
@sign_options
@no_wait_option
@by_option
async def answer(
    caller: Caller,
    run: str,
    contract: str,
    data: str | None,
    outcome: str | None,
    result: str,
    comment: str,
    by: str,
    **signing: Any,
) -> int:
    """Fill in a form, settle a doubt, or use what the same deed gave before."""
    if (data is None) == (outcome is None):
        raise click.UsageError(_("give either --data or --outcome"))
    if result and outcome not in ("happened", USE):
        raise click.UsageError(_("--result goes with --outcome happened or use"))
    said: dict[str, Any] = {"comment": comment}
    if data is not None:
        said["data"] = parse_json(data, "--data")
    if outcome is not None:
        said["outcome"] = OUTCOMES.get(outcome, USE)
    if result:
        said["result"] = parse_json(result, "--result")
    return await _answer(caller, run, contract, said, by, read_wish(signing))


async def _answer(caller: Caller, name: str, contract: str, said: dict[str, Any], by: str, wish: SigningWish) -> int:
    summary = caller.find(name)
    question = _choose_question(RunReport(caller, summary.run_id), contract)
    _check_fit(caller, question, said)
    said = {**said, "by": by, "channel": "cli", "call_hash": question["call_hash"]}
    said = {key: value for key, value in said.items() if value != ""}
    call = question["call"]
    caller.note(f"{visible(question['contract_id'])}: {visible(call['effect'])} {as_json(call['input'])}", "dim")
    if wish.is_print:
        return _print_payload(caller, question, said, by)
    if wish.is_wanted:
        said["signature"] = sign_answer(caller, question["run_id"], question["contract_id"], said, by, wish)
    return await move(
        caller,
        summary.run_id,
        summary.seq,
        lambda host: host.answer(question["run_id"], question["contract_id"], said),
    )


def _print_payload(caller: Caller, question: dict[str, Any], said: dict[str, Any], by: str) -> int:
    payload, _person = make_payload(caller, question["run_id"], question["contract_id"], said, by)
    if caller.is_json:
        emit({"ok": True, "payload": payload, "error": None})
    else:
        click.echo(payload, nl=False)  # to the last byte what is to be signed
    return 0


def _choose_question(standing: RunReport, contract: str) -> dict[str, Any]:
    """The question that is meant: by contract, by action, or the only one there is."""
    every = standing.questions
    found = [q for q in every if contract in ("", q["contract_id"])] or [q for q in every if contract == q["action"]]
    if len(found) == 1:
        return found[0]
    run_id = standing.run.id
    listed = ", ".join(f"`{q['contract_id']}`" for q in every)
    if not every:
        raise NotWaiting(f"run {run_id} ({standing.run.status.value}) has no open question")
    if not found:
        raise NotWaiting(f"contract `{contract}` of run {run_id} has no open question; open: {listed}")
    raise Refused(f"run {run_id} has {len(every)} open questions; say which one: {listed}")


def _check_fit(caller: Caller, question: dict[str, Any], said: dict[str, Any]) -> None:
    """Say which command would fit before the host refuses an answer that does not."""
    standing = caller.reader.standing(question["run_id"])
    contract = standing.run.contract(question["contract_id"])
    if contract is None:
        return
    if "args" not in said and (problem := misfit(contract, answer_of(said))):
        raise Refused(f"{problem}. Here: {_fitting(caller, question)}")
    if problem := find_unsaid(standing.machine, contract, answer_of(said)):
        words = question["run_id"], question["contract_id"], "--outcome", "happened", "--result", "JSON"
        raise Refused(f"{problem}. Here: {caller.command('answer', *words)}")


def _fitting(caller: Caller, question: dict[str, Any]) -> str:
    """The command that answers a question."""
    words = question["run_id"], question["contract_id"]
    if question["reason"] == "outcome_unknown":
        return caller.command("answer", *words, "--outcome", "|".join(OUTCOMES)).replace("'", "")
    if question["reason"] == "form":
        return caller.command("answer", *words, "--data", "JSON")
    again = caller.command("approve", *words)
    return f"{again}, or {caller.command('answer', *words, '--outcome', USE)}" if question.get("earlier") else again


COMMANDS = {"approve": approve, "reject": reject, "answer": answer}
