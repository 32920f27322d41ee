"""People: what they may do, whose word counts, and that nobody is heard twice."""

from pathlib import Path
from typing import Any

from detent.core import Action, Question, Run, Status
from detent.core.events import ATTEMPT
from detent.core.identity import Identity
from detent.errors import NotPermitted, Refused
from detent.host.port import Host
from detent.testing.conformance.fixtures import ASKING, DOOR, HostOpener, Outside, one, refusal

ANN, BOB, KIM, VAL, OPAL, ADA = (Identity(name, "token") for name in ("ann", "bob", "kim", "val", "opal", "ada"))
ANN_FOR_KIM = Identity("kim", "token", "ann")
PEOPLE: tuple[dict[str, Any], ...] = (
    {"name": "ada", "roles": ["admin"]},
    {"name": "kim", "roles": ["approver"], "groups": ["finance"]},
    {"name": "ann", "roles": ["approver"], "groups": ["finance"], "speaks_for": ["kim"]},
    {"name": "bob", "roles": ["approver"]},
    {"name": "opal", "roles": ["operator"]},
    {"name": "val", "roles": ["viewer"]},
)
YES = {"approved": True}


async def settle_in(host: Host) -> None:
    """Ada is the first, and adds the others."""
    for number, person in enumerate(PEOPLE):
        await host.change_people({"do": "add", **person}, by=ADA if number else "")


async def _asking(host: Host, question: Question, by: Identity = OPAL) -> tuple[Run, str]:
    run = await host.start(one(Action("deed", "do", ask=question)), by=by)
    return run, run.waiting[0].id


async def check_a_quorum_is_met_by_persons(open_host: HostOpener, home: Path) -> None:
    outside = Outside()
    async with open_host(home, [outside.effect()]) as host:
        await settle_in(host)
        run, contract_id = await _asking(host, Question("All?", quorum=2, approvers=("ann", "kim", "bob")))
        assert (await host.answer(run.id, contract_id, YES, by=ANN)).status is Status.WAITING
        for same in (ANN, ANN_FOR_KIM):
            assert "ann" in await refusal(NotPermitted, host.answer(run.id, contract_id, YES, by=same))
        assert not outside.deeds
        await host.answer(run.id, contract_id, YES, by=BOB)
        assert (await host.settled(run.id)).status is Status.COMPLETED


async def check_speaking_for_another_counts_as_theirs(open_host: HostOpener, home: Path) -> None:
    outside = Outside()
    async with open_host(home, [outside.effect()]) as host:
        await settle_in(host)
        run, contract_id = await _asking(host, Question("Both?", quorum=2, approvers=("kim", "bob")))
        await refusal(NotPermitted, host.answer(run.id, contract_id, YES, by=ANN))  # not one of them
        for other in (
            Identity("bob", "token", "ann"),
            Identity("kim", "token", "bob"),
            Identity("kim", "token", "eve"),
        ):
            await refusal(NotPermitted, host.answer(run.id, contract_id, YES, by=other))  # without leave
        await host.answer(run.id, contract_id, YES, by=ANN_FOR_KIM)
        await refusal(NotPermitted, host.answer(run.id, contract_id, YES, by=KIM))  # said already
        await host.answer(run.id, contract_id, YES, by=BOB)
        said = (await host.settled(run.id)).answers["deed"]
        assert said["by"] == "bob"
        events = [entry.event async for entry in host.watch(run.id)]
        heard = [getattr(event, "result", None) for event in events if getattr(event, "trigger", "") == "resume"]
        assert [(one["by"], one.get("spoken_by", ""), one["known_by"]) for one in heard if one] == [
            ("kim", "ann", "token"),
            ("bob", "", "token"),
        ]


async def check_whoever_started_a_run_does_not_answer_it(open_host: HostOpener, home: Path) -> None:
    outside = Outside()
    async with open_host(home, [outside.effect()]) as host:
        await settle_in(host)
        run, contract_id = await _asking(host, Question("Other?", separate=True), by=ANN_FOR_KIM)
        for own in (ANN, KIM, ANN_FOR_KIM):
            assert "started" in await refusal(NotPermitted, host.answer(run.id, contract_id, YES, by=own))
        await host.answer(run.id, contract_id, YES, by=BOB)
        assert (await host.settled(run.id)).status is Status.COMPLETED


