"""E-mail for the assistant: one tool, `email.send`, over SMTP.

    detent chat --tools examples/mail/mail.py "Send a mail to bob@example.com saying hello"

SMTP_HOST and SMTP_PORT say where the mail server is; without them it is a server on this machine. Sending cannot be
taken back, so the tool is declared irreversible: the assistant asks first and never sends the same mail twice.
"""

import asyncio
import os
import smtplib
from email.message import EmailMessage
from typing import Any

from detent import EffectFailed, OutcomeUnknown, effect

SCHEMA = {
    "type": "object",
    "required": ["to"],
    "additionalProperties": False,
    "properties": {
        "to": {"type": "string", "minLength": 3, "maxLength": 320},
        "subject": {"type": "string", "maxLength": 500},
        "body": {"type": "string", "maxLength": 100_000},
    },
}


@effect("email.send", schema=SCHEMA, timeout_s=30.0, settle_s=1.0)
async def send(contract: Any) -> Any:
    """Send an e-mail."""
    given, key = contract.input, contract.key
    mail = EmailMessage()
    try:
        mail["To"], mail["From"] = given["to"], os.environ.get("SMTP_FROM", "assistant@localhost")
        mail["Subject"] = given.get("subject", "")
    except ValueError as error:
        raise EffectFailed(f"this cannot be a mail's head: {error}", "validation_error") from None
    mail["X-Detent-Key"] = key.replace("\n", "")
    mail.set_content(given.get("body", ""))
    await asyncio.to_thread(_deliver, mail)
    is_chinese = any("\u4e00" <= ch <= "\u9fff" for ch in mail["Subject"] + given.get("body", ""))
    return "邮件已发送" if is_chinese else "the mail was sent"


def _deliver(mail: EmailMessage) -> None:
    host, port = os.environ.get("SMTP_HOST", "127.0.0.1"), int(os.environ.get("SMTP_PORT", "25"))
    try:
        server = smtplib.SMTP(host, port, timeout=20)
    except ConnectionRefusedError:
        raise EffectFailed("SMTP connection refused") from None
    except OSError as error:
        raise EffectFailed(f"the mail server cannot be reached: {error}") from None
    try:
        server.send_message(mail)
    except smtplib.SMTPServerDisconnected as error:
        raise OutcomeUnknown(f"the line to the mail server went dead: {error}") from None
    except smtplib.SMTPException as error:
        raise EffectFailed(f"the mail server refused it: {error}") from None
    finally:
        server.close()
