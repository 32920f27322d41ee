"""Effects: what a declaration says, and that saying nothing is the careful choice."""

import msgspec
import pytest

from detent import Contract, Declared, EffectFailed, Outcome, effect
from detent.errors import DefinitionError


def test_an_effect_is_a_function_with_a_name_and_a_declaration() -> None:
    @effect("mail.send", kind="idempotent", timeout_s=5, scope="session", settle_s=1)
    async def send(contract: Contract) -> Outcome:
        """Send a mail.

        More about it.
        """
        return Outcome({"sent": True})

    assert (send.name, send.about) == ("mail.send", "Send a mail.")
    assert send.declared == Declared("idempotent", 5.0, "session", 1.0)
    assert send.declared.settle == 1.0
    assert send.reconcile is None


def test_an_effect_that_declares_nothing_counts_as_irreversible() -> None:
    @effect
    async def pay(contract: Contract) -> None:
        return None

    assert (pay.name, pay.declared) == ("pay", Declared("irreversible", 60.0, "global"))
    assert pay.declared.settle == 60.0


def test_a_kind_that_does_not_exist_is_refused() -> None:
    with pytest.raises(DefinitionError, match="kind `harmless` is not one of pure, idempotent, irreversible"):
        effect("x", kind="harmless")  # type: ignore[call-overload]


def test_a_failure_an_effect_reports_has_a_type_and_may_have_a_result() -> None:
    failed = EffectFailed("code 1", "tool_failure.exit", {"code": 1})
    assert (str(failed), failed.type, failed.result) == ("code 1", "tool_failure.exit", {"code": 1})


def test_equal_declarations_are_written_alike_wherever_their_words_came_from() -> None:
    read = msgspec.json.decode(b'{"kind": "irreversible", "scope": "run"}', type=Declared)
    made = Declared("".join(["irrever", "sible"]), scope="".join(["r", "un"]))  # type: ignore[arg-type]
    assert msgspec.json.encode(read) == msgspec.json.encode(made) == b'{"scope":"run"}'
