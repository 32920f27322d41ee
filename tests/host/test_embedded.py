"""The embedded host, with its writer in a thread and with its writer inline, does what every host must do."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from detent.core import Effect
from detent.host import Host
from detent.host.embedded import EmbeddedHost
from detent.kit.people_file import PeopleFile
from detent.testing.conformance import CHECKS, HandClock


def opener(is_inline: bool):  # type: ignore[no-untyped-def]  # a Protocol with defaults cannot be written as Callable
    @asynccontextmanager
    async def open_host(
        home: Path, effects: Sequence[Effect] = (), clock: HandClock | None = None
    ) -> AsyncIterator[Host]:
        people = PeopleFile(home)
        host = EmbeddedHost(home, effects, clock=clock, is_inline=is_inline, sync="off", grace_s=0.0, people=people)
        async with host:
            yield host

    return open_host


@pytest.mark.parametrize("writer", ["threaded", "inline"])
@pytest.mark.parametrize("check", CHECKS)
async def test_the_embedded_host_conforms(check: str, writer: str, tmp_path: Path) -> None:
    await CHECKS[check](opener(writer == "inline"), tmp_path / "home")
