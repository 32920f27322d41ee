"""Notices: people are told over Slack or by mail that a run waits for them, or has ended.

Each notice is a run of a small machine of its own. It looks whether there is still something to tell, waits for its
time (a delay, the end of quiet hours, the end of a digest's time), looks again, and sends. What it sends is journalled
first and carries an id made of what it is about, so after a crash the same message is sent again, and nobody is asked
whether it was sent. Addresses and secrets come from the settings, never from the journal.
"""

import asyncio
import hashlib
import os
import smtplib
import ssl
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from detent.core.contract import Contract
from detent.core.effect_type import Effect, EffectFailed, Outcome, PartialFailure, effect
from detent.core.identity import Identity
from detent.core.machine import Action, Machine, Retry, Wait, table
from detent.core.status import TERMINAL, Status
from detent.host.reading import Step, Summary
from detent.host.system_run import HOUSEKEEPING, NOTICE_NAME
from detent.surfaces.server.bookmark import read_on
from detent.surfaces.server.notice_message import (
    LINES_MAX,
    Notice,
    NoticeLine,
    clean,
    path_of_question,
    path_of_run,
    say_in,
    write_mail,
    write_slack,
)
from detent.surfaces.server.notice_setting import Mail, NoticeChannel, Slack, end_quiet, find_digest, find_due
from detent.surfaces.server.question_index import DeskFilter, DeskLine
from detent.surfaces.server.setting import ServerSettings

if TYPE_CHECKING:
    from detent.surfaces.server.server_context import HttpServer

LOOK, SEND = "detent.notice.look", "detent.notice.send"
TIMEOUT_S = 60.0
CONNECT_S = 15.0
HOUR_S = 3600.0
SCAN_MAX = 20_000  # open questions that one digest looks at
MACHINE = Machine(
    name=NOTICE_NAME,
    initial="looking",
    transitions=table("""
        looking - waiting if result.look.do == 'wait'
        looking - sending if result.look.do == 'send'
        looking - dropped
        looking !* lost
        waiting - looking
        sending - sent
        sending !* lost
    """),
    work={
        "looking": (Action("look", LOOK, {"about": "{{ context.about }}"}, retry=Retry(limit=5, delay_s=2.0)),),
        "waiting": (Action("pause", "wait", wait=Wait(duration_s="{{ context.wait_s }}")),),
        "sending": (
            Action(
                "send",
                SEND,
                {"channel": "{{ context.about.channel }}", "notice": "{{ context.notice }}"},
                # 15 tries in about two days
                retry=Retry(limit=15, delay_s=2.0, factor=3.0, delay_s_max=6 * HOUR_S),
            ),
        ),
    },
    ends={"sent": Status.COMPLETED, "dropped": Status.COMPLETED, "lost": Status.FAILED},
)


