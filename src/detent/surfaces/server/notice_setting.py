"""How people are reached: channels to Slack and mail, with quiet hours, a delay and digests; part of the settings."""

import datetime
import re
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta

from detent.core.duration import seconds_of

MINUTE_S = 60.0
HOUR_S = 3600.0
DIGEST_MIN_S = 60.0
DAYS_MAX = 9  # how far the end of quiet hours is looked for
Variable = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")]
OptionalVariable = Annotated[str, Meta(pattern=r"^([A-Za-z_][A-Za-z0-9_]{0,99})?$")]
Clock = Annotated[str, Meta(pattern=r"^([01][0-9]|2[0-3]):[0-5][0-9]$")]
MailAddress = Annotated[str, Meta(pattern=r"^[^\s@<>,;]{1,200}@[^\s@<>,;]{1,200}$")]


class Slack(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A channel of Slack: with a bot's token, or by the address of an incoming webhook, which is a secret itself."""

    channel: Annotated[str, Meta(max_length=200)] = ""
    token_env: OptionalVariable = ""
    webhook_env: OptionalVariable = ""
    url: str = "https://slack.com/api/chat.postMessage"


class Mail(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """People who get mail, and the server that takes it."""

    server: Annotated[str, Meta(min_length=1, max_length=300)]
    sender: MailAddress
    to: Annotated[list[MailAddress], Meta(min_length=1, max_length=50)]
    port: Annotated[int, Meta(ge=1, le=65535)] = 587
    tls: Literal["starttls", "tls", "none"] = "starttls"
    user_env: OptionalVariable = ""
    password_env: OptionalVariable = ""


class Quiet(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"begin": "from", "end": "to"}):
    """When nobody is told anything; what is due then waits for the end."""

    begin: Clock = "22:00"
    end: Clock = "07:00"
    timezone: str = "UTC"
    weekend: bool = False  # Saturday and Sunday too


class NoticeChannel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Somebody who is told of questions, or of runs that have ended."""

    slack: Slack | None = None
    mail: Mail | None = None
    on: tuple[Literal["waiting", "failed", "ended"], ...] = ("waiting",)
    machines: tuple[str, ...] = ()  # empty: all
    effects: tuple[str, ...] = ()  # of questions: only about these calls
    after: str = "0s"  # only of questions that are still open then: whoever comes later is the escalation
    digest: str = ""  # such as 1h: one message for everything of that time
    quiet: Quiet | None = None
    most_per_hour: Annotated[int, Meta(ge=1, le=1000)] = 20  # what is more comes as one digest at the hour's end
    question: bool = False  # whether the question itself is told, or only that there is one
    language: Literal["en", "zh"] = "en"


def list_channel_problems(channel: NoticeChannel) -> list[tuple[tuple[str, ...], str]]:
    """What a type alone does not say: the place in the channel, and what is wrong."""
    problems: list[tuple[tuple[str, ...], str]] = []
    if (channel.slack is None) == (channel.mail is None):
        problems.append(((), "a channel is either `slack` or `mail`"))
    if channel.slack is not None:
        slack = channel.slack
        if bool(slack.webhook_env) == bool(slack.token_env):
            problems.append((("slack",), "Slack needs either `token_env` with `channel`, or `webhook_env`"))
        elif slack.token_env and not slack.channel:
            problems.append((("slack", "channel"), "with a token, `channel` says where"))
        if not re.match(r"https?://[^\s/@]+(/|$)", slack.url):
            problems.append(
                (("slack", "url"), "an address is http:// or https:// and a host, without a user name in it")
            )
    if channel.mail is not None and bool(channel.mail.user_env) != bool(channel.mail.password_env):
        problems.append((("mail",), "to log in, mail needs both `user_env` and `password_env`"))
    if seconds_of(channel.after) is None:
        problems.append((("after",), f"`{channel.after}` is not a time; write 30m or 2h"))
    if channel.digest and (seconds_of(channel.digest) or 0.0) < DIGEST_MIN_S:
        problems.append((("digest",), f"`{channel.digest}` is not a time of at least a minute; write 15m or 1h"))
    if channel.quiet is not None:
        try:
            ZoneInfo(channel.quiet.timezone)
        except (ValueError, KeyError, OSError):
            problems.append((("quiet", "timezone"), f"there is no time zone `{channel.quiet.timezone}`"))
    return problems


def list_variables(channel: NoticeChannel) -> list[tuple[tuple[str, ...], str]]:
    """The variables of the environment that a channel needs, with their places."""
    named = []
    if channel.slack is not None:
        named = [("slack", "token_env", channel.slack.token_env), ("slack", "webhook_env", channel.slack.webhook_env)]
    if channel.mail is not None:
        named = [("mail", "user_env", channel.mail.user_env), ("mail", "password_env", channel.mail.password_env)]
    return [((part, field), variable) for part, field, variable in named if variable]


def is_quiet(quiet: Quiet, at: float) -> bool:
    """Whether nobody is told anything at this moment."""
    local = datetime.datetime.fromtimestamp(at, ZoneInfo(quiet.timezone))
    if quiet.weekend and local.weekday() >= 5:
        return True
    minute, begin, end = local.strftime("%H:%M"), quiet.begin, quiet.end
    return begin <= minute < end if begin <= end else minute >= begin or minute < end


def end_quiet(quiet: Quiet | None, at: float) -> float:
    """This moment, or the first minute after it in which people may be told something."""
    if quiet is None or not is_quiet(quiet, at):
        return at
    later = (at // MINUTE_S + 1) * MINUTE_S
    for _ in range(DAYS_MAX * 24 * 60):
        if not is_quiet(quiet, later):
            return later
        later += MINUTE_S
    return at  # it would never end: such hours are none


def find_due(channel: NoticeChannel, since: float) -> float:
    """When a channel is to be told of something that began at a moment."""
    return end_quiet(channel.quiet, since + (seconds_of(channel.after) or 0.0))


def find_digest(channel: NoticeChannel, since: float) -> float:
    """When the digest is due that a question belongs to; all times that end in the same quiet hours have one."""
    every = (seconds_of(channel.digest) if channel.digest else None) or HOUR_S
    return find_due(channel, since // every * every + every)
