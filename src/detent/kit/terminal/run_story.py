"""The story of a run: its events as they are journalled, each with what it led to, as lines."""

from collections.abc import Iterator
from typing import ClassVar

from detent.core.events import ATTEMPT, ContractMoved, Event, Signalled, Started
from detent.core.history import Consequence, Entry
from detent.core.status import Status
from detent.host.parts.idempotency_claim import REUSED
from detent.kit.error_translation import translate_error
from detent.kit.language import _
from detent.kit.safe_text import brief, duration, visible

Line = tuple[str, str]  # and its colour


class Narrator:
    """Turns events into the few lines a person follows while a run is at work; a projection of the run."""

    name: ClassVar[str] = "story"
    version: ClassVar[int] = 1
    reach: ClassVar[int] = 0

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self._since: dict[str, tuple[float, str]] = {}
        self._news: list[Line] = []

    def take(self, entry: Entry) -> None:
        """What one entry is to a person."""
        self._news += self._lines(entry)

    def news(self) -> list[Line]:
        """The lines that have come since this was last asked."""
        news, self._news = self._news, []
        return news

    @property
    def at_work(self) -> list[tuple[str, str, float]]:
        """What is under way: contract, effect, since when."""
        return [(contract_id, effect, at) for contract_id, (at, effect) in list(self._since.items())]

    def _lines(self, entry: Entry) -> Iterator[Line]:
        if isinstance(entry.event, Started):
            yield _("run {run_id} started in `{state}`", run_id=entry.run.id, state=entry.run.state), "dim"
        ends = {t.subject: t for t in entry.taken if t.kind == "contract"}  # only where each contract came to rest
        for taken in entry.taken:
            if taken.kind == "contract":
                if ends[taken.subject] is taken and (line := self._narrate_move(entry, taken)) is not None:
                    yield line
            elif taken.kind == "transition":
                yield _transition(taken), ""
            elif taken.kind == "caught":
                yield _tell_caught(taken), "yellow"
            elif taken.kind == "policy":
                yield f"  {_tell_ruling(taken)}", "yellow" if taken.event == "deny" else "dim"
            elif taken.kind == "evidence":
                yield f"  {_evidence(taken)}", "red" if entry.run.alarms else "yellow"
            elif taken.kind == "log":
                yield f"  {brief(taken.value, 500)}", ""
            elif taken.kind in ("note", "dropped"):
                yield f"  {visible(taken.subject)}: {brief(taken.value, 500)}", "dim"

    def _narrate_move(self, entry: Entry, taken: Consequence) -> tuple[str, str] | None:
        name, at, target = visible(taken.subject), entry.event.at, taken.target
        begun = self._since.pop(taken.subject, None)
        if target == Status.RUNNING:
            contract = entry.run.contract(taken.subject)
            effect = visible(contract.effect) if contract else begun[1] if begun else ""
            self._since[taken.subject] = at, effect
            return _("  {name}: {effect} began", name=name, effect=effect), "dim"
        if target == Status.WAITING:
            return _tell_question(entry, taken)
        if target == Status.REJECTED:
            return _("  {name} rejected: {problem}", name=name, problem=_refusal(entry)), "yellow"
        spent = _(" after {time}", time=duration(max(0.0, at - begun[0]))) if begun else ""
        if target == Status.COMPLETED:
            return _("  {name} completed{spent}", name=name, spent=spent), "green"
        if target == Status.FAILED:
            return _("  {name} failed{spent}: {problem}", name=name, spent=spent, problem=_problem(entry)), "red"
        if target == Status.CANCELLED:
            return _("  {name} cancelled{spent}", name=name, spent=spent), "yellow"
        return None


def _tell_question(entry: Entry, taken: Consequence) -> tuple[str, str]:
    name, contract = visible(taken.subject), entry.run.contract(taken.subject)
    asked = contract.question.text if contract and contract.question else ""
    if not asked:
        return _("  {name} waits", name=name), "dim"
    if asked.endswith(REUSED):
        return f"  {name}: {brief(asked, 500)}", "dim"  # the journal answers by itself, at once
    first, *more = asked.strip().splitlines() or [""]  # the rest is shown when the run rests
    return _("  {name} waits: {question}", name=name, question=brief(first, 500) + " …" * bool(more)), ""


def _problem(entry: Entry) -> str:
    error = entry.event.error if isinstance(entry.event, ContractMoved) and entry.event.error else entry.run.error
    return brief(translate_error(error.message) or error.type, 500) if error else ""


