"""A call that left and never answered is a question, not a failure, and its key stays taken."""

import asyncio
from pathlib import Path

from detent.agents.assistant.view import consequence, consequence_lines
from detent.core import Contract, Outcome, Status, effect
from tests.agents.assistant.stage import INVITE, SCHEMA, stage


async def test_a_timeout_after_dispatch_waits_and_keeps_its_key(tmp_path: Path) -> None:
    sent: list[str] = []

    @effect("email.send", schema=SCHEMA, timeout_s=0.1, settle_s=0.0)
    async def send(contract: Contract) -> Outcome:
        """Send an e-mail."""
        sent.append(contract.input["to"])
        await asyncio.Event().wait()  # the answer never comes
        return Outcome()

    async with stage(tmp_path, send) as scene:
        run = await scene.answer(await scene.say(INVITE), approved=True)
        (contract,) = run.waiting
        assert contract.question is not None
        assert (contract.question.reason, contract.effect_state) == ("outcome_unknown", "possible")
        tool, confirmation = scene.ledger(run).executions.values()
        assert (tool.status, confirmation.status) == (Status.WAITING, Status.COMPLETED)
        assert consequence(tool, scene.ledger(run))["consequence_label"] == "WAITING"
        other = await scene.say(INVITE, session="other")
        assert other.status is Status.COMPLETED
        assert f"open in {contract.id} of run {run.id}" in other.output["response"]
        assert sent == ["bob@example.com"]
        run = await scene.answer(run, outcome="happened", result="seen in the mailbox")
        ledger = scene.ledger(run)
        assert consequence_lines(ledger)[0] == (
            "[SUCCESS IRREVERSIBLE (outcome unknown)] email.send: seen in the mailbox"
        )
        (told,) = run.output["executions"]
        assert told["line"] == consequence_lines(ledger)[0], "what the model was told in this turn"
        third = await scene.say(INVITE, session="third")
        assert "already done" in third.output["response"]
        assert sent == ["bob@example.com"]


async def test_somebody_who_gives_up_leaves_the_key_taken(tmp_path: Path) -> None:
    @effect("email.send", schema=SCHEMA, timeout_s=0.1, settle_s=0.0)
    async def send(contract: Contract) -> Outcome:
        """Send an e-mail."""
        raise TimeoutError

    async with stage(tmp_path, send) as scene:
        run = await scene.answer(await scene.say(INVITE), approved=True)
        run = await scene.answer(run, outcome="give_up")
        tool = next(iter(scene.ledger(run).executions.values()))
        assert tool.status is Status.CANCELLED
        assert "[CANCELLED] email.send" in run.output["executions"][0]["line"]
        again = await scene.say(INVITE, session="other")
        assert "in doubt" in again.output["response"]
