"""What a host does so that a call is made as the policy wants: facts for its rules, and the ground effects keep off."""

import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from detent.core import progress
from detent.core.contract import Contract
from detent.core.effect_type import Effect
from detent.core.progress import OffLimits
from detent.core.run import Run
from detent.host.parts.idempotency_claim import Wish
from detent.host.parts.loaded_run import LoadedRun
from detent.host.parts.tool_probe import add_probe
from detent.host.policy_check import Rulings


def describe_ground(home: Path, guarded: Sequence[Path]) -> OffLimits:
    """What effects must keep off: the home, and files elsewhere that say what they may do.

    The home is the folder itself, whatever becomes of links to it and of its name while effects are at work.
    """
    real, number = os.path.realpath(home), None
    with contextlib.suppress(OSError):  # there is none yet
        about = os.stat(real)
        number = about.st_dev, about.st_ino
    return OffLimits(real, tuple(str(path.absolute()) for path in guarded), number)


def _say_nothing(run_id: str, contract_id: str, data: Mapping[str, Any]) -> None:
    """Nobody listens to a probe."""


class Precautions(ABC):
    """The part of a host that asks the policy about calls; the host knows the effects."""

    rulings: Rulings

    @abstractmethod
    def effect(self, live: LoadedRun, name: str) -> Effect | None:
        """The effect of that name: the run's own file first, then the host's."""

    ground: OffLimits

    def find_effect(self, live: LoadedRun, contract: Contract) -> Effect | None:
        """The effect of a contract, with the probe that its definition names."""
        effect = self.effect(live, contract.effect)
        if effect is None or not contract.probe:
            return effect
        return add_probe(effect, partial(self._call_probe, live))

    async def _call_probe(self, live: LoadedRun, asked: Contract) -> Any:
        """Make the call of a probe, as carefully as any other; None where nobody has it, or a rule is against it."""
        effect = self.effect(live, asked.effect)
        if effect is None or not self.rulings.lets_through(live.run, live.machine, asked, partial(self.facts, live)):
            return None
        least = self.least_sandbox(live, asked)
        speaking = progress.attempt.set(progress.Attempt(asked, live.run.id, _say_nothing, self.ground, least))
        try:
            return await effect.perform(asked)
        finally:
            progress.attempt.reset(speaking)

    def _on_repeat(self, live: LoadedRun, run: Run, contract: Contract) -> Wish:
        effect = self.effect(live, contract.effect)
        wanted = self.rulings.on_repeat(run, live.machine, contract, partial(self.facts, live))
        return Wish(wanted, "" if effect is None else effect.advice)

    def least_sandbox(self, live: LoadedRun, contract: Contract) -> str:
        """The weakest sandbox that the policy allows a call; empty where it does not say."""
        if not self.rulings.policy.has_sandbox:
            return ""
        return self.rulings.least_sandbox(live.run, live.machine, contract, partial(self.facts, live))

    def facts(self, live: LoadedRun, contract: Contract) -> Mapping[str, Any]:
        """What can be found out about a call before it is made, for the policy."""
        effect = self.effect(live, contract.effect)
        return {} if effect is None or effect.facts is None else effect.facts(contract.input)
