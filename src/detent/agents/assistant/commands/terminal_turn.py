"""One turn of a conversation on a terminal: text as it comes, what was done, questions answered where they stand."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from detent.agents.assistant.commands.call_line import DeedLines
from detent.agents.assistant.commands.file_change import render_change
from detent.agents.assistant.commands.line_editor import Keyboard, PlainKeyboard
from detent.agents.assistant.commands.screen import REDRAW_S, Screen
from detent.agents.assistant.question_form import fields_of, unfold
from detent.core.run import Run
from detent.errors import Refused
from detent.kit.language import _
from detent.kit.safe_text import as_json, brief, visible
from detent.kit.terminal.question import render_question
from detent.kit.terminal.run_driver import on_every_ring
from detent.kit.terminal.run_view import is_for_people, questions

if TYPE_CHECKING:
    from detent.host.port import EntryStream, OpenHost

ANSWERS = {"y": "yes", "yes": "yes", "是": "yes", "n": "no", "no": "no", "否": "no", "e": "edit", "edit": "edit",
           "l": "", "later": ""}  # fmt: skip
USES = {"u": "use", "use": "use"}
OUTCOMES = {"y": "happened", "yes": "happened", "是": "happened", "n": "not_happened", "no": "not_happened",
            "否": "not_happened", "g": "give_up", "give up": "give_up", "l": "", "later": ""}  # fmt: skip
YES_OR_NO = {"y": True, "yes": True, "true": True, "1": True, "是": True,
             "n": False, "no": False, "false": False, "0": False, "否": False}  # fmt: skip


class Talk:
    """One side of a conversation: the screen, the keyboard, and in whose name answers are given."""

    def __init__(self, screen: Screen, keyboard: Keyboard | None, host: "OpenHost", by: str) -> None:
        self.screen, self.keyboard, self.host, self.by = screen, keyboard or PlainKeyboard(), host, by
        self.caller = screen.caller
        self._is_sitting = keyboard is not None  # and can type commands
        self._stop = asyncio.Event()

    async def settle(self, run_id: str, *, is_known: bool = False) -> Run:
        """Stay with a turn until it has ended, asking whatever it asks; `later` leaves the question open.

        `is_known`: what it did so far was told already.
        """
        with self.host.reader.following(run_id) as place:
            deeds = DeedLines(self.screen, run_id)
            if is_known:
                deeds.skip(place)
            return await self._follow(place, deeds)

    async def _follow(self, place: "EntryStream", deeds: DeedLines) -> Run:
        caller, screen = self.caller, self.screen
        while True:
            screen.begin()
            self._stop.clear()
            async with self._showing(place, deeds):
                run = await self._wait(place.run_id)
            is_asked = run.ended is None and not caller.is_json and not screen.is_quiet and sys.stdin.isatty()
            if not is_asked or not is_for_people(run):
                break
            screen.finish(str(run.context.get("response") or ""))
            if not await self._put_questions(run):
                return run
        if caller.is_json:
            return run
        if run.ended is None:
            screen.end_words()
        else:
            response = (run.output or {}).get("response") if isinstance(run.output, dict) else ""
            screen.finish(str(response or ""))
        return run

    async def _wait(self, run_id: str) -> Run:
        """Until the turn has settled; Esc cancels it, and it settles all the same."""
        settled = asyncio.ensure_future(self.host.settled(run_id))
        stopped = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait([settled, stopped], return_when=asyncio.FIRST_COMPLETED)
            if not settled.done():
                self.screen.note(_("stopping…"))
                with suppress(Refused):  # it has ended meanwhile
                    await self.host.cancel(run_id, by=self.by, reason="stopped at the keyboard")
            return await settled
        finally:
            stopped.cancel()
            settled.cancel()

    @asynccontextmanager
    async def _showing(self, place: "EntryStream", deeds: DeedLines) -> AsyncIterator[None]:
        """Show what a turn does while the block is at work."""
        screen = self.screen
        if self.caller.is_json:
            yield
            return

        def tell() -> None:
            deeds.tell(place)

        def hear(contract_id: str, data: Mapping[str, Any]) -> None:
            if screen.is_new(contract_id):
                tell()  # whatever led to these words comes before them
            screen.hear(contract_id, data)

        async def turn_the_wheel() -> None:
            while True:
                screen.redraw()
                await asyncio.sleep(REDRAW_S)

        overheard = self.host.overhear(place.run_id, hear)
        screen.keep_line()
        wheel = asyncio.ensure_future(turn_the_wheel()) if screen.is_live else None
        try:
            with self.keyboard.listen(self._stop.set):
                async with on_every_ring(tell, place.wait):
                    yield
        finally:
            overheard()
            if wheel is not None:
                wheel.cancel()
            screen.free_line()

    async def _put_questions(self, run: Run) -> bool:
        """Put every open question of a turn; whether something was answered."""
        caller, screen, done = self.caller, self.screen, False
        for question in questions(caller, caller.reader.standing(run.id)):
            for row, style in render_question(caller, question, is_filled_in=True, is_brief=not screen.is_verbose):
                screen.say(row, style)
            for row, style in render_change(question["call"]):
                screen.say(row, style)
            said = await self._reply(question)
            if said is None:
                screen.say(self._tell_open())
                continue
            said |= {"by": self.by, "channel": "cli", "call_hash": question["call_hash"]}
            try:
                await self.host.answer(question["run_id"], question["contract_id"], said)
            except Refused as error:
                screen.note(visible(str(error)), "red")
            done = True  # one that was refused is put again
        return done

    def _tell_open(self) -> str:
        """Where a question that was left for later is answered."""
        if self._is_sitting:
            return _("Left open; /resume asks again, and `detent list --waiting` shows it.")
        return _("Left open; this chat asks again when it is opened, and `detent list --waiting` shows it.")

    async def _choose(self, prompt: str, words: Mapping[str, str]) -> str:
        """What one of these words stands for; another word is asked about again, the end of input chooses nothing."""
        while True:
            text = await self.keyboard.read_line(prompt)
            if text is None:
                return ""
            if text.strip().lower() in words:
                return words[text.strip().lower()]

    async def _reply(self, question: Mapping[str, Any]) -> dict[str, Any] | None:
        if question["reason"] == "form":
            return await self._form(question)
        if question["reason"] == "outcome_unknown":
            return await self._doubt()
        prompt, words = _("[y]es, [n]o, [e]dit, [l]ater? "), ANSWERS
        if question.get("earlier"):
            prompt, words = _("Do it again? [y]es, [u]se that result, [n]o, [e]dit, [l]ater? "), ANSWERS | USES
        match await self._choose(prompt, words):
            case "use":
                return {"outcome": "use"}
            case "yes":
                return {"approved": True}
            case "no":
                why = await self.keyboard.read_line(_("Why? (Enter: no reason) "))
                return {"approved": False, "comment": why or ""}
            case "edit":
                args = await self._arguments(question["call"]["input"])
                return None if args is None else {"approved": True, "args": args}
        return None

    async def _arguments(self, given: Any) -> dict[str, Any] | None:
        """Arguments that somebody types; a mistake is told and asked about again, an empty line takes it back."""
        if isinstance(self.keyboard, PlainKeyboard):  # elsewhere they stand in the line, to be changed
            self.screen.say(as_json(given))
        text: str | None = as_json(given)
        while text := await self.keyboard.read_line(_("Arguments as JSON: "), text or ""):
            try:
                args = json.loads(text)
            except (ValueError, RecursionError) as error:
                problem = str(error) if isinstance(error, ValueError) else "nested too deeply"
                self.screen.note(_("{name} is not JSON: {problem}", name=_("this"), problem=problem), "red")
                continue
            if isinstance(args, dict):
                return args
            example = '{"key": "value"}'
            told = _("{name} must be a JSON object, like {example}", name=_("this"), example=example)
            self.screen.note(told, "red")
        return None

    async def _doubt(self) -> dict[str, Any] | None:
        said = await self._choose(_("Did it happen? [y]es, [n]o (do it now), [g]ive up, [l]ater? "), OUTCOMES)
        if said != "happened":
            return {"outcome": said} if said else None
        evidence = await self.keyboard.read_line(_("How do you know, or what did it give? "))
        return {"outcome": said} | ({"result": evidence.strip()} if evidence and evidence.strip() else {})

    async def _form(self, question: Mapping[str, Any]) -> dict[str, Any] | None:
        """Ask for a form's fields one after the other; an empty line leaves one out, `!` rejects the form."""
        data: dict[str, Any] = {}
        schema = question.get("schema") or {}
        self.screen.say(_("An empty line leaves a field out; ! rejects the form."), "dim")
        for field in _fields(question, schema):
            text = await self.keyboard.read_line(_prompt(field))
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