async def check_a_group_is_asked_by_its_name(open_host: HostOpener, home: Path) -> None:
    outside = Outside()
    async with open_host(home, [outside.effect()]) as host:
        await settle_in(host)
        run, contract_id = await _asking(host, Question("Finance?", approvers=("role:finance",)))
        await refusal(Refused, host.answer(run.id, contract_id, YES, by="role:finance"))
        await refusal(NotPermitted, host.answer(run.id, contract_id, YES, by=BOB))
        await host.answer(run.id, contract_id, YES, by=KIM)
        assert (await host.settled(run.id)).status is Status.COMPLETED


async def check_who_is_in_a_group_is_looked_up_when_somebody_answers(open_host: HostOpener, home: Path) -> None:
    outside = Outside()
    async with open_host(home, [outside.effect()]) as host:
        await settle_in(host)
        run, contract_id = await _asking(host, Question("Finance?", approvers=("role:finance",)))
        await host.change_people({"do": "change", "name": "kim", "drop_groups": ["finance"]}, by=ADA)
        await host.change_people({"do": "change", "name": "bob", "groups": ["finance"]}, by=ADA)
        await refusal(NotPermitted, host.answer(run.id, contract_id, YES, by=KIM))
        await host.answer(run.id, contract_id, YES, by=BOB)
        assert (await host.settled(run.id)).status is Status.COMPLETED
        run, contract_id = await _asking(host, Question("Finance?", approvers=("role:finance",)))
        for name in ("ann", "bob"):
            await host.change_people({"do": "change", "name": name, "drop_groups": ["finance"]}, by=ADA)
        for who in (ANN, BOB, KIM):  # a group without anybody is nobody, and not anybody
            await refusal(NotPermitted, host.answer(run.id, contract_id, YES, by=who))


async def check_a_role_that_is_missing_is_named(open_host: HostOpener, home: Path) -> None:
    outside = Outside()
    async with open_host(home, [outside.effect()]) as host:
        await settle_in(host)
        assert "operator" in await refusal(NotPermitted, host.start(DOOR, by=VAL))
        run = await host.start(ASKING, {"amount": 7}, by=OPAL)
        for who in (VAL, OPAL, ADA):
            told = await refusal(NotPermitted, host.answer(run.id, run.waiting[0].id, YES, by=who))
            assert "approver" in told
            assert "kim, ann, bob" in told
        for verb in (host.cancel, host.hold, host.release, host.retry, host.fork):
            await refusal(NotPermitted, verb(run.id, by=VAL))
        nobody = Identity("nobody", "token")
        await refusal(NotPermitted, host.signal(run.id, "OPEN", by=nobody))
        for who in (OPAL, ANN):
            assert "ada" in await refusal(NotPermitted, host.change_people({"do": "remove", "name": "val"}, by=who))


async def check_a_refused_attempt_changes_only_its_record(open_host: HostOpener, home: Path) -> None:
    outside = Outside()
    async with open_host(home, [outside.effect()]) as host:
        await settle_in(host)
        run = await host.start(ASKING, {"amount": 7}, by=OPAL)
        before = await host.show(run.id)
        for _ in range(3):
            await refusal(NotPermitted, host.answer(run.id, run.waiting[0].id, YES, by=VAL))
        after = await host.show(run.id)
        assert after.seq == before.seq + 1, "an attempt is written down, and once"
        assert (after.contracts, after.context, after.status) == (before.contracts, before.context, before.status)
        event = list(host.reader.entries(run.id))[-1].event
        assert (getattr(event, "name", ""), getattr(event, "by", "")) == (ATTEMPT, "val")
        assert not outside.deeds


async def check_who_changed_the_people_is_kept(open_host: HostOpener, home: Path) -> None:
    async with open_host(home) as host:
        await settle_in(host)
        done = await host.change_people({"do": "remove", "name": "bob"}, by=ADA)
        assert [person["name"] for person in done["people"]] == ["ada", "kim", "ann", "opal", "val"]
        await refusal(NotPermitted, host.start(DOOR, by=BOB))
    async with open_host(home) as host:
        assert (await host.start(DOOR, by=OPAL)).by == "opal"
        last = list(host.reader.entries("detent_people"))[-2].event
        assert getattr(last, "by", "") == "ada"
        assert getattr(last, "data", {})["change"] == {"do": "remove", "name": "bob"}
        assert not host.reader.verify("detent_people").problem
        for verb in (host.cancel, host.hold, host.release, host.retry, host.fork):
            await refusal(Refused, verb("detent_people", by=ADA))
