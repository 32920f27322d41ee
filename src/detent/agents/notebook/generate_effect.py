"""The effect `notebook.generate`: the actions of one behaviour, collected and journalled before the first is done."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from detent.agents.notebook.act_effect import doorway
from detent.agents.notebook.action_context import ScriptStore
from detent.agents.notebook.cell_text import action_of
from detent.agents.notebook.context_filter import apply_focus, patterns_of, strategies
from detent.agents.notebook.kernel_restore import way_given
from detent.agents.notebook.notebook_state import NotebookState
from detent.agents.notebook.observation import observe
from detent.agents.notebook.plan_effect import TRIES, failure_of
from detent.agents.notebook.planner_regex import search_patterns
from detent.agents.notebook.port import PlannerFailed
from detent.core.contract import Contract
from detent.core.effect_type import EffectFailed, Outcome
from detent.core.progress import say

if TYPE_CHECKING:
    from detent.agents.notebook.service import Notebooks

ACTIONS_MAX = 20_000  # of one behaviour


async def generate(notebooks: "Notebooks", book: NotebookState, contract: Contract) -> Outcome:
    """Ask for the actions of this behaviour."""
    changes: dict[str, Any] = {}
    actions: list[dict[str, Any]] = []
    usage: dict[str, float] = {}
    if not (book.inserted and book.is_update_only):
        observation = await _narrow_observation(notebooks, book, contract, changes)
        actions = await _generate(notebooks, book, contract, observation, changes, usage)
    queue = [*book.inserted, *actions]
    changes["queue"] = {"actions": queue}
    result = {"success": True, "actions": len(queue), "changes": changes}
    if not queue:
        return Outcome(result, raises="COMPLETE_BEHAVIOR", usage=usage)
    patch = doorway(ScriptStore(book), action_of(queue[0]), book.actions_done)
    return Outcome(result, raises="START_ACTION", patch=patch, usage=usage)


async def _narrow_observation(
    notebooks: "Notebooks", book: NotebookState, contract: Contract, changes: dict[str, Any]
) -> dict[str, Any]:
    """The observation, narrowed to what the planner's filter lets through."""
    observation = observe(book)
    wanted = book.filter
    if not wanted:
        return observation
    asked = strategies(wanted)
    details: dict[str, Any] = {}
    if asked:
        looked = await notebooks.bench.look(book, {}, asked, way_given(contract))
        details = {name: variable.detail for name, variable in looked.variables.items() if variable.detail is not None}
    effects = observation["context"]["effects"]
    matches = await search_patterns(patterns_of(wanted), [*effects["current"], *effects["history"]])
    shown = apply_focus(observation, wanted, details, matches)
    warnings = [text for text in shown["context"]["effects"]["current"] if text.startswith("⚠️ WARN")]
    new = [text for text in warnings if text not in book.current]
    if new:
        changes["effects"], changes["warned"] = new, new
    return shown


async def _generate(
    notebooks: "Notebooks",
    book: NotebookState,
    contract: Contract,
    observation: dict[str, Any],
    changes: dict[str, Any],
    usage: dict[str, float],
) -> list[dict[str, Any]]:
    fallback = notebooks.fallback(book)
    if fallback is not None and book.is_fallback:
        return await _collect(fallback.generator.generate(observation), book, contract, changes, usage)
    try:
        advisers = notebooks.advisers(book)
        return await _collect(advisers.generator.generate(observation), book, contract, changes, usage)
    except PlannerFailed as error:
        if fallback is not None and contract.attempt >= TRIES:
            say(contract, {"warning": f"the generator failed ({error}); the fallback is asked"})
            changes.setdefault("set", {})["is_fallback"] = True
            return await _collect(fallback.generator.generate(observation), book, contract, changes, usage)
        raise failure_of(error) from error


async def _collect(
    stream: AsyncIterator[dict[str, Any]],
    book: NotebookState,
    contract: Contract,
    changes: dict[str, Any],
    usage: dict[str, float],
) -> list[dict[str, Any]]:
    most = int(book.given_input.get("max_actions") or ACTIONS_MAX)
    actions: list[dict[str, Any]] = []
    async for given in stream:
        if isinstance(given, dict) and set(given) == {"usage"}:
            usage.update({name: float(amount) for name, amount in given["usage"].items()})
            continue
        if isinstance(given, dict) and set(given) == {"warning"}:
            changes.setdefault("warned", []).append(str(given["warning"]))
            continue
        action = action_of(given)
        if not action:
            changes.setdefault("warned", []).append("the generator sent something that is no action; it was skipped")
            continue
        actions.append(action)
        say(contract, {"generated": len(actions), "action": action["action"]})
        if len(actions) > most:
            raise EffectFailed(f"the generator sent more than {most:,} actions", type="tool_failure.no_progress")
    return actions
