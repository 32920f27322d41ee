"""One turn of a conversation on a terminal: text as it comes, tool calls with their contracts, questions in place."""

import json
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import groupby
from typing import TYPE_CHECKING, Any

from detent.agents.assistant.execution import Execution, Ledger, Move
from detent.agents.assistant.request import fields_of, unfold
from detent.core.run import Run
from detent.errors import Refused
from detent.kit.language import _
from detent.kit.terminal.caller import Caller
from detent.kit.terminal.driver import on_every_ring
from detent.kit.terminal.keyboard import choose, line
from detent.kit.terminal.question import render_question
from detent.kit.terminal.view import is_for_people
from detent.kit.text import as_json, brief, status_word, visible

if TYPE_CHECKING:
    from detent.host.port import EntryStream, OpenHost

ANSWERS = {"y": "yes", "yes": "yes", "是": "yes", "n": "no", "no": "no", "否": "no", "e": "edit", "edit": "edit",
           "l": "", "later": ""}  # fmt: skip
USES = {"u": "use", "use": "use"}
OUTCOMES = {"y": "happened", "yes": "happened", "是": "happened", "n": "not_happened", "no": "not_happened",
            "否": "not_happened", "g": "give_up", "give up": "give_up", "l": "", "later": ""}  # fmt: skip
YES_OR_NO = {"y": True, "yes": True, "true": True, "1": True, "是": True,
             "n": False, "no": False, "false": False, "0": False, "否": False}  # fmt: skip


class ModelWords:
    """The model's words as they come; an answer that is one JSON object is for the program, not for the eye."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._held = ""
        self._from = ""
        self.shown = ""

    def is_new(self, contract_id: str) -> bool:
        """Whether these are the first words of another thought."""
        return contract_id != self._from

    def hear(self, contract_id: str, data: Mapping[str, Any]) -> None:
        """A piece of text from the model."""
        piece = data.get("text")
        if self._caller.is_json or not isinstance(piece, str) or not contract_id.startswith("reasoning/think"):
            return
        if contract_id != self._from:
            self.end_line()
            self._from = contract_id
        self._held += piece
        start = self._held.lstrip()
        if start and not start.startswith(("{", "`")):
            sys.stdout.write(visible(self._held, keep="\n\t"))
            sys.stdout.flush()
            self.shown += self._held
            self._held = ""

    def end_line(self) -> None:
        """What comes next is not part of the answer."""
        if self.shown and not self.shown.endswith("\n"):
            sys.stdout.write("\n")
            self.shown += "\n"

    def finish(self, response: str) -> None:
        """The whole answer, unless it was shown already."""
        if not self.shown.rstrip().endswith(response.rstrip()) or not response.strip():
            self._caller.say(response)
        self.end_line()
        self.shown = self._held = ""


class DeedLines:
    """What a turn does, told line by line, each move once."""

    def __init__(self, caller: Caller, run_id: str) -> None:
        self._caller = caller
        self._ledger, self._told = Ledger(run_id), 0

    def tell(self, place: "EntryStream", spoken: ModelWords) -> None:
        """What is new; the moves of one execution stand in one line."""
        ledger = self._ledger
        while entries := place.more():
            ledger = self._ledger.read(entries)
        rows = [(id, row) for id, row in ledger.rows[self._told :] if isinstance(row, Move)]
        self._told = len(ledger.rows)
        for id, group in groupby(rows, lambda one: one[0]):
            spoken.end_line()
            self._caller.note(_render_move(ledger.executions[id], [move for _id, move in group]), "dim")


@asynccontextmanager
async def showing(
    caller: Caller, host: "OpenHost", place: "EntryStream", spoken: ModelWords, deeds: DeedLines
) -> AsyncIterator[None]:
    """Show what a turn does while the block is at work."""
    if caller.is_json:
        yield
        return

    def tell() -> None:
        deeds.tell(place, spoken)

    def hear(contract_id: str, data: Mapping[str, Any]) -> None:
        if spoken.is_new(contract_id):
            tell()  # whatever led to these words comes before them
        spoken.hear(contract_id, data)

    stop = host.overhear(place.run_id, hear)
    try:
        async with on_every_ring(tell, place.wait):
            yield
    finally:
        stop()


def _render_move(execution: Execution, moves: Sequence[Move]) -> str:
    """What became of an execution, in one line."""
    call = execution.detail.get("call")
    about = _("{name}, confirmation", name=f"{call['service']}.{call['method']}") if call else execution.summary
    name = f"{visible(about)} [{execution.id.rpartition(':')[2]}]"
    way = " → ".join(status_word(status) for status in (moves[0].source, *(move.target for move in moves)))
    more = ""
    if moves[0].trigger == "start" and execution.type == "tool_call":
        more += f"  {brief(execution.detail.get('args'), 200)}"
    if moves[-1].target.is_terminal and (execution.error or execution.result):
        more += f"  {brief(execution.error or execution.result, 300)}"
    return f"  {name}: {way}{more}"


async def settle(caller: Caller, host: "OpenHost", run_id: str, by: str) -> Run:
    """Stay with a turn until it has ended, asking whatever it asks; `later` leaves the question open."""
    with host.reader.following(run_id) as place:
        return await _follow_turn(caller, host, place, by)


async def _follow_turn(caller: Caller, host: "OpenHost", place: "EntryStream", by: str) -> Run:
    spoken, deeds = ModelWords(caller), DeedLines(caller, place.run_id)
    while True:
        async with showing(caller, host, place, spoken, deeds):
            run = await host.settled(place.run_id)
        if run.ended is not None or caller.is_json or not sys.stdin.isatty() or not is_for_people(run):
            break
        spoken.end_line()
        if run.context.get("response") and not spoken.shown:
            caller.say(str(run.context["response"]))
        if not await put_questions(caller, host, run, by):
            break
        spoken = ModelWords(caller)
    if run.ended is not None:
        spoken.finish(str((run.output or {}).get("response") or ""))
    return run


async def put_questions(caller: Caller, host: "OpenHost", run: Run, by: str) -> bool:
    """Put every open question of a turn; whether something was answered."""
    from detent.kit.terminal.view import questions

    done = False
    for question in questions(caller, caller.reader.standing(run.id)):
        for row, style in render_question(caller, question, is_filled_in=True):
            caller.say(row, style)
        said = await _reply(caller, question)
        if said is None:
            caller.say(_("Left open; the commands above answer it at any time."))
            continue
        said |= {"by": by, "channel": "cli", "call_hash": question["call_hash"]}
        try:
            await host.answer(question["run_id"], question["contract_id"], said)
            done = True
        except Refused as error:
            caller.note(visible(str(error)), "red")
            done = True  # the question is put again
    return done


async def _reply(caller: Caller, question: Mapping[str, Any]) -> dict[str, Any] | None:
    if question["reason"] == "form":
        return await _form(caller, question)
    if question["reason"] == "outcome_unknown":
        return await _doubt()
    prompt, words = _("[y]es, [n]o, [e]dit, [l]ater? "), ANSWERS
    if question.get("earlier"):
        prompt, words = _("Do it again? [y]es, [u]se that result, [n]o, [e]dit, [l]ater? "), ANSWERS | USES
    match await choose(prompt, words):
        case "use":
            return {"outcome": "use"}
        case "yes":
            return {"approved": True}
        case "no":
            return {"approved": False, "comment": await line(_("Why? ")) or ""}
        case "edit":
            caller.say(as_json(question["call"]["input"]))
            args = await _arguments(caller)
            return None if args is None else {"approved": True, "args": args}
    return None


async def _arguments(caller: Caller) -> dict[str, Any] | None:
    """Arguments that somebody types; a mistake is told and asked about again, an empty line takes it back."""
    while text := await line(_("Arguments as JSON: ")):
        try:
            args = json.loads(text)
        except (ValueError, RecursionError) as error:
            problem = str(error) if isinstance(error, ValueError) else "nested too deeply"
            caller.note(_("{name} is not JSON: {problem}", name=_("this"), problem=problem), "red")
            continue
        if isinstance(args, dict):
            return args
        example = '{"key": "value"}'
        caller.note(_("{name} must be a JSON object, like {example}", name=_("this"), example=example), "red")
    return None


async def _doubt() -> dict[str, Any] | None:
    said = await choose(_("Did it happen? [y]es, [n]o (do it now), [g]ive up, [l]ater? "), OUTCOMES)
    if said != "happened":
        return {"outcome": said} if said else None
    evidence = await line(_("How do you know, or what did it give? "))
    return {"outcome": said} | ({"result": evidence.strip()} if evidence and evidence.strip() else {})


async def _form(caller: Caller, question: Mapping[str, Any]) -> dict[str, Any] | None:
    """Ask for a form's fields one after the other; an empty line leaves one out, `!` rejects the form."""
    data: dict[str, Any] = {}
    schema = question.get("schema") or {}
    caller.say(_("An empty line leaves a field out; ! rejects the form."), "dim")
    for field in _fields(question, schema):
        text = await line(_prompt(field))
        if text is None:
            return None
        if text.strip() == "!":
            return {"approved": False}
        if text.strip():
            data[field["name"]] = _parse_typed(text.strip(), field)
        elif field.get("default") is not None:
            data[field["name"]] = field["default"]
    return {"data": unfold(schema, data)}


