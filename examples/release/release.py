"""A release that asks before it publishes.

    detent run examples/release/release.py --set version=1.4.0

`publish` cannot be taken back, so it is asked about first, and it is never done twice: not after a crash, not by
another run.
"""

import asyncio
from pathlib import Path

from detent import Action, Contract, EffectFailed, Machine, Question, Status, effect, table

OUTBOX = Path("outbox.txt")


@effect("release.validate", kind="pure", timeout_s=10)
async def validate(contract: Contract) -> dict[str, object]:
    """Look at the version number."""
    version = str(contract.input["version"])
    if not all(part.isdigit() for part in version.split(".")):
        raise EffectFailed(f"`{version}` is not a version such as 1.4.0", "validation_error")
    return {"version": version}


@effect("release.publish", kind="irreversible", timeout_s=60, settle_s=0)
async def publish(contract: Contract) -> dict[str, object]:
    """Send the release out; the line in the outbox is what the world gets to see."""
    with OUTBOX.open("a") as outbox:
        outbox.write(f"published {contract.input['version']}\n")
    await asyncio.sleep(float(contract.input.get("upload_s") or 0))
    return {"published": contract.input["version"]}


RELEASE = Machine(
    name="release",
    initial="validate",
    transitions=table("""
        validate  -                   publish
        validate  !validation_error   refused
        publish   -                   done
        publish   !approval_rejected  refused
        publish   !already_done       done
    """),
    work={
        "validate": (Action("validate", "release.validate", {"version": "{{ context.version }}"}),),
        "publish": (
            Action(
                "publish",
                "release.publish",
                {"version": "{{ context.version }}", "upload_s": "{{ context.upload_s }}"},
                ask=Question("Publish {{ context.version }} to everybody?"),
                on_repeat="refuse",  # a version is published once; without this a person would be asked
            ),
        ),
    },
    ends={"done": Status.COMPLETED, "refused": Status.REJECTED},
)
