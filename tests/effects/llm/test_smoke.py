"""A real small model over the real road; opt-in, since it fetches 130 MB and takes its time."""

import os

import pytest

from detent.core.schema import problems
from tests.effects.llm.smoke import SCHEMA, asked, served

WANTED = "DETENT_SMOKE_MODEL"


@pytest.mark.limit(900)
@pytest.mark.skipif(not os.environ.get(WANTED), reason=f"set {WANTED}=1 to fetch a real small model and ask it")
async def test_a_real_model_answers_and_keeps_to_a_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DETENT_MODEL", "DETENT_BASE_URL", "NO_PROXY"):
        monkeypatch.setenv(name, "")
    async with served() as address:
        plain = await asked(address, "Say hello in one sentence.", temperature=0.0)
        assert plain["text"].strip()
        assert plain["usage"]["output_tokens"] > 0
        shaped = await asked(address, "Send a mail to Bob.", schema=SCHEMA, temperature=0.0)
        assert not problems(SCHEMA, shaped["json"])
