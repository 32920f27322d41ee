"""What a program, a function and a request leave behind when they fail: real processes, threads and servers."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from detent.core import Action, Contract, Machine, Outcome, Retry, Run, Status, Transition, effect, table
from detent.effects import builtin
from detent.host.embedded import EmbeddedHost
from tests.effects.test_http import Handler, Request, Server, answering, serving, silence

AGAIN = {"approved": True, "by": "ann"}
USE = {"outcome": "use", "by": "ann"}


def flow(*actions: Action, retry: bool = False) -> Machine:
    """One state of work; an error of a tool leads to `broken`, or back into the state."""
    rows = table("""
        work - done
        work !tool_failure broken
        work !timeout broken
    """)
    if retry:
        rows = (Transition("work", "work", error="tool_failure", when="attempt < 2", is_retry=True), *rows)
    ends: Any = {"done": "completed", "broken": "failed"}
    return Machine("flow", "work", rows, work={"work": actions}, ends=ends)


class Shop:
    """A host with the built-in effects, in a folder where programs write down what they did."""

    def __init__(self, host: EmbeddedHost, folder: Path) -> None:
        self.host, self.deeds_file = host, folder / "deeds"

    def program(self, then: str, **more: Any) -> dict[str, Any]:
        """A program that does something and then this."""
        return {"argv": ["sh", "-c", f"echo paid >> {self.deeds_file}; {then}"], **more}

    @property
    def deeds(self) -> int:
        return len(self.deeds_file.read_text().splitlines()) if self.deeds_file.exists() else 0

    async def run(self, machine: Machine) -> Run:
        return await self.host.settled((await self.host.start(machine)).id)

    async def say(self, run: Run, said: dict[str, Any]) -> Run:
        await self.host.answer(run.id, run.waiting[0].id, said)
        return await self.host.settled(run.id)


@contextlib.asynccontextmanager
async def shop(folder: Path, *more: Any) -> AsyncIterator[Shop]:
    effects = {**builtin(), **{one.name: one for one in more}}
    async with EmbeddedHost(folder / "home", effects, sync="off") as host:
        yield Shop(host, folder)


def reason(run: Run) -> str:
    (contract,) = run.waiting
    return contract.question.reason if contract.question is not None else ""


def earlier(run: Run) -> dict[str, Any]:
    (contract,) = run.waiting
    assert contract.question is not None
    return contract.question.earlier


FAILING = "echo half of it; echo no receipt >&2; exit 7"


async def test_a_declared_program_that_fails_takes_the_error_path_and_keeps_its_key(tmp_path: Path) -> None:
    async with shop(tmp_path) as at:
        deploy = flow(Action("deploy", "shell", at.program(FAILING), kind="irreversible"))
        first = await at.run(deploy)
        assert first.error is not None
        assert (first.ended, first.state, first.error.type) == (Status.FAILED, "broken", "tool_failure.exit")
        assert first.results["deploy"]["exit"] == 7
        assert first.results["deploy"]["success"] is False
        second = await at.run(deploy)
        assert (reason(second), at.deeds) == ("approval", 1)
        told = earlier(second)
        assert (told["run_id"], told["status"]) == (first.id, "possible")
        assert (told["result"]["exit"], told["result"]["stdout"], told["result"]["stderr"]) == (
            7, "half of it\n", "no receipt\n",
        )  # fmt: skip
        assert "exit code 7: no receipt" in second.waiting[0].question.text  # type: ignore[union-attr]
        third = await at.run(deploy)
        assert (await at.say(second, AGAIN)).state == "broken"
        assert at.deeds == 2
        used = await at.say(third, {**USE, "result": {"found": "it was deployed"}})
        assert (used.ended, used.results["deploy"]["found"], at.deeds) == (Status.COMPLETED, "it was deployed", 2)


@pytest.mark.parametrize("by", ["retry", "state"])
async def test_no_retry_begins_a_possible_deed_by_itself(tmp_path: Path, by: str) -> None:
    async with shop(tmp_path) as at:
        again = Retry(limit=3, delay_s=0) if by == "retry" else None
        action = Action("deploy", "shell", at.program(FAILING), kind="irreversible", retry=again)
        run = await at.run(flow(action, retry=by == "state"))
        assert (earlier(run)["result"]["exit"], at.deeds) == (7, 1)
        run = await at.say(run, AGAIN)
        assert (earlier(run)["contract_id"], at.deeds) == ("work/deploy/2", 2), "and each further one asks as well"


@pytest.mark.parametrize("declared", [{"key": "once"}, {"scope": "global"}, {"kind": "irreversible"}])
async def test_saying_anything_of_what_it_does_declares_a_step(tmp_path: Path, declared: dict[str, Any]) -> None:
    async with shop(tmp_path) as at:
        deploy = flow(Action("deploy", "shell", at.program("exit 1"), **declared))
        assert (await at.run(deploy)).state == "broken"
        assert (earlier(await at.run(deploy))["status"], at.deeds) == ("possible", 1)


@pytest.mark.parametrize("declared", [{"kind": "irreversible"}, {}])
@pytest.mark.parametrize(("end", "more"), [("kill -9 $$", {}), ("sleep 60", {"timeout": 2}), ("kill -15 $$", {})])
async def test_a_program_that_was_killed_is_a_doubt_declared_or_not(
    tmp_path: Path, end: str, more: dict[str, Any], declared: dict[str, Any]
) -> None:
    async with shop(tmp_path) as at:
        deploy = flow(Action("deploy", "shell", at.program(end, **more), retry=Retry(limit=3, delay_s=0), **declared))
        run = await at.run(deploy)
        assert (reason(run), at.deeds) == ("outcome_unknown", 1)
        asked = run.waiting[0].question.data  # type: ignore[union-attr]
        assert ("timeout" if more else "killed by signal") in str(asked["cause"])
        assert "lands_until" not in asked, "nothing of a program that is gone can still land"
        run = await at.say(run, {"outcome": "happened", "result": {"seen": True}, "by": "ann"})
        assert (run.ended, run.results["deploy"]["seen"], at.deeds) == (Status.COMPLETED, True, 1)


async def test_a_program_that_a_cancelled_run_had_at_work_is_killed_and_a_doubt(tmp_path: Path) -> None:
    async with shop(tmp_path) as at:
        begun = tmp_path / "begun"
        action = Action("deploy", "shell", at.program(f"touch {begun}; sleep 60"), kind="irreversible")
        run = await at.host.start(flow(action))
        while not begun.exists():  # noqa: ASYNC110  # another process makes it
            await asyncio.sleep(0.01)
        await at.host.cancel(run.id, by="ann")
        run = await at.host.settled(run.id)
        assert (reason(run), at.deeds) == ("outcome_unknown", 1)
        run = await at.say(run, {"outcome": "not_happened", "by": "ann"})
        assert (run.ended, at.deeds) == (Status.CANCELLED, 1)


async def test_a_step_that_declares_nothing_may_be_run_again_and_again(tmp_path: Path) -> None:
    """`make test` red, red, green, and green once more: in one run and in others, nobody is asked."""
    async with shop(tmp_path) as at:
        given = at.program(f"test $(wc -l < {at.deeds_file}) -ge 3")
        check = Action("check", "shell", given)
        assert (await at.run(flow(check))).state == "broken"
        assert (await at.run(flow(Action("check", "shell", given, retry=Retry(limit=1, delay_s=0))))).state == "done"
        assert at.deeds == 3
        twice = await at.run(flow(check, Action("once_more", "shell", given)))
        assert (twice.ended, at.deeds) == (Status.COMPLETED, 5)
        looping = await at.run(flow(Action("fail", "shell", at.program("exit 1")), retry=True))
        assert (looping.state, at.deeds) == ("broken", 8), "a state that is entered again runs it again"


PAYING = """
from pathlib import Path

