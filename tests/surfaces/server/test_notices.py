"""Reaching people: mail and Slack with a link to the exact question, quiet hours, delays, digests, and crashes."""

import asyncio
import datetime
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from email import message_from_bytes
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword
from hypothesis import given, settings
from hypothesis import strategies as st

from detent.define.problem import BrokenDefinition
from detent.surfaces.server.notice_message import Notice, NoticeLine, write_mail, write_slack
from detent.surfaces.server.notice_setting import Mail, NoticeChannel, Quiet, Slack, end_quiet, find_digest, is_quiet
from detent.surfaces.server.setting import ServerSettings, read_settings
from tests.effort import PATIENCE_S, examples
from tests.surfaces.server.stage import stage
from tests.surfaces.server.test_service import process

ADDRESS = "https://control.example"
HOUR_S = 3600.0


class Postbox:
    """What came to a server, mail or Slack; whoever waits is woken."""

    def __init__(self) -> None:
        self.taken: list[Any] = []
        self.news = threading.Condition()
        self.on_take: Callable[[], None] = lambda: None
        self.refusals = 0

    def take(self, what: Any) -> bool:
        """Keep what came, unless it is refused."""
        with self.news:
            self.refusals -= 1
            is_taken = self.refusals < 0
            if is_taken:
                self.taken.append(what)
            self.news.notify_all()
        self.on_take()
        return is_taken

    def wait(self, count: int) -> None:
        """Return when so many have come."""
        with self.news:
            assert self.news.wait_for(lambda: len(self.taken) >= count, PATIENCE_S), self.taken

    async def until(self, count: int) -> None:
        """The same, for coroutines."""
        await asyncio.to_thread(self.wait, count)

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802  # aiosmtpd's name
        """A mail."""
        is_taken = await asyncio.to_thread(self.take, message_from_bytes(envelope.content))
        return "250 kept" if is_taken else "451 not now"


@contextmanager
def mail_server(**given: Any) -> Iterator[tuple[Postbox, Mail]]:
    """A real SMTP server on loopback."""
    box, loop, ready = Postbox(), asyncio.new_event_loop(), threading.Event()
    server: Any = None

    def serve() -> None:
        nonlocal server
        making = loop.create_server(lambda: SMTP(box, loop=loop, **given), "127.0.0.1", 0)
        server = loop.run_until_complete(making)
        loop.call_soon(ready.set)
        loop.run_forever()
        server.close()
        loop.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    assert ready.wait(PATIENCE_S)
    try:
        port = server.sockets[0].getsockname()[1]
        yield box, Mail("127.0.0.1", "detent@control.example", ["ann@control.example"], port, tls="none")
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_S)


@contextmanager
def slack_server() -> Iterator[tuple[Postbox, Slack]]:
    """A scripted Slack."""
    box = Postbox()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            is_taken = box.take(
                {**body, "authorization": self.headers.get("authorization", ""), "key": self.headers["idempotency-key"]}
            )
            told = json.dumps({"ok": is_taken, "ts": "1.5", "error": "" if is_taken else "ratelimited"}).encode()
            with suppress(OSError):  # whoever asked may be dead
                self.send_response(200)
                self.send_header("content-length", str(len(told)))
                self.end_headers()
                self.wfile.write(told)

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield box, Slack("C1", "SLACK_TOKEN", url=f"http://127.0.0.1:{server.server_address[1]}/api")
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(autouse=True)
def _secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLACK_TOKEN", "xoxb-a-long-secret-token")
    monkeypatch.setenv("MAIL_USER", "detent")
    monkeypatch.setenv("MAIL_PASSWORD", "a-long-password-of-mail")


def wanted(**channels: NoticeChannel) -> ServerSettings:
    return ServerSettings(address=ADDRESS, notify=channels)


async def test_a_question_is_told_with_its_link_and_without_its_words(tmp_path: Path) -> None:
    with mail_server() as (mails, mail), slack_server() as (slacks, slack):
        channels = wanted(post=NoticeChannel(mail=mail), team=NoticeChannel(slack=slack, question=True))
        slacks.refusals = 1  # it says that it has had too much; the same comes again
        async with stage(tmp_path, channels) as at:
            run_id = await at.start("plea", to="<!channel> @here &amp")
            await asyncio.gather(mails.until(1), slacks.until(1))
            await at.post(f"/api/runs/{run_id}/contracts/working/send/1/answer", {"approved": True})
            assert [line["machine"] for line in (await at.get("/api/runs"))["runs"]] == ["plea"], "lists leave them out"
        link = f"{ADDRESS}/#/inbox/{run_id}/working%2Fsend%2F1"
        (told,) = mails.taken
        assert told["Subject"] == "plea asks"
        assert link in told.get_payload()
        assert "Please?" not in told.get_payload()
        (said,) = slacks.taken
        assert link in said["text"]
        assert "Please?" in said["text"]
        assert said["authorization"] == "Bearer xoxb-a-long-secret-token"
        assert said["unfurl_links"] is False
    kept = (tmp_path / ".detent" / "journal.db").read_bytes()
    assert b"xoxb-a-long" not in kept


