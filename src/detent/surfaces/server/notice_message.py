"""A notice as people read it: a few words and the link to the exact question, for Slack or for a mail program.

The link holds no credential and shows nothing before one: the page asks who looks first. What comes from a run is
hostile text: it becomes plain text here, with no names that would call people and no second line in a header.
"""

import email.utils
import re
import uuid
from email.message import EmailMessage
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec

from detent.kit.language import chinese
from detent.redaction import ambient_redactor
from detent.surfaces.server.notice_setting import Mail, NoticeChannel, Slack

TEXT_MAX = 600
TITLE_MAX = 120
LINES_MAX = 20
NAMESPACE = uuid.UUID("5f0c3c0e-8a6e-5d0e-9d1b-0d6f3b1c6a19")


class NoticeLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One question, or one run that has ended."""

    title: str
    path: str  # behind the address of the page
    text: str = ""


class Notice(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is sent: it is in the journal before it leaves, so it is the same however often it is sent."""

    id: str
    subject: str
    lines: list[NoticeLine]
    at: float
    more: int = 0  # further questions that are not listed


def say_in(channel: NoticeChannel, english: str, **values: object) -> str:
    """A sentence in the language of a channel."""
    text = chinese().get(english, english) if channel.language == "zh" else english
    return text.format(**values)


def clean(text: str, most: int) -> str:
    """One line of plain text without secrets."""
    shown = ambient_redactor().hide_free(
        re.sub(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+", " ", text)
    )
    return shown.strip()[: most - 1] + "…" if len(shown.strip()) > most else shown.strip()


def path_of_question(run_id: str, contract_id: str) -> str:
    """Where a question is on the page."""
    return f"#/inbox/{quote(run_id, safe='')}/{quote(contract_id, safe='')}"


def path_of_run(run_id: str) -> str:
    """Where a run is on the page."""
    return f"#/runs/{quote(run_id, safe='')}"


def write_mail(channel: NoticeChannel, to: Mail, notice: Notice, address: str) -> EmailMessage:
    """A mail; its Message-ID is made of what it is about, so a repeated one is recognised."""
    mail = EmailMessage()
    mail["From"], mail["To"] = to.sender, ", ".join(to.to)
    mail["Subject"] = clean(notice.subject, TITLE_MAX)
    mail["Date"] = email.utils.formatdate(notice.at)
    mail["Message-ID"] = f"<{notice.id}@{urlsplit(address).hostname or 'detent'}>"
    mail["Auto-Submitted"] = "auto-generated"
    parts = []
    for line in notice.lines:
        said = [clean(line.title, TITLE_MAX), *([clean(line.text, TEXT_MAX)] if line.text else [])]
        parts.append("\n".join([*said, f"{address}/{line.path}"]))
    if notice.more:
        parts.append(say_in(channel, "and {count} more: {link}", count=notice.more, link=f"{address}/#/inbox"))
    mail.set_content("\n\n".join(parts) + "\n")
    return mail


def write_slack(channel: NoticeChannel, to: Slack, notice: Notice, address: str) -> dict[str, Any]:
    """A message for Slack: blocks of plain text with links that nobody unfolds, and an id that makes it count once."""
    lines = [f"*{_escape(clean(notice.subject, TITLE_MAX))}*"]
    for line in notice.lines:
        said = f": {_escape(clean(line.text, TEXT_MAX))}" if line.text else ""
        lines.append(f"<{address}/{line.path}|{_escape(clean(line.title, TITLE_MAX))}>{said}")
    if notice.more:
        lines.append(_escape(say_in(channel, "and {count} more: {link}", count=notice.more, link=f"{address}/#/inbox")))
    told: dict[str, Any] = {"text": "\n".join(lines), "unfurl_links": False, "unfurl_media": False}
    if to.token_env:
        told |= {"channel": to.channel, "client_msg_id": str(uuid.uuid5(NAMESPACE, notice.id))}
        told["metadata"] = {"event_type": "detent_notice", "event_payload": {"id": notice.id}}
    return told


def _escape(text: str) -> str:
    """Without what Slack takes for a mention, a link or a mark."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([*_~`|])", "\u200b\\1", text)
