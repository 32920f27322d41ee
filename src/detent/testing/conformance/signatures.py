"""Signed answers: where a signature is wanted nothing else will do, and it is good for one answer only."""

import subprocess
import tempfile
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from detent.core import Action, Question, Run, Status
from detent.core.answer import answer_of
from detent.core.contract import Contract
from detent.core.events import ATTEMPT, Signalled
from detent.core.identity import Identity
from detent.core.signed_answer import SignedAnswer, expect_signed, sign_text
from detent.errors import BadSignature, NotPermitted, Refused
from detent.host.port import Host
from detent.host.ssh_signature import find_keygen, make_signature
from detent.testing.conformance.fixtures import HandClock, HostOpener, Outside, one, refusal
from detent.testing.conformance.people import ADA, ANN, ANN_FOR_KIM, BOB, KIM, OPAL, YES, settle_in

NEEDED = Question("Sign?", require_signature=True)


class KeyRing:
    """SSH keys of a few people, made for one check."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def make(self, name: str) -> str:
        """A new key; its public half."""
        file = self._folder / name
        command = [find_keygen(), "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(file)]
        subprocess.run(command, check=True, capture_output=True)  # noqa: S603
        return file.with_name(f"{name}.pub").read_text(encoding="utf-8").strip()

    def sign(self, name: str, said: SignedAnswer) -> dict[str, str]:
        """A signature by this person's key."""
        text = sign_text(said)
        return {"payload": text, "signature": make_signature(self._folder / name, text.encode())}


async def register(host: Host, ring: KeyRing, *names: str) -> None:
    """Give these people a key each."""
    for name in names:
        await host.change_people({"do": "change", "name": name, "keys": [ring.make(name)]}, by=ADA)


async def _ask(host: Host, question: Question = NEEDED, amount: int = 1) -> tuple[Run, Contract]:
    run = await host.start(one(Action("deed", "do", {"amount": amount}, ask=question)), by=OPAL)
    return run, run.waiting[0]


def expect(
    host: Host, run: Run, contract: Contract, who: Identity, at: float, said: dict[str, Any] | None = None
) -> SignedAnswer:
    """What somebody has to sign to say this."""
    return expect_signed(*host.reader.identity(), run.id, contract, answer_of(said or YES), who, int(at))


async def check_an_unsigned_answer_never_does_where_a_signature_is_wanted(open_host: HostOpener, home: Path) -> None:
    outside = Outside()
    async with open_host(home, [outside.effect()]) as host:
        run, contract = await _ask(host, replace(NEEDED, quorum=1))
        for said in (YES, {"approved": False}, {**YES, "args": {}}, {**YES, "by": "policy", "known_by": "ssh"}):
            assert "--sign" in await refusal(Refused, host.answer(run.id, contract.id, said, by="ann"))
        await settle_in(host)
        for who in (ANN, KIM, BOB, ANN_FOR_KIM):
            assert "--sign" in await refusal(Refused, host.answer(run.id, contract.id, YES, by=who))
        after = await host.show(run.id)
        assert (after.status, after.contracts) == (Status.WAITING, run.contracts)
        assert not outside.deeds