async def test_who_comes_later_is_told_only_of_what_is_still_open(tmp_path: Path) -> None:
    with mail_server() as (mails, mail):
        channels = wanted(
            first=NoticeChannel(mail=mail), boss=NoticeChannel(mail=mail, after="8s", on=("waiting", "failed"))
        )
        async with stage(tmp_path, channels) as at:
            soon, late = await at.start("plea", to="ann"), await at.start("plea", to="bob")
            await mails.until(2)
            await at.post(f"/api/runs/{soon}/contracts/working/send/1/answer", {"approved": True})
            await mails.until(3)
            notices = (await at.get("/api/runs?machine=detent_notice"))["runs"]
            states = [(await at.until(one["run_id"], "completed"))["state"] for one in notices]
            assert sorted(states) == ["dropped", "sent", "sent", "sent"]
        assert len(mails.taken) == 3
        assert late in mails.taken[2].get_payload()


async def test_a_digest_is_one_message_for_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("notice", "notice_setting"):
        monkeypatch.setattr(f"detent.surfaces.server.{module}.HOUR_S", 2.0)
    with mail_server() as (mails, mail):
        async with stage(tmp_path, wanted(post=NoticeChannel(mail=mail, most_per_hour=1, question=True))) as at:
            runs = [await at.start("plea", to=name) for name in ("ann", "bob", "kim", "lee")]
            await mails.until(2)
            while not all(any(run_id in text.get_payload() for text in mails.taken) for run_id in runs):
                await mails.until(len(mails.taken) + 1)
        digests = [text for text in mails.taken if "questions wait" in text["Subject"]]
        assert digests
        assert len(mails.taken) <= len(runs)


SERVE = """
address: https://control.example
notify:
  post:
    mail: {{server: 127.0.0.1, port: {port}, sender: detent@control.example, to: [ann@control.example], tls: none}}
  team:
    slack: {{channel: C1, token_env: SLACK_TOKEN, url: "{url}"}}
"""
ASK = """\
name: ask
states:
  ask:
    type: initial
    actions: [{id: sign, tool: ask, approval: {question: "Go on?"}}]
  done: {type: final}
transitions: [{from: ask, to: done}]
"""


def test_after_a_crash_the_same_message_comes_again(tmp_path: Path) -> None:
    with mail_server() as (mails, mail), slack_server() as (slacks, slack):
        (tmp_path / "detent.serve.yaml").write_text(SERVE.format(port=mail.port, url=slack.url))
        (tmp_path / "ask.yaml").write_text(ASK)
        both = threading.Barrier(3)

        def stop_here() -> None:  # it has the message; whoever sent it never hears of that
            both.wait(PATIENCE_S)
            gone.wait(PATIENCE_S)

        gone = threading.Event()
        mails.on_take = slacks.on_take = stop_here
        env = dict(os.environ) | {"SLACK_TOKEN": "xoxb-a-long-secret-token"}
        with process(tmp_path, env=env) as first:
            first.post("/api/runs", {"definition": "ask.yaml"})
            both.wait(PATIENCE_S)
            first.stop(signal.SIGKILL)
        mails.on_take = slacks.on_take = lambda: None
        gone.set()
        with process(tmp_path, env=env):
            mails.wait(2)
            slacks.wait(2)
        one, other = mails.taken
        assert one["Message-ID"] == other["Message-ID"]
        assert (one["Date"], one.get_payload()) == (other["Date"], other.get_payload())
        one, other = slacks.taken
        assert one == other
        assert one["client_msg_id"]
        assert one["key"]


QUIET = st.builds(
    Quiet,
    st.sampled_from(["22:00", "00:00", "12:30", "23:59"]),
    st.sampled_from(["07:00", "00:00", "12:30", "06:15"]),
    st.sampled_from(["UTC", "Europe/Berlin", "Asia/Shanghai", "America/New_York"]),
    st.booleans(),
)


@settings(max_examples=examples(60), deadline=None)
@given(QUIET, st.floats(1.6e9, 1.9e9))
def test_nobody_is_told_anything_in_quiet_hours(quiet: Quiet, at: float) -> None:
    due = end_quiet(quiet, at)
    assert due >= at
    assert due <= at + 4 * 24 * HOUR_S
    assert not is_quiet(quiet, due)
    if due > at:
        assert is_quiet(quiet, due - 1), "and not a minute later than that"


