"""Machines for the browser tests: a release, a journey moved by signals, deeds in doubt or done before, a failure."""

from pathlib import Path

from detent import (
    Action,
    Branch,
    Contract,
    EffectFailed,
    Machine,
    Outcome,
    OutcomeUnknown,
    PartialFailure,
    Question,
    Status,
    effect,
    table,
)

OUTBOX = Path("outbox.txt")


@effect("release.validate", kind="pure")
async def validate(contract: Contract) -> dict[str, object]:
    """Look at the version."""
    return {"version": contract.input["version"], "tests": 412, "coverage": 0.964}


@effect("release.publish", kind="irreversible", settle_s=0)
async def publish(contract: Contract) -> dict[str, object]:
    """Tell the world."""
    before = OUTBOX.read_text() if OUTBOX.exists() else ""
    OUTBOX.write_text(f"{before}{contract.input['version']}\n")
    return {"published": contract.input["version"]}


@effect("release.announce", kind="irreversible", settle_s=0)
async def announce(contract: Contract) -> Outcome:
    """Tell everybody, and what it cost."""
    sent = len(contract.input["to"])
    return Outcome({"sent": sent}, patch={"told": sent}, usage={"cost_usd": 0.0213, "tokens": 1840.0})


@effect("bank.pay", kind="irreversible", settle_s=0)
async def pay(contract: Contract) -> dict[str, object]:
    """The line is cut while the bank thinks."""
    raise OutcomeUnknown("the bank did not answer")


@effect("bank.order", kind="irreversible", settle_s=3600)
async def order(contract: Contract) -> dict[str, object]:
    """The line is cut, and what was sent may be on its way for an hour."""
    raise OutcomeUnknown("502 Bad Gateway", {"status": 502, "text": "upstream timed out"})


@effect("site.deploy", kind="irreversible", settle_s=0)
async def deploy(contract: Contract) -> dict[str, object]:
    """Works, or fails on its way, as it is told."""
    if contract.input["site"].startswith("broken"):
        result = {"exit": 7, "stdout": "copying 412 files\n311 of 412", "stderr": "rsync: no space left on device"}
        raise PartialFailure("`rsync` ended with exit code 7", "tool_failure.exit", result)
    return {"release": 41, "url": f"https://{contract.input['site']}.example/"}


@effect("weather.read", kind="pure")
async def weather(contract: Contract) -> dict[str, object]:
    """Never works."""
    raise EffectFailed("the station does not answer", "tool_failure.exit")


RELEASE = Machine(
    name="release",
    title="Release to everybody",
    version="1",
    initial="validate",
    transitions=table("""
        validate  -                   publish
        validate  !validation_error   refused
        publish   -                   announce
        publish   !approval_rejected  refused
        publish   !already_done       announce
        announce  -                   done
        announce  !*                  quiet
    """),
    work={
        "validate": (Action("validate", "release.validate", {"version": "{{ context.version }}"}),),
        "publish": (
            Action(
                "publish",
                "release.publish",
                {"version": "{{ context.version }}", "channel": "stable", "notes": "{{ context.notes }}"},
                ask=Question(
                    "Publish {{ context.version }} to everybody?",
                    data={"checks": "412 tests passed, coverage 96.4 %", "diff": "+1 204 / -310 lines"},
                    schema={
                        "type": "object",
                        "required": ["version", "channel"],
                        "properties": {
                            "version": {"type": "string"},
                            "channel": {"type": "string", "pattern": "^[a-z]+$"},
                            "notes": {"type": "string"},
                        },
                    },
                ),
            ),
        ),
        "announce": (
            Action(
                "announce", "release.announce", {"to": ["team", "customers"], "subject": "{{ context.version }} is out"}
            ),
        ),
    },
    ends={"done": Status.COMPLETED, "quiet": Status.COMPLETED, "refused": Status.REJECTED},
)

JOURNEY = Machine(
    name="journey",
    title="Parcel on its way",
    initial="packed",
    transitions=table("""
        packed     PICKED_UP   in_transit
        in_transit SCANNED     in_transit
        in_transit ARRIVED     depot
        depot      LOADED      van
        van        DELIVERED   done
        van        MISSED      depot
        in_transit LOST        lost
        depot      LOST        lost
    """),
    ends={"done": Status.COMPLETED, "lost": Status.FAILED},
)

PAYMENT = Machine(
    name="payment",
    title="Pay an invoice",
    initial="paying",
    transitions=table("""
        paying  -                              paid
        paying  !tool_failure.unknown_outcome  unclear
        paying  !*                             unclear
    """),
    work={
        "paying": (
            Action(
                "pay", "bank.pay", {"to": "{{ context.to }}", "amount": "{{ context.amount }}", "api_key": "k-123456"}
            ),
        )
    },
    ends={"paid": Status.COMPLETED, "unclear": Status.FAILED},
)

