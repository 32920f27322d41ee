"""What every surface needs to hold a conversation: the assistant's effects, its tools, and the beginning of a turn."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from detent.agents.assistant import (
    ASSISTANT,
    Ledger,
    effects,
    find_cancelled_calls,
    new_turn,
    offer_tools,
    past,
    setting,
    turn_input,
)
from detent.core.effect_type import Effect
from detent.core.status import Status
from detent.define import find_effects
from detent.errors import DefinitionError, Refused
from detent.kit.agent import Surroundings, of_agent

if TYPE_CHECKING:
    from detent.core.identity import By
    from detent.core.run import Run
    from detent.host.port import Host, Reader

INTERNAL = "detent."  # effects of the server's own, for its hooks and notices: no model is offered them
TURNS_READ = 10  # of a session's past
PLAN = (
    "The user wants a plan first. Look at whatever you need, change nothing, and answer with the steps you would take, "
    "numbered, with what could go wrong."
)
STOPPED = "[STOPPED] The user stopped your answer to the message above."


def agent_effects(home: Path) -> dict[str, Effect]:
    """The assistant's own effects, by name; for one home they are made once, and with them its memory is opened."""
    return dict(_make_effects(home.absolute()))


def open_effects(around: Surroundings) -> dict[str, Effect]:
    """The agent's effects for one host."""
    return agent_effects(around.home)


@functools.lru_cache(8)
def _make_effects(home: Path) -> dict[str, Effect]:
    return {effect.name: effect for effect in effects(home)}


def own_effects(source: str) -> dict[str, Effect]:
    """The effects of a tools file; a file that cannot be used is a mistake, not an empty list."""
    problems: list[str] = []
    found = find_effects(source, problems.append)
    if problems:
        raise DefinitionError(problems[0].removeprefix("the effects of this run cannot be loaded: "))
    if not found:
        raise DefinitionError("there are no effects in it; make some with `@effect`", source)
    return found


def tools_of(known: Mapping[str, Effect], own: Mapping[str, Effect], named: Sequence[str]) -> list[dict[str, Any]]:
    """The tools a model is offered: those of the user's file, those of MCP servers, and built-in ones by name."""
    unknown = [name for name in named if name not in known]
    if unknown:
        raise Refused(f"there is no tool `{unknown[0]}`; known: {', '.join(sorted(known))}")
    quiet = _list_installed() - set(named)
    served = {name: effect for name, effect in known.items() if name not in quiet and not name.startswith(INTERNAL)}
    return offer_tools({**served, **own}.values())


@functools.cache
def _list_installed() -> frozenset[str]:
    """The names of what comes with detent and with plugins; looking through all packages takes longer than a turn."""
    from detent.effects import builtin, discover

    return frozenset((*builtin(), *discover()))


def check_model(wanted: str, *, is_here: bool) -> None:
    """Refuse a model that cannot be asked before anything begins; `is_here`: this process is the one that asks it."""
    from detent.effects.llm import choose_model

    choice = choose_model(wanted)
    if choice.problem and (is_here or not choice.is_written_well):
        raise Refused(f"the model `{choice.spec}` cannot be used: {choice.problem}")


def plan_only(tools: Sequence[dict[str, Any]], settings: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """What a turn has that only plans: the tools that change nothing, and settings that ask the model for a plan."""
    said = "\n\n".join(filter(None, [str(settings.get("instructions") or ""), PLAN]))
    return [tool for tool in tools if tool["kind"] == "pure"], {**settings, "instructions": said}


def settings_of(home: Path, **given: Any) -> dict[str, Any]:
    """What holds for a new turn: the home's settings, and over them what its caller says."""
    return {**setting.list_set(setting.load(home)), **given}


class Past(NamedTuple):
    """A session so far: what was said, our lines on calls cancelled since, and the facts of all calls cancelled."""

    said: list[dict[str, str]]
    news: list[dict[str, str]]
    facts: list[dict[str, Any]]


def history(reader: "Reader", session: str, undone: int = 0) -> Past:
    """What a new turn must know of its session; the last `undone` turns were taken back, and only their deeds count.

    The newest turn was told of everything before it, so of the older ones only those are read that moved after it
    began, or that were cancelled: a turn must not cost more the longer its session is.
    """
    known = reader.session(session, TURNS_READ + undone)
    turns, taken_back = known[undone:], known[:undone]
    deeds = [{"role": "system", "content": one["line"]} for turn in reversed(taken_back)
             for one in reader.standing(turn.run_id).run.context.get("executions") or ()
             if one["view"]["has_side_effects"]]  # fmt: skip
    if not turns:
        return Past([], deeds, [])
    since = turns[0].started_at
    runs = [reader.standing(turn.run_id).run for turn in turns
            if turn is turns[0] or turn.updated_at > since or turn.status is Status.CANCELLED]  # fmt: skip
    facts, news = list[dict[str, Any]](), list[dict[str, str]]()
    if runs[0].ended is Status.CANCELLED:
        news.append({"role": "system", "content": STOPPED})
    for run in reversed(runs):
        found = find_cancelled_calls(run, ledger_of(reader, run.id)) if run.ended is Status.CANCELLED else []
        facts += found
        if run.at >= since:  # else the newest turn was told
            news += [{"role": "system", "content": fact["value"]} for fact in found]
    return Past(past(runs), [*news, *deeds], facts)


def ledger_of(reader: "Reader", run_id: str) -> Ledger:
    """What the journal says was done in a turn."""
    return reader.project(run_id, Ledger)


def ledgers(reader: "Reader", session: str, limit: int = 1000) -> Iterable[Ledger]:
    """What was done in every turn of a session, oldest first."""
    for turn in reversed(reader.session(session, limit)):
        yield ledger_of(reader, turn.run_id)


async def begin(
    host: "Host",
    session: str,
    message: str,
    *,
    said: Sequence[Mapping[str, Any]] = (),
    tools: Sequence[Mapping[str, Any]] = (),
    source: str = "",
    by: "By" = "",
    **more: Any,
) -> "Run":
    """Begin a turn; `more` is what `turn_input` takes besides."""
    given = turn_input(message, tools=tools, history=said, **more)
    source = of_agent("assistant", source)
    return await host.start(ASSISTANT, given, run_id=new_turn(session), session=session, source=source, by=by)