def _fields(question: Mapping[str, Any], schema: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The fields of a form in its own order; those of a schema where a tool asks."""
    form = (question.get("data") or {}).get("form")
    given = form.get("fields") if isinstance(form, dict) else None
    is_ours = isinstance(given, list) and all(isinstance(one, dict) and {"name", "type"} <= one.keys() for one in given)
    return given if is_ours and given is not None else list(fields_of(schema))


def _prompt(field: Mapping[str, Any]) -> str:
    """A field's label, with what can be chosen and what an empty line means."""
    options = [str(option["value"]) for option in field.get("options") or ()]
    choices = f" ({', '.join(options)})" if options else ""
    default = f" [{brief(field['default'], 60)}]" if field.get("default") is not None else ""
    mark = "*" if field.get("required") else ""
    return f"  {visible(str(field.get('label') or field['name']))}{mark}{visible(choices)}{default}: "


def _parse_typed(text: str, field: Mapping[str, Any]) -> Any:
    """What somebody typed as the field's type has it; what does not fit stays text, and the form says what is wrong."""
    kind, values = field["type"], {str(option["label"]): option["value"] for option in field.get("options") or ()}
    if kind == "boolean" or (kind == "checkbox" and not values):
        return YES_OR_NO.get(text.lower(), text)
    if kind in ("multiselect", "checkbox"):
        return [values.get(part.strip(), part.strip()) for part in text.split(",") if part.strip()]
    if kind in ("number", "slider"):
        try:
            return float(text) if "." in text else int(text)
        except ValueError:
            return text
    return values.get(text, text)