def test_the_questions_of_a_night_come_as_one_digest() -> None:
    channel = NoticeChannel(digest="1h", quiet=Quiet("22:00", "07:00"))
    midnight = datetime.datetime(2026, 11, 18, tzinfo=datetime.UTC).timestamp()
    asked = [midnight + hours * HOUR_S + 600 for hours in range(-24, 48)]
    dues = [find_digest(channel, at) for at in asked]
    assert all(due > at for at, due in zip(asked, dues, strict=True))
    by_day = {due for due in dues if midnight <= due < midnight + 24 * HOUR_S}
    assert len(by_day) == 15  # 7:00, with all of the night before it, to 21:00
    assert sum(due == midnight + 7 * HOUR_S for due in dues) == 10  # of the hours from 21:00 to 7:00


def test_quiet_hours_follow_the_clock_of_their_zone() -> None:
    berlin = Quiet("22:00", "07:00", "Europe/Berlin", True)
    night = datetime.datetime(2026, 10, 24, 23, 30, tzinfo=ZoneInfo("Europe/Berlin")).timestamp()  # a Saturday
    morning = datetime.datetime.fromtimestamp(end_quiet(berlin, night), ZoneInfo("Europe/Berlin"))
    assert morning.isoformat() == "2026-10-26T07:00:00+01:00"  # the clock went back on Sunday


HOSTILE = st.text(max_size=200)


@settings(max_examples=examples(100))
@given(HOSTILE, HOSTILE)
def test_text_of_a_run_is_no_order_to_a_mail_program_or_to_slack(title: str, text: str) -> None:
    notice = Notice("abc", title, [NoticeLine(title, "#/inbox/r/c", text)], 1.8e9)
    mail = Mail("m", "detent@control.example", ["ann@control.example"])
    post = message_from_bytes(write_mail(NoticeChannel(mail=mail), mail, notice, ADDRESS).as_bytes())
    names = ["From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "Content-Type", "Content-Transfer-Encoding", "MIME-Version"]  # fmt: skip # noqa: E501
    assert sorted(post.keys()) == sorted(names)
    assert isinstance(post, Message)
    slack = Slack("C1", "T")
    told = write_slack(NoticeChannel(slack=slack), slack, notice, ADDRESS)["text"]
    assert told.count("<") == told.count(">") == 1, "the link is the only one"


@pytest.mark.filterwarnings("ignore:Requiring AUTH", "ignore:Session.login_data")  # on loopback there is no TLS
async def test_a_mail_server_gets_a_name_and_a_password(tmp_path: Path) -> None:
    seen: list[Any] = []

    def check(_server: Any, _session: Any, _envelope: Any, _mechanism: Any, login: Any) -> AuthResult:
        seen.append(login)
        return AuthResult(success=True)

    with mail_server(authenticator=check, auth_require_tls=False, auth_required=True) as (mails, mail):
        names = {"user_env": "MAIL_USER", "password_env": "MAIL_PASSWORD"}
        known = msgspec.structs.replace(mail, **names)
        async with stage(tmp_path, wanted(post=NoticeChannel(mail=known, on=("failed", "ended")))) as at:
            await at.start("approval", what="x", amount=1)
            await mails.until(1)
    assert seen == [LoginPassword(b"detent", b"a-long-password-of-mail")]
    assert mails.taken[0]["Subject"] == "approval has ended"


def test_a_channel_that_cannot_work_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "detent.serve.yaml"
    for text, said in (
        ("notify: {a: {}}", "either `slack` or `mail`"),
        ("address: x\nnotify: {a: {slack: {channel: C, token_env: SLACK_TOKEN}}}", "an address is"),
        ("address: https://x.example\nnotify: {a: {slack: {token_env: SLACK_TOKEN}}}", "`channel` says where"),
        ("address: https://x.example\nnotify: {a: {slack: {webhook_env: NOT_THERE}}}", "NOT_THERE is empty"),
        ("address: https://x.example\nnotify: {a: {slack: {webhook_env: SLACK_TOKEN}, after: soon}}", "not a time"),
        (
            "address: https://x.example\nnotify: {a: {slack: {webhook_env: SLACK_TOKEN}, quiet: {timezone: Moon}}}",
            "Moon",
        ),
        ("address: https://x.example\nnotify: {a: {mail: {server: m, sender: x, to: [a@b]}}}", "regex"),
    ):
        path.write_text(text)
        with pytest.raises(BrokenDefinition, match=said):
            read_settings(tmp_path)
