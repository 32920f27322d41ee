"""Webhooks: addresses that are told when a run waits for a person or has ended.

Each delivery is a run of a small machine of its own, so it is journalled, tried again for days and survives a restart;
its id is made of the event, so one event is delivered as one run, however often the journal is read. The receiver gets
a message at least once and can tell a repetition by its id.
"""

import hashlib
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from detent.core.contract import Contract
from detent.core.effect_type import Effect, EffectFailed, Outcome, PartialFailure, effect
from detent.core.identity import Identity
from detent.core.machine import Action, Machine, Retry, table
from detent.core.status import TERMINAL, Status
from detent.host.reading import Step, Summary
from detent.host.system_run import WEBHOOK_NAME
from detent.surfaces.server.bookmark import read_on
from detent.surfaces.server.setting import ServerSettings, Webhook, secret
from detent.surfaces.server.signature import HEADER, sign

if TYPE_CHECKING:
    from detent.surfaces.server.server_context import HttpServer

EFFECT = "detent.webhook"
TIMEOUT_S = 20.0
MACHINE = Machine(
    name=WEBHOOK_NAME,
    initial="sending",
    transitions=table("""
        sending - sent
        sending !* lost
    """),
    work={
        "sending": (
            Action(
                "send",
                EFFECT,
                {"webhook": "{{ context.webhook }}", "id": "{{ context.id }}", "message": "{{ context.message }}"},
                # 15 tries in about two days
                retry=Retry(limit=15, delay_s=2.0, factor=3.0, delay_s_max=6 * 3600.0),
            ),
        )
    },
    ends={"sent": Status.COMPLETED, "lost": Status.FAILED},
)


def sender(settings: ServerSettings) -> Effect:
    """The effect that delivers; addresses and secrets come from the settings, never from the journal."""

    @effect(EFFECT, kind="idempotent", timeout_s=TIMEOUT_S)
    async def send(contract: Contract) -> Outcome:
        """Send one message and take any 2xx for a receipt."""
        given: Mapping[str, Any] = contract.input
        webhook = settings.webhooks.get(str(given["webhook"]))
        if webhook is None:
            raise EffectFailed(f"there is no webhook `{given['webhook']}` any more", "validation_error")
        return await _post(webhook, str(given["id"]), given["message"])

    return send


async def _post(webhook: Webhook, id: str, told: Any) -> Outcome:
    import httpx2

    body = msgspec.json.encode(told)
    headers = {
        "Content-Type": "application/json",
        "Detent-Id": id,
        HEADER: sign(secret(webhook.secret_env), body, time.time()),
    }
    try:
        async with httpx2.AsyncClient(timeout=TIMEOUT_S / 2, follow_redirects=False) as client:
            answer = await client.post(webhook.url, content=body, headers=headers)
    except httpx2.ConnectError as error:
        raise EffectFailed(f"not delivered: {type(error).__name__}") from None
    except httpx2.HTTPError as error:
        raise PartialFailure(f"no receipt: {type(error).__name__}") from None
    if not answer.is_success:
        raise PartialFailure(f"no receipt: the receiver answered {answer.status_code}")
    return Outcome({"status": answer.status_code})


class Courier:
    """Reads the journal on and begins a delivery for every event that somebody wants to hear of."""

    def __init__(self, room: "HttpServer") -> None:
        self._room = room
        self._settings = room.settings

    async def run(self) -> None:
        """Go on until cancelled; nothing at all when nobody wants to hear anything."""
        if self._settings.webhooks:
            await read_on(self._room, "webhooks", self._look)

    async def _look(self, steps: Sequence[Step]) -> None:
        moved = dict.fromkeys(step.run_id for step in steps if step.name != MACHINE.name)
        for summary in await self._room.ask(self._room.reader.summaries, moved):
            await self._tell(summary)

    async def _tell(self, summary: Summary) -> None:
        for kind, mark, told in _news(summary):
            for name, webhook in self._settings.webhooks.items():
                if kind not in webhook.on or (webhook.machines and summary.name not in webhook.machines):
                    continue
                id = hashlib.sha256(f"{name} {summary.run_id} {mark}".encode()).hexdigest()[:24]
                given = {"webhook": name, "id": id, "message": {"id": id, "type": kind, **told}}
                await self._room.host.start(
                    MACHINE, given, run_id=f"webhook-{id}", by=Identity("detent", "hook"), session="webhooks"
                )


def _news(summary: Summary) -> list[tuple[str, str, dict[str, Any]]]:
    """What a run's row says that people want to hear of: (kind, what makes it unique, the message)."""
    run = {
        "run_id": summary.run_id,
        "machine": summary.name,
        "state": summary.state,
        "status": summary.status.value,
        "at": summary.updated_at,
    }
    if summary.status in TERMINAL:
        return [("ended", "ended", {"run": run})]
    return [
        ("waiting", f"{question.contract_id} {question.since}", {"run": run, "question": msgspec.to_builtins(question)})
        for question in summary.waiting
    ]