def _refusal(entry: Entry) -> str:
    """Why a contract was not carried out: what somebody said, or what the journal or the policy says."""
    event = entry.event
    said = event.result if isinstance(event, ContractMoved) and event.trigger == "resume" else None
    if not isinstance(said, dict) or not said.get("by") or (event.error and event.error.message):  # type: ignore[union-attr]
        return _problem(entry)
    if said.get("approved"):
        return _("{name} edited its arguments", name=visible(str(said["by"])))
    no = _("{name} said no", name=visible(str(said["by"])))
    return f"{no}: {brief(said['comment'], 500)}" if said.get("comment") else no


def _transition(taken: Consequence) -> str:
    way = f"{visible(taken.source)} → {visible(taken.target)}"
    return _("{way} on {event}", way=way, event=visible(taken.event)) if taken.event else way


def _tell_caught(taken: Consequence) -> str:
    problem = brief(taken.subject or taken.event, 500)
    return _("  {type} is caught: {problem}", type=visible(taken.event), problem=problem)


def _tell_ruling(taken: Consequence) -> str:
    rule, name, decision = visible(str(taken.value)), visible(taken.subject), visible(taken.event)
    return _("{name}: the policy's rule `{rule}` says {decision}", name=name, rule=rule, decision=decision)


def _evidence(taken: Consequence) -> str:
    """What came late of a call."""
    value = f" {brief(taken.value, 300)}" if taken.value is not None else ""
    return f"{visible(taken.subject)}: {visible(taken.event)}{value}"


def headline(event: Event) -> str:
    """What an event says, on one line."""
    if isinstance(event, Started):
        by = _(" by {name}", name=visible(_render_name(event.by, event.known_by, event.spoken_by))) if event.by else ""
        return _("started{by}, input {value}", by=by, value=brief(event.input))
    by = _render_name(event.by, event.known_by, event.spoken_by) if isinstance(event, Signalled) else _speaker(event)
    said = _(" by {name}", name=visible(by)) if by else ""
    if isinstance(event, Signalled) and event.name == ATTEMPT:
        about = {"name": visible(str(event.data.get("contract_id", ""))), "by": said}
        return _("{name}: an attempt to answer{by} was refused", **about)
    if isinstance(event, Signalled):
        value = f" {brief(event.data)}" if event.data else ""
        return _("signal {name}{by}{value}", name=visible(event.name), by=said, value=value)
    value = f" {brief(event.result)}" if event.result is not None else ""
    return f"{visible(event.contract_id)} {visible(event.trigger)}{said}{value}"


def _speaker(event: ContractMoved) -> str:
    """Who is behind a move: the person who answered rather than "human"."""
    said = event.result if event.trigger == "resume" and isinstance(event.result, dict) else {}
    if not said or event.actor != "human":
        return str(said.get("by") or event.actor)
    by, known = str(said.get("by") or ""), str(said.get("known_by") or _("claimed"))
    known = _("{known}, signed", known=known) if said.get("signature") else known
    return _render_name(by, known, str(said.get("spoken_by") or "")) if by else event.actor


def _render_name(by: str, known: str, spoken_by: str) -> str:
    """A name with whoever spoke in it, and what vouches for it; that it is only claimed is told of an answer."""
    name = _("{name} for {other}", name=spoken_by, other=by) if spoken_by else by
    return f"{name} ({known})" if known and by else name


def consequences(entry: Entry) -> Iterator[str]:
    """Everything an event led to, conditions and values included."""
    for taken in entry.taken:
        match taken.kind:
            case "transition":
                yield _transition(taken)
            case "contract":
                yield f"{visible(taken.subject)}: {taken.source} → {taken.target} ({visible(taken.event)})"
            case "condition":
                seen = brief(taken.values, 300)
                value = (
                    _("cannot be computed: {problem}", problem=visible(taken.event))
                    if taken.value is None
                    else taken.value
                )
                yield _(
                    "if {condition}: {value}  with {values}", condition=visible(taken.subject), value=value, values=seen
                )
            case "caught":
                yield _tell_caught(taken).strip()
            case "policy":
                yield _tell_ruling(taken)
            case "evidence":
                yield _evidence(taken)
            case "log" if taken.event == "notify":
                yield _("message to {to}: {message}", to=visible(entry.run.by or "?"), message=brief(taken.value, 500))
            case "set":
                yield f"{visible(taken.subject)} = {brief(taken.value, 300)}"
            case _:
                yield f"{taken.kind} {visible(taken.subject)}: {brief(taken.value, 500)}"
