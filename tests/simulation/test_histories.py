"""Two thousand random histories with deaths in them: the laws hold in every one."""

import pytest

from tests.effort import examples
from tests.simulation.history import check

COUNT = examples(1000)
BATCH = 100


@pytest.mark.parametrize("first", range(0, COUNT, BATCH))
def test_the_laws_hold_in_every_random_history(first: int) -> None:
    for seed in range(first, min(first + BATCH, COUNT)):
        try:
            check(seed)
        except BaseException as error:
            error.add_note(f"history {seed}: tests.simulation.history.check({seed}) tells it again")
            raise
