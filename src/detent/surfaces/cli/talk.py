"""One turn of a conversation on a terminal: text as it comes, tool calls with their contracts, questions in place."""

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from detent.agents.assistant.execution import Execution, Ledger, Move
from detent.core.run import Run
from detent.errors import Refused
from detent.surfaces.cli.caller import Caller
from detent.surfaces.cli.driver import again_and_again
from detent.surfaces.cli.story import News
from detent.surfaces.cli.text import as_json, brief, status_word, visible
from detent.surfaces.cli.view import asked, is_for_people
from detent.surfaces.language import _

if TYPE_CHECKING:
    from detent.host.embedded.shared import SharedHost

PAUSE_S = 0.03


async def line(prompt: str) -> str | None:
    """A line from whoever is at the keyboard, None at the end; waiting for one never keeps the program from ending."""
    sys.stdout.write(prompt)
    sys.stdout.flush()
    loop = asyncio.get_running_loop()
    heard: asyncio.Future[str] = loop.create_future()

    def take(text: str) -> None:
        if not heard.done():
            heard.set_result(text)

    def read() -> None:
        loop.call_soon_threadsafe(take, sys.stdin.readline())

    threading.Thread(target=read, daemon=True).start()
    text = await heard
    return text.rstrip("\r\n") if text else None


class Spoken:
    """The model's words as they come; an answer that is one JSON object is for the program, not for the eye."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._held = ""
        self._from = ""
        self.shown = ""

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


@asynccontextmanager
async def showing(caller: Caller, host: "SharedHost", run_id: str, spoken: Spoken) -> AsyncIterator[None]:
    """Show what a turn does while the block is at work."""
    if caller.is_json:
        yield
        return
    stop = host.overhear(run_id, spoken.hear)
    news, ledger, told = News(caller.journal, run_id), Ledger(run_id), 0

    def tell() -> None:
        nonlocal told
        ledger.read(news.news())
        for id, row in ledger.rows[told:]:
            if isinstance(row, Move):
                spoken.end_line()
                caller.note(_moved(ledger.executions[id], row), "dim")
        told = len(ledger.rows)

    try:
        async with again_and_again(tell, PAUSE_S):
            yield
    finally:
        stop()


def _moved(execution: Execution, move: Move) -> str:
    call = execution.detail.get("call")
    about = _("{name}, confirmation", name=f"{call['service']}.{call['method']}") if call else execution.summary
    name = f"{visible(about)} [{execution.id.rpartition(':')[2]}]"
    way = f"{status_word(move.source)} → {status_word(move.target)}"
    more = ""
    if move.trigger == "start" and execution.type == "tool_call":
        more = f"  {brief(execution.detail.get('args'), 200)}"
    elif move.target.is_terminal:
        more = f"  {brief(execution.error or execution.result, 300)}" if execution.error or execution.result else ""
    return f"  {name}: {way}{more}"


async def settle(caller: Caller, host: "SharedHost", run_id: str, by: str) -> Run:
    """Stay with a turn until it has ended, asking whatever it asks; `later` leaves the question open."""
    spoken = Spoken(caller)
    while True:
        async with showing(caller, host, run_id, spoken):
            run = await host.settled(run_id)
        if run.ended is not None or caller.is_json or not sys.stdin.isatty() or not is_for_people(run):
            break
        spoken.end_line()
        if run.context.get("response") and not spoken.shown:
            caller.say(str(run.context["response"]))
        if not await answered(caller, host, run, by):
            break
        spoken = Spoken(caller)
    if run.ended is not None:
        spoken.finish(str((run.output or {}).get("response") or ""))
    return run


async def answered(caller: Caller, host: "SharedHost", run: Run, by: str) -> bool:
    """Put every open question of a turn; whether something was answered."""
    from detent.surfaces.cli.view import questions

    done = False
    for question in questions(caller, run):
        for line, style in asked(caller, question):
            caller.say(line, style)
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
    word = (await line(_("[y]es, [n]o, [e]dit, [l]ater? ")) or "l").strip().lower()
    if word in ("y", "yes", "是"):
        return {"approved": True}
    if word in ("n", "no", "否"):
        return {"approved": False, "comment": await line(_("Why? ")) or ""}
    if word in ("e", "edit"):
        from detent.surfaces.cli.option import parsed_object

        caller.say(as_json(question["call"]["input"]))
        text = await line(_("Arguments as JSON: "))
        return {"approved": True, "args": parsed_object(text, "arguments")} if text else None
    return None


async def _doubt() -> dict[str, Any] | None:
    word = (await line(_("Did it happen? [y]es, [n]o (do it now), [g]ive up, [l]ater? ")) or "l").strip().lower()
    outcomes = {"y": "happened", "yes": "happened", "n": "not_happened", "no": "not_happened", "g": "give_up"}
    return {"outcome": outcomes[word]} if word in outcomes else None


async def _form(caller: Caller, question: Mapping[str, Any]) -> dict[str, Any] | None:
    """Ask for a form's fields one after the other; an empty line leaves one out, `!` rejects the form."""
    data: dict[str, Any] = {}
    schema = question.get("schema") or {}
    caller.say(_("An empty line leaves a field out; ! rejects the form."), "dim")
    for name, field in (schema.get("properties") or {}).items():
        choices = (field.get("items") or field).get("enum")
        hint = f" ({', '.join(map(str, choices))})" if choices else ""
        mark = "*" if name in schema.get("required", ()) else ""
        text = await line(f"  {visible(str(field.get('title', name)))}{mark}{visible(hint)}: ")
        if text is None:
            return None
        if text.strip() == "!":
            return {"approved": False}
        if text.strip():
            data[name] = _typed(text.strip(), field)
    return {"data": data}


def _typed(text: str, field: Mapping[str, Any]) -> Any:
    kind = field.get("type")
    if kind == "boolean":
        return text.lower() in ("y", "yes", "true", "1", "是")
    if kind == "array":
        return [part.strip() for part in text.split(",") if part.strip()]
    if kind == "number":
        try:
            return float(text) if "." in text else int(text)
        except ValueError:
            return text  # the form says what is wrong with it
    return text
