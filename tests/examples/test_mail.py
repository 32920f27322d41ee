"""The e-mail story with a real mail server on loopback: sent once, failed, tried again, and not known."""

from pathlib import Path

import pytest

from detent.core import Status
from detent.core.effect_type import Effect
from detent.define import find_effects
from examples.mail.sink import Sink
from tests.agents.assistant.stage import INVITE, stage

FILE = Path(__file__).parents[2] / "examples/mail/mail.py"


def mail(monkeypatch: pytest.MonkeyPatch, port: int) -> Effect:
    monkeypatch.setenv("SMTP_PORT", str(port))
    return find_effects(str(FILE))["email.send"]


async def test_a_mail_is_sent_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = Sink(tmp_path / "mails")
    tool = mail(monkeypatch, await sink.open())
    async with stage(tmp_path / "home", tool) as scene:
        run = await scene.answer(await scene.say(INVITE), approved=True)
        assert run.output["executions"][0]["line"].endswith("email.send: 邮件已发送")
        kept = (tmp_path / "mails/0001.eml").read_text()
        assert "To: bob@example.com" in kept
        assert " email.send:" in kept, "the key goes with the mail"
        run = await scene.say(INVITE)
        assert "already done" in run.output["response"]
        assert sink.count == 1
    sink.close()


async def test_no_server_then_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = Sink(tmp_path / "mails")
    port = await sink.open()
    sink.close()
    tool = mail(monkeypatch, port)
    async with stage(tmp_path / "home", tool) as scene:
        run = await scene.answer(await scene.say(INVITE), approved=True)
        assert "SMTP connection refused" in run.output["response"]
        await sink.open(port)
        run = await scene.answer(await scene.say("重试"), approved=True)
        assert run.status is Status.COMPLETED
        assert sink.count == 1
    sink.close()


async def test_a_line_that_goes_dead_after_the_mail_is_a_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = Sink(tmp_path / "mails", is_silent=True)
    tool = mail(monkeypatch, await sink.open())
    async with stage(tmp_path / "home", tool) as scene:
        run = await scene.answer(await scene.say(INVITE), approved=True)
        (contract,) = run.waiting
        assert contract.question is not None
        assert contract.question.reason == "outcome_unknown"
        again = await scene.say(INVITE, session="other")
        assert f"{contract.id} of run {run.id}" in again.output["response"]
        run = await scene.answer(run, outcome="happened", result="邮件已发送")
        assert run.status is Status.COMPLETED
        assert sink.count == 1
        tool_call = next(iter(scene.ledger(run).executions.values()))
        assert [move.actor for move in tool_call.moves][-2:] == ["human", "tool_node"]
    sink.close()
