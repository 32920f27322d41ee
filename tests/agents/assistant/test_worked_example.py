"""The protocol's story of an e-mail, row by row: asked, approved, sent; failed after the approval; tried again."""

from pathlib import Path

from detent.agents.assistant import Ledger, trace
from detent.agents.assistant.view import consequence_lines, snapshot
from detent.core import Run, Status
from tests.agents.assistant.stage import INVITE, Post, refused, stage

SENT = [
    ("reasoning", "create_contract:exec-001"),
    ("reasoning", "create_contract:exec-002"),
    ("ecs_node", "transition:exec-002:pending→running"),
    ("ecs_node", "transition:exec-002:running→waiting"),
    ("graph_runner", "transition:exec-002:waiting→running"),
    ("graph_runner", "transition:exec-002:running→completed"),
    ("tool_node", "transition:exec-001:pending→running"),
    ("tool_node", "transition:exec-001:running→completed"),
]


def rows(ledger: Ledger, first: int = 1) -> list[tuple[str, str]]:
    """The trace with the protocol's names for executions."""
    names = {id: f"exec-{number:03d}" for number, id in enumerate(ledger.executions, first)}
    found = []
    for row in trace(ledger):
        action = row["action"]
        for id, name in names.items():
            action = action.replace(id, name)
        found.append((row["node_id"], action))
    return found


def statuses(ledger: Ledger) -> list[str]:
    return [execution.status.value for execution in ledger.executions.values()]


async def test_the_mail_is_asked_about_approved_and_sent(tmp_path: Path) -> None:
    post = Post()
    async with stage(tmp_path, post.effect) as scene:
        run = await scene.say(INVITE)
        assert run.status is Status.WAITING
        assert post.sent == []
        assert rows(scene.ledger(run)) == SENT[:4]
        assert statuses(scene.ledger(run)) == ["pending", "waiting"]
        run = await scene.answer(run, approved=True)
        assert run.status is Status.COMPLETED
        assert [mail["to"] for mail in post.sent] == ["bob@example.com"]
        ledger = scene.ledger(run)
        assert rows(ledger) == SENT
        first = next(iter(ledger.executions.values()))
        assert (first.result, first.irreversible) == ("邮件已发送", True)
        assert consequence_lines(ledger)[0] == "[SUCCESS IRREVERSIBLE (human-confirmed)] email.send: 邮件已发送"
        assert run.context["executions"][0]["line"] == consequence_lines(ledger)[0]
        assert "邮件已发送" in run.output["response"]


async def test_the_tool_fails_after_the_approval(tmp_path: Path) -> None:
    post = Post()
    async with stage(tmp_path, post.effect) as scene:
        run = await failed(scene, post)
        ledger = scene.ledger(run)
        assert rows(ledger) == [*SENT[:7], ("tool_node", "transition:exec-001:running→failed")]
        first = next(iter(ledger.executions.values()))
        assert first.error == "SMTP connection refused"
        assert "SMTP connection refused" in run.output["response"]
        assert consequence_lines(ledger) == ["[FAILED] email.send: SMTP connection refused"]


async def failed(scene: "object", post: Post) -> Run:
    post.broken.append(refused())
    run: Run = await scene.say(INVITE)  # type: ignore[attr-defined]
    run = await scene.answer(run, approved=True)  # type: ignore[attr-defined]
    assert run.status is Status.COMPLETED
    assert post.sent == []
    return run


async def test_a_second_try_has_the_same_key_and_is_allowed(tmp_path: Path) -> None:
    post = Post()
    async with stage(tmp_path, post.effect) as scene:
        before = scene.ledger(await failed(scene, post))
        run = await scene.say("重试")
        run = await scene.answer(run, approved=True)
        assert [mail["to"] for mail in post.sent] == ["bob@example.com"]
        after = scene.ledger(run)
        assert rows(after) == SENT
        keys = [snapshot(next(iter(one.executions.values())), 0.0)["idempotency_key"] for one in (before, after)]
        assert keys[0] == keys[1]
        assert keys[0].startswith("email.send:")


async def test_a_third_try_after_success_is_refused_with_the_result(tmp_path: Path) -> None:
    post = Post()
    async with stage(tmp_path, post.effect) as scene:
        await scene.answer(await scene.say(INVITE), approved=True)
        run = await scene.say(INVITE, session="another")
        assert run.status is Status.COMPLETED
        assert len(post.sent) == 1
        ledger = scene.ledger(run)
        assert statuses(ledger) == ["rejected", "rejected"]
        first = next(iter(ledger.executions.values()))
        assert "already done" in first.error
        assert first.result == "邮件已发送"
        assert "already done" in run.output["response"]
