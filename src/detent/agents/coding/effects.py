"""The effects of the lifecycle by name; a host that drives coding runs is given these."""

from detent.agents.coding.execution import baseline, checkpoint, choose, repair, restore, verify, work
from detent.agents.coding.job_ending import archive, report, undo
from detent.agents.coding.parallel_work import work_beside
from detent.agents.coding.planning import brief, make_plan, present
from detent.agents.coding.publication import ask_ci, open_pull, push
from detent.agents.coding.review import review
from detent.core.contract import Contract
from detent.core.effect_type import Effect, EffectFailed, effect
from detent.effects.registry import BUILTIN
from detent.kit.agent import Surroundings


@effect("llm", kind="idempotent")
async def _no_model(_contract: Contract) -> None:
    """Stands in where detent was installed without models."""
    raise EffectFailed("no model can be asked here; choose another planner: worker, file or single")


def effects() -> dict[str, Effect]:
    """Every effect that the machine CODING calls and that does not come with detent anyway."""
    own = (
        brief,
        work_beside,
        push,
        open_pull,
        ask_ci,
        review,
        make_plan,
        present,
        baseline,
        choose,
        repair,
        checkpoint,
        restore,
        work,
        verify,
        undo,
        report,
        archive,
    )
    stand_in = () if "llm" in BUILTIN else (_no_model,)
    return {found.name: found for found in (*own, *stand_in)}


def open_effects(_: Surroundings) -> dict[str, Effect]:
    """The agent's effects for one host."""
    return effects()