ORDER = Machine(
    name="order",
    title="Order at the bank",
    initial="ordering",
    transitions=table("""
        ordering  -   ordered
        ordering  !*  unclear
    """),
    work={"ordering": (Action("order", "bank.order", {"paper": "{{ context.paper }}"}),)},
    ends={"ordered": Status.COMPLETED, "unclear": Status.FAILED},
)

DEPLOY = Machine(
    name="deploy",
    title="Deploy the site",
    initial="deploying",
    transitions=table("""
        deploying  -                   live
        deploying  !approval_rejected  stopped
    """),
    work={"deploying": (Action("deploy", "site.deploy", {"site": "{{ context.site }}"}),)},
    ends={"live": Status.COMPLETED, "stopped": Status.REJECTED},
    output={"release": "{{ result.deploy.release or 0 }}"},
)

FORM = {
    "type": "object",
    "required": ["name", "seats"],
    "properties": {
        "name": {"type": "string", "title": "Name of the group", "minLength": 2},
        "seats": {"type": "integer", "minimum": 1, "maximum": 80, "description": "How many people come"},
        "window": {"type": "boolean", "title": "At the window"},
        "meal": {"enum": ["none", "lunch", "dinner"]},
    },
}
BOOKING = Machine(
    name="booking",
    title="Table for a group",
    initial="asking",
    transitions=table("""
        asking  -                   booked
        asking  !approval_rejected  declined
    """),
    work={"asking": (Action("details", "ask", ask=Question("Who comes, and when?", reason="form", schema=FORM)),)},
    ends={"booked": Status.COMPLETED, "declined": Status.REJECTED},
)

WEATHER = Machine(
    name="weather",
    title="Read the station",
    initial="reading",
    transitions=table("""
        reading  -  done
        reading  !*  broken
    """),
    work={"reading": (Action("read", "weather.read", {"station": "{{ context.station }}"}),)},
    ends={"done": Status.COMPLETED, "broken": Status.FAILED},
)

STATIONS = Machine(
    name="stations",
    title="Read all stations",
    initial="reading",
    transitions=table("reading - done"),
    work={
        "reading": (
            Action(
                "all",
                "branches",
                each="{{ context.stations }}",
                tolerate=9,
                branches=(Branch("one", (Action("read", "weather.read", {"station": "{{ item }}"}),)),),
            ),
        )
    },
    ends={"done": Status.COMPLETED},
)

# The views of special runs go by the machine's name and by what such a run holds; these hold the same without an agent
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
TABLE = "<table onclick='x()'><tr><td>sepal</td></tr></table><script>parent.document.title='owned'</script>"
CELLS = [
    {"id": "c1", "type": "markdown", "content": "## Flowers\nWhat is in the file."},
    {
        "id": "c2",
        "type": "code",
        "content": "plot(flowers)",
        "outputs": [
            {"output_type": "stream", "name": "stdout", "text": "150 rows\n"},
            {"output_type": "display_data", "data": {"image/png": PIXEL, "text/plain": "<Figure>"}},
            {"output_type": "execute_result", "data": {"text/html": TABLE}},
        ],
    },
]
STAGES = [{"id": "look", "title": "Look", "steps": [{"step_id": "load", "title": "Load the file"}]}]


@effect("show.cells", kind="pure")
async def act(contract: Contract) -> dict[str, object]:
    """What the notebook agent would have done; with HTML that the caller has given, if any."""
    shown = [
        {"output_type": "display_data", "data": {"text/html": one}} for one in contract.input["context"].get("html", [])
    ]
    given = [{"id": "c3", "type": "code", "content": "show()", "outputs": shown}] if shown else []
    return {"changes": {"plan": {"template": {"stages": STAGES}}, "cells": [*CELLS, *given]}}


NOTEBOOK = Machine(
    name="notebook",
    initial="stage_running",
    transitions=table("""
        stage_running  -     step_running
        step_running   DONE  workflow_completed
    """),
    work={"stage_running": (Action("act", "show.cells", {"context": "{{ context }}"}),)},
    ends={"workflow_completed": Status.COMPLETED},
)
ASSISTANT = Machine(
    name="assistant",
    initial="tools",
    transitions=table("""
        tools  -   end
        tools  !*  end
    """),
    work={"tools": (Action("call", "release.publish", {"version": "9.9.9"}, ask=Question("Send it?")),)},
    ends={"end": Status.COMPLETED},
)
