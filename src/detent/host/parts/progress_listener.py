"""Onlookers: who hears what effects say while they are at work, without secrets. Nothing of it is journalled."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from detent.core.progress import Hear, Pass
from detent.host.parts.progress_text import SpokenWords


class Onlookers:
    """Those of single runs, and one who hears all."""

    def __init__(self, report: Callable[[str, Exception], None]) -> None:
        self._report = report  # an onlooker's trouble is not the run's
        self._spoken = SpokenWords()
        self.ear: Pass | None = None  # hears the effects of every run
        self._of_run: dict[str, list[Hear]] = {}

    def __bool__(self) -> bool:
        return bool(self._of_run) or self.ear is not None

    def add(self, run_id: str, hear: Hear) -> Callable[[], None]:
        """Let somebody hear a run's effects until the returned function is called."""
        hearing = self._of_run.setdefault(run_id, [])
        hearing.append(hear)

        def stop() -> None:
            if hear in hearing:
                hearing.remove(hear)
            if not hearing and self._of_run.get(run_id) is hearing:
                del self._of_run[run_id]

        return stop

    def tell(self, run_id: str, contract_id: str, data: Mapping[str, Any], *, is_last: bool) -> None:
        """Pass on what an effect said; `is_last`: it came by a thread, and the effect has ended meanwhile."""
        words = self._spoken.take(run_id, contract_id, data)
        if is_last:
            words += self._spoken.finish(run_id, contract_id)
        self._pass_on(run_id, contract_id, words)

    def finish(self, run_id: str, contract_id: str) -> None:
        """An effect has ended: pass on what was held back of its words."""
        if self._spoken.texts:
            self._pass_on(run_id, contract_id, self._spoken.finish(run_id, contract_id))

    def _pass_on(self, run_id: str, contract_id: str, words: Sequence[Mapping[str, Any]]) -> None:
        for data in words:
            hearing = [partial(hear, contract_id, data) for hear in self._of_run.get(run_id, ())]
            if self.ear is not None:
                hearing.append(partial(self.ear, run_id, contract_id, data))
            for hear in hearing:
                try:
                    hear()
                except Exception as error:  # noqa: BLE001
                    self._report(run_id, error)