async def check_a_signature_is_good_for_its_own_answer_only(open_host: HostOpener, home: Path) -> None:
    if not find_keygen():
        return
    outside, clock = Outside(), HandClock()
    with tempfile.TemporaryDirectory() as folder:
        ring = KeyRing(Path(folder))
        async with open_host(home, [outside.effect()], clock) as host:
            await settle_in(host)
            await register(host, ring, "ann", "bob")
            run, contract = await _ask(host)
            right = expect(host, run, contract, ANN, clock.now())
            other, _ = await _ask(host, amount=2)
            for wrong in (
                replace(right, run=other.id), replace(right, contract="x/y/1"), replace(right, journal="0" * 32),
                replace(right, epoch=right.epoch + 1), replace(right, question="0" * 64), replace(right, by="bob"),
                replace(right, call_hash="0" * 64), replace(right, answer={"approved": False}),
                replace(right, time=right.time - 601), replace(right, time=right.time + 601),
            ):  # fmt: skip
                said = {**YES, "signature": ring.sign("ann", wrong)}
                await refusal(BadSignature, host.answer(run.id, contract.id, said, by=ANN))
            for garbage in ("", "x", "-----BEGIN SSH SIGNATURE-----\n" * 1000, ring.sign("bob", right)["signature"]):
                said = {**YES, "signature": {"payload": sign_text(right), "signature": garbage}}
                await refusal(BadSignature, host.answer(run.id, contract.id, said, by=ANN))
            good = {**YES, "signature": ring.sign("ann", right)}
            await refusal(BadSignature, host.answer(run.id, contract.id, good, by=BOB))
            await refusal(BadSignature, host.answer(other.id, contract.id, good, by=ANN))
            events = [entry.event for entry in host.reader.entries(run.id)]
            tried = [event for event in events if isinstance(event, Signalled) and event.name == ATTEMPT]
            # What was wrong is told once for each reason, however often it is tried.
            assert len({(event.by, event.data["why"]) for event in tried}) == len(tried)
            assert {(event.by, event.data["verb"]) for event in tried} == {("ann", "sign"), ("bob", "sign")}
            assert not outside.deeds
            await host.answer(run.id, contract.id, good, by=ANN)
            assert (await host.settled(run.id)).status is Status.COMPLETED
            assert (host.reader.verify(run.id).problem, host.reader.verify(run.id).signed) == ("", 1)
            await refusal(Refused, host.answer(run.id, contract.id, good, by=ANN))


async def check_each_of_a_quorum_signs_with_their_own_key(open_host: HostOpener, home: Path) -> None:
    if not find_keygen():
        return
    outside, clock = Outside(), HandClock()
    with tempfile.TemporaryDirectory() as folder:
        ring = KeyRing(Path(folder))
        async with open_host(home, [outside.effect()], clock) as host:
            await settle_in(host)
            await register(host, ring, "ann", "bob", "kim")
            run, contract = await _ask(host, replace(NEEDED, quorum=2, approvers=("kim", "bob")))
            for_kim = expect(host, run, contract, ANN_FOR_KIM, clock.now())
            by_kim = {**YES, "signature": ring.sign("kim", for_kim)}  # the speaker signs
            await refusal(NotPermitted, host.answer(run.id, contract.id, by_kim, by=ANN_FOR_KIM))
            said = {**YES, "signature": ring.sign("ann", for_kim)}
            assert (await host.answer(run.id, contract.id, said, by=ANN_FOR_KIM)).status is Status.WAITING
            bobs = expect(host, run, contract, BOB, clock.now())
            await refusal(NotPermitted, host.answer(run.id, contract.id, said, by=BOB))
            await host.answer(run.id, contract.id, {**YES, "signature": ring.sign("bob", bobs)}, by=BOB)
            assert (await host.settled(run.id)).status is Status.COMPLETED
            assert host.reader.verify(run.id).signed == 2


async def check_keys_count_that_were_in_force_at_the_answer(open_host: HostOpener, home: Path) -> None:
    if not find_keygen():
        return
    outside, clock = Outside(), HandClock()
    with tempfile.TemporaryDirectory() as folder:
        ring = KeyRing(Path(folder))
        async with open_host(home, [outside.effect()], clock) as host:
            await settle_in(host)
            run, contract = await _ask(host)
            key = ring.make("ann")
            said = {**YES, "signature": ring.sign("ann", expect(host, run, contract, ANN, clock.now()))}
            assert "key" in await refusal(BadSignature, host.answer(run.id, contract.id, said, by=ANN))
            clock.move(1)
            await host.change_people({"do": "change", "name": "ann", "keys": [key]}, by=ADA)
            await host.answer(run.id, contract.id, said, by=ANN)
            await host.settled(run.id)
            clock.move(1)
            await host.change_people({"do": "change", "name": "ann", "drop_keys": [key]}, by=ADA)
            assert not host.reader.verify(run.id).problem, "a key that is removed later was good then"
            late, contract = await _ask(host, amount=2)
            said = {**YES, "signature": ring.sign("ann", expect(host, late, contract, ANN, clock.now()))}
            await refusal(BadSignature, host.answer(late.id, contract.id, said, by=ANN))
