"""Tools for the assistant of the browser tests: one that cannot be taken back, one that only looks."""

from pathlib import Path

from detent import Contract, effect

TO = {
    "type": "object",
    "required": ["to"],
    "properties": {"to": {"type": "string"}, "subject": {"type": "string"}, "body": {"type": "string"}},
}


@effect("email.send", settle_s=0, schema=TO)
async def send(contract: Contract) -> str:
    """Send an e-mail."""
    mails = Path("mails.txt")
    before = mails.read_text() if mails.exists() else ""
    mails.write_text(f"{before}{contract.input['to']}: {contract.input['body']}\n")
    return "sent"
