"""The machines that the transcripts are about; changed only together with them."""

import json
from pathlib import Path

from detent import (
    Action,
    Branch,
    Contract,
    EffectFailed,
    Machine,
    Outcome,
    OutcomeUnknown,
    Question,
    Status,
    effect,
    table,
)


@effect("note", kind="pure")
async def note(contract: Contract) -> Outcome:
    """Say what was given."""
    return Outcome({"noted": contract.input.get("text")}, usage={"cost_usd": 0.5})


@effect("mail.send", settle_s=0.0)
async def send(contract: Contract) -> Outcome:
    """Do something that cannot be taken back."""
    with Path(__file__).with_name("sent").open("a") as sent:
        sent.write(f"{contract.input['to']}\n")
    return Outcome({"sent": contract.input["to"]})


@effect("break", kind="pure")
async def breaks(contract: Contract) -> Outcome:
    """Fail."""
    raise EffectFailed(f"it is broken: {contract.action}")


@effect("vanish", settle_s=0.0)
async def vanish(contract: Contract) -> Outcome:
    """Leave, and never be heard of again."""
    raise OutcomeUnknown(f"no answer to {contract.action}")


def simple(name: str, *actions: Action, **given: object) -> Machine:
    """A machine of one working state."""
    rows = table("working - done")
    return Machine(name, "working", rows, work={"working": actions}, ends={"done": Status.COMPLETED}, **given)  # type: ignore[arg-type]


SEND = Action("send", "mail.send", {"to": "{{ context.to }}"}, ask=Question("May I send it?"))
FORM_SCHEMA = {"type": "object", "required": ["count"], "properties": {"count": {"type": "integer"}}}

QUICK = simple(
    "quick", Action("note", "note", {"text": "{{ context.text }}"}), output={"text": "{{ result.note.noted }}"}
)
BREAKS = simple("breaks", Action("break", "break"))
DOUBT = simple("doubt", Action("vanish", "vanish", {"to": "{{ context.to }}"}))
PLEA = simple("plea", SEND)
FORM = simple(
    "form",
    Action("ask", "ask", ask=Question("How many?", "form", FORM_SCHEMA)),
    output={"count": "{{ result.ask.data.count }}"},
)
TWO = simple("two", Action("both", "branches", branches=(Branch("a", (SEND,)), Branch("b", (SEND,)))))
FAMILY = simple(
    "family",
    Action("child", "child", {"machine": json.loads(PLEA.to_json()), "input": {"to": "{{ context.to }}"}}),
)
MAIL = Machine(
    "mail",
    "writing",
    table("writing SEND sending\nsending - done\nsending !approval_rejected writing"),
    work={"sending": (SEND,)},
    ends={"done": Status.COMPLETED},
)
MAIL_2 = Machine(
    "mail",
    "writing",
    table("writing SEND sending\nwriting DROP done\nsending - done\nsending !approval_rejected writing"),
    work={"sending": (SEND,)},
    ends={"done": Status.COMPLETED},
)
COUNT = Machine("count", "on", table("on TICK on\non STOP off"), ends={"off": Status.COMPLETED})