def pay(account):
    with Path(account).open("a") as deeds:
        deeds.write("paid\\n")
    return int("not a receipt")
"""


@pytest.fixture
def paying(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "paying_functions.py").write_text(PAYING, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "paying_functions:pay"
    sys.modules.pop("paying_functions", None)


async def test_a_function_that_pays_and_cannot_read_the_answer_pays_once(tmp_path: Path, paying: str) -> None:
    async with shop(tmp_path) as at:
        call = {"function": paying, "args": [str(at.deeds_file)]}
        pay = flow(Action("pay", "python", call, kind="irreversible", retry=Retry(limit=3, delay_s=0)), retry=True)
        run = await at.run(pay)
        assert (reason(run), at.deeds) == ("outcome_unknown", 1)
        question = run.waiting[0].question
        assert question is not None
        assert "not a receipt" in question.data["cause"]["message"]
        second = await at.run(pay)
        assert second.error is not None
        assert (second.error.type, at.deeds) == ("key_held", 1)


async def test_a_function_that_declares_nothing_and_raises_is_a_doubt_in_its_own_run_only(
    tmp_path: Path, paying: str
) -> None:
    async with shop(tmp_path) as at:
        call = {"function": paying, "args": [str(at.deeds_file)]}
        pay = flow(Action("pay", "python", call, retry=Retry(limit=3, delay_s=0)))
        for count in (1, 2):
            run = await at.run(pay)
            assert (reason(run), at.deeds) == ("outcome_unknown", count)


@effect("pay.refused", settle_s=0.0)
async def pay_and_say_refused(contract: Contract) -> Outcome:
    """Pay, and then raise what sounds as if nothing had been sent."""
    with Path(contract.input["account"]).open("a") as deeds:  # noqa: ASYNC230
        deeds.write("paid\n")
    raise ConnectionRefusedError(111, "Connection refused")


async def test_the_host_judges_no_exception_however_harmless_it_sounds(tmp_path: Path) -> None:
    async with shop(tmp_path, pay_and_say_refused) as at:
        action = Action("pay", "pay.refused", {"account": str(at.deeds_file)}, retry=Retry(limit=3, delay_s=0))
        first = await at.run(flow(action))
        assert (reason(first), at.deeds) == ("outcome_unknown", 1)
        second = await at.run(flow(action))
        assert second.error is not None
        assert (second.error.type, at.deeds) == ("key_held", 1)


class Bank:
    """A server that books each payment when it arrives, and then answers as its handler does."""

    def __init__(self, then: Handler) -> None:
        self.payments: list[str] = []
        self._then = then

    async def handle(self, request: Request, writer: asyncio.StreamWriter) -> None:
        if request.method == "POST":
            self.payments.append(request.body.decode())
        await self._then(request, writer)


@contextlib.asynccontextmanager
async def bank(then: Handler, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Bank, Server]]:
    monkeypatch.setenv("NO_PROXY", "*")
    booked = Bank(then)
    async with serving(booked.handle) as server:
        yield booked, server


async def test_an_effect_of_ones_own_that_posts_and_times_out_books_one_payment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import httpx2

    @effect("pay", settle_s=0.0)
    async def pay(contract: Contract) -> dict[str, Any]:
        async with httpx2.AsyncClient(timeout=httpx2.Timeout(30, read=0.3)) as client:
            answer = await client.post(contract.input["url"], json={"amount": 5})
        return {"status": answer.status_code}

    async with bank(silence, monkeypatch) as (booked, server), shop(tmp_path, pay) as at:
        machine = flow(Action("pay", "pay", {"url": server.url}, retry=Retry(limit=3, delay_s=0)))
        first = await at.run(machine)
        assert reason(first) == "outcome_unknown"
        second = await at.run(machine)
        assert second.error is not None
        assert (second.error.type, len(booked.payments)) == ("key_held", 1)
        first = await at.say(first, {"outcome": "happened", "result": {"status": 201}, "by": "ann"})
        assert (first.ended, len(booked.payments)) == (Status.COMPLETED, 1)
        assert (earlier(await at.run(machine))["result"], len(booked.payments)) == ({"status": 201}, 1)


async def test_our_own_http_books_one_payment_whatever_becomes_of_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bank(answering(503, b"busy"), monkeypatch) as (booked, server), shop(tmp_path) as at:
        given = {"method": "POST", "url": server.url, "json": {"amount": 5}}
        run = await at.run(flow(Action("pay", "http", given, retry=Retry(limit=3, delay_s=0))))
        assert (reason(run), len(booked.payments)) == ("outcome_unknown", 1)
        asked = run.waiting[0].question.data  # type: ignore[union-attr]
        assert (asked["result"]["status"], asked["result"]["text"]) == (503, "busy")
        assert asked["lands_until"] > run.at, "and until when the request may still land"


async def test_a_server_that_takes_the_key_can_be_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with bank(answering(503), monkeypatch) as (_, server), shop(tmp_path) as at:
        given = {"method": "POST", "url": server.url}
        again = Action("pay", "http", given, kind="idempotent", retry=Retry(limit=2, delay_s=0))
        run = await at.run(flow(again))
        assert (run.state, len(server.requests)) == ("broken", 3)
        assert len({request.headers["idempotency-key"] for request in server.requests}) == 1


async def test_the_nightly_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same GET and the same PUT are done every night; the same POST is asked about."""
    async with bank(answering(200, b"42"), monkeypatch) as (booked, server), shop(tmp_path) as at:
        for night in (1, 2):
            for method in ({}, {"method": "GET"}, {"method": "HEAD"}, {"method": "put"}, {"method": "DELETE"}):
                run = await at.run(flow(Action("ask", "http", {"url": server.url, **method})))
                assert run.ended is Status.COMPLETED, (night, method)
        assert len(server.requests) == 10
        post = flow(Action("pay", "http", {"url": server.url, "method": "post", "body": "5"}))
        assert (await at.run(post)).ended is Status.COMPLETED
        second = await at.run(post)
        assert (reason(second), earlier(second)["result"]["text"]) == ("approval", "42")
        assert booked.payments == ["5"]
        assert (await at.say(second, AGAIN)).ended is Status.COMPLETED
        assert booked.payments == ["5", "5"]


async def test_a_no_of_the_server_frees_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with bank(answering(422, b"no such account"), monkeypatch) as (booked, server), shop(tmp_path) as at:
        pay = flow(Action("pay", "http", {"url": server.url, "method": "POST"}))
        for count in (1, 2):
            run = await at.run(pay)
            assert (run.state, len(booked.payments)) == ("broken", count)
            assert (run.results["pay"]["status"], run.results["pay"]["text"]) == (422, "no such account")