class About(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a notice is about: a question, a run that has ended, or the questions of a time."""

    id: str
    channel: str
    kind: str  # question, ended, digest
    due: float
    run_id: str = ""
    contract_id: str = ""
    since: float = 0.0


class Notifier:
    """Begins a notice for every event that somebody wants to hear of, and has the effects that carry it out."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings, self._channels = settings, settings.notify
        self.room: HttpServer | None = None  # where it works, once there is one
        self._begun: dict[tuple[str, int], set[str]] = {}  # by channel and hour: the notices

    def effects(self) -> list[Effect]:
        """What the machine of a notice does."""

        @effect(LOOK, kind="pure", timeout_s=TIMEOUT_S)
        async def look(contract: Contract) -> Outcome:
            """Find out whether there is something to tell, and when."""
            about = msgspec.convert(contract.input["about"], About)
            channel = self._channels.get(about.channel)
            if channel is None:
                return Outcome({"do": "drop", "why": "there is no such channel any more"})
            now = time.time()
            due = max(about.due, end_quiet(channel.quiet, now))
            if due > now:
                return Outcome({"do": "wait"}, patch={"wait_s": max(0.001, due - now)})
            notice = await self._here.ask(self._write, about, channel, now)
            if notice is None:
                return Outcome({"do": "drop", "why": "nothing is open any more"})
            return Outcome({"do": "send"}, patch={"notice": msgspec.to_builtins(notice)})

        @effect(SEND, kind="idempotent", timeout_s=TIMEOUT_S)
        async def send(contract: Contract) -> Outcome:
            """Send one notice; whoever takes it says so."""
            channel = self._channels.get(str(contract.input["channel"]))
            if channel is None:
                raise EffectFailed(f"there is no channel `{contract.input['channel']}` any more", "validation_error")
            notice = msgspec.convert(contract.input["notice"], Notice)
            address = self._settings.address.rstrip("/")
            if channel.mail is not None:
                return await asyncio.to_thread(send_mail, channel, channel.mail, notice, address)
            return await send_slack(channel, channel.slack or Slack(), notice, address)

        return [look, send]

    @property
    def _here(self) -> "HttpServer":
        if self.room is None:
            raise EffectFailed("the server is not there yet")
        return self.room

    async def run(self) -> None:
        """Go on until cancelled; nothing at all when nobody wants to hear anything."""
        if self._channels:
            await read_on(self._here, "notices", self._look)

    async def _look(self, steps: Sequence[Step]) -> None:
        moved = dict.fromkeys(step.run_id for step in steps if step.name not in HOUSEKEEPING)
        for summary in await self._here.ask(self._here.reader.summaries, moved):
            for name, channel in self._channels.items():
                for about in self._list_notices(name, channel, summary):
                    await self._here.host.start(
                        MACHINE,
                        {"about": msgspec.to_builtins(about)},
                        run_id=f"notice-{about.id}",
                        by=Identity("detent", "hook"),
                        session="notices",
                    )

    def _list_notices(self, name: str, channel: NoticeChannel, summary: Summary) -> list[About]:
        """What a channel is to be told of a run as it is now."""
        if channel.machines and summary.name not in channel.machines:
            return []
        if summary.status in TERMINAL:
            is_wanted = "ended" in channel.on or ("failed" in channel.on and summary.status is Status.FAILED)
            due = end_quiet(channel.quiet, summary.updated_at)
            id = _name(name, summary.run_id, "ended", str(summary.seq))
            return [About(id, name, "ended", due, summary.run_id)] if is_wanted else []
        if "waiting" not in channel.on:
            return []
        found = [one for one in summary.waiting if not channel.effects or one.call.effect in channel.effects]
        return [self._about(name, channel, summary.run_id, one.contract_id, one.since) for one in found]

    def _about(self, name: str, channel: NoticeChannel, run_id: str, contract_id: str, since: float) -> About:
        """One question: a notice of its own, or a part of its time's digest."""
        if not channel.digest:
            id, hour = _name(name, run_id, contract_id, str(since)), int(since // HOUR_S)
            begun = self._begun.setdefault((name, hour), set())  # a run that moves on asks no new question by that
            if id in begun or len(begun) < channel.most_per_hour:
                begun.add(id)
                self._begun = {key: one for key, one in self._begun.items() if key[1] >= hour - 24}
                return About(id, name, "question", find_due(channel, since), run_id, contract_id, since)
        due = find_digest(channel, since)
        return About(_name(name, "digest", str(due)), name, "digest", due)

    def _write(self, about: About, channel: NoticeChannel, now: float) -> Notice | None:
        """What is to be said now; None where there is nothing any more."""
        if about.kind == "ended":
            return self._write_end(about, channel, now)
        page = self._here.desk.read(DeskFilter(), limit=SCAN_MAX)
        found = [line for line in page.lines if _is_meant(line, about, channel)]
        if not found:
            return None
        shown = [_line(line, channel) for line in found[: LINES_MAX if about.kind == "digest" else 1]]
        if about.kind == "question":
            subject = say_in(channel, "{title} asks", title=clean(found[0].title or found[0].machine, 80))
        else:
            subject = say_in(channel, "{count} questions wait for an answer", count=len(found))
        return Notice(about.id, subject, shown, now, len(found) - len(shown))

    def _write_end(self, about: About, channel: NoticeChannel, now: float) -> Notice | None:
        summary = self._here.reader.summary(about.run_id)
        if summary is None or summary.status not in TERMINAL:
            return None
        title = clean(self._here.desk.title(summary.machine) or summary.name, 80)
        if summary.status == Status.COMPLETED:
            subject = say_in(channel, "{title} has ended", title=title)
        elif summary.status == Status.FAILED:
            subject = say_in(channel, "{title} has failed", title=title)
        else:
            subject = say_in(channel, "{title} was stopped", title=title)
        why = summary.error["message"] if channel.question and summary.error is not None else ""
        return Notice(about.id, subject, [NoticeLine(title, path_of_run(summary.run_id), why)], now)


def _is_meant(line: DeskLine, about: About, channel: NoticeChannel) -> bool:
    if about.kind == "question":
        return (line.run_id, line.contract_id, line.since) == (about.run_id, about.contract_id, about.since)
    if channel.machines and line.machine not in channel.machines:
        return False
    return find_digest(channel, line.since) == about.due and (not channel.effects or line.effect in channel.effects)


def _line(line: DeskLine, channel: NoticeChannel) -> NoticeLine:
    text = line.question if channel.question else ""
    return NoticeLine(line.title or line.machine, path_of_question(line.run_id, line.contract_id), text)


def _name(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]


def send_mail(channel: NoticeChannel, settings: Mail, notice: Notice, address: str) -> Outcome:
    """Hand a mail over to its server."""
    mail = write_mail(channel, settings, notice, address)
    try:
        server = _open_mail(settings)
    except (OSError, smtplib.SMTPException) as error:
        raise EffectFailed(f"not delivered: {settings.server} {_say_problem(error)}") from None
    try:
        with server:
            refused = server.send_message(mail)
    except (OSError, smtplib.SMTPException) as error:
        raise PartialFailure(f"no receipt: {settings.server} {_say_problem(error)}") from None
    return Outcome({"message_id": mail["Message-ID"], "refused": sorted(refused)})


def _open_mail(settings: Mail) -> smtplib.SMTP:
    """A connection on which somebody is logged in, where that is wanted; never a password over an open line."""
    secure = ssl.create_default_context()
    if settings.tls == "tls":
        server: smtplib.SMTP = smtplib.SMTP_SSL(settings.server, settings.port, timeout=CONNECT_S, context=secure)
    else:
        server = smtplib.SMTP(settings.server, settings.port, timeout=CONNECT_S)
    try:
        if settings.tls == "starttls":
            server.starttls(context=secure)
        if settings.user_env:
            server.login(os.environ.get(settings.user_env, ""), os.environ.get(settings.password_env, ""))
    except BaseException:
        server.close()
        raise
    return server


def _say_problem(error: Exception) -> str:
    """What went wrong, without what a server says about passwords and names."""
    code = getattr(error, "smtp_code", None)
    return f"answered {code}" if code else f"does not answer ({type(error).__name__})"


async def send_slack(channel: NoticeChannel, slack: Slack, notice: Notice, address: str) -> Outcome:
    """Hand a message over to Slack."""
    import httpx2

    url = os.environ.get(slack.webhook_env, "") if slack.webhook_env else slack.url
    headers = {"Idempotency-Key": notice.id}  # the same however often it is sent
    if slack.token_env:
        headers["Authorization"] = f"Bearer {os.environ.get(slack.token_env, '')}"
    try:
        async with httpx2.AsyncClient(timeout=CONNECT_S, follow_redirects=False) as client:
            answer = await client.post(url, json=write_slack(channel, slack, notice, address), headers=headers)
    except httpx2.ConnectError as error:
        raise EffectFailed(f"not delivered: {type(error).__name__}") from None
    except httpx2.HTTPError as error:
        raise PartialFailure(f"no receipt: {type(error).__name__}") from None
    if not answer.is_success:
        raise PartialFailure(f"no receipt: Slack answered {answer.status_code}")
    told: Any = {"ok": True} if slack.webhook_env else _read_json(answer.content)
    if not isinstance(told, dict) or told.get("ok") is not True:
        why = str(told.get("error", "")) if isinstance(told, dict) else ""
        raise PartialFailure(f"no receipt: Slack says {clean(why, 100) or 'nothing'}")
    return Outcome({"ts": str(told.get("ts", ""))[:50]})


def _read_json(content: bytes) -> Any:
    try:
        return msgspec.json.decode(content)
    except msgspec.DecodeError:
        return None
