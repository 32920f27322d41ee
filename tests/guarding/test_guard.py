"""Guarded functions: one call is one run, the function runs where it is called, and never twice without a word."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

import detent
from detent.errors import AlreadyDone, CallNotDone, DefinitionError, InDoubt, Refused, Rejected, Waiting
from detent.guarding import CallOptions, FunctionGuard, Ticket
from detent.guarding.function_guard import find_tool
from tests.effort import PATIENCE_S

PROGRAM = Path(__file__).with_name("program.py")


class Till:
    """A home with a payment in the test's own process, and programs that make the same one."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / ".detent"
        self.ledger = folder / "ledger"

    @property
    def paid(self) -> list[str]:
        return self.ledger.read_text().splitlines() if self.ledger.exists() else []

    def begin(self, what: str) -> "subprocess.Popen[str]":
        pipe = subprocess.PIPE
        command = [sys.executable, str(PROGRAM), str(self.home), what]
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def run(self, what: str) -> Any:
        """What the program says; the signal it died of."""
        with self.begin(what) as program:
            said, errors = program.communicate(timeout=PATIENCE_S)
        if program.returncode < 0:
            return program.returncode
        assert program.returncode == 0, errors
        return json.loads(said.splitlines()[-1])

    def answer(self, asked: dict[str, Any], answer: dict[str, Any]) -> None:
        async def do() -> None:
            async with detent.open(self.home) as host:
                await host.answer(asked["run_id"], asked["contract_id"], answer, by="ann")
                await host.settled(asked["run_id"])

        asyncio.run(do())


@pytest.fixture
def till(tmp_path: Path) -> Till:
    return Till(tmp_path)


@pytest.fixture
def guard(till: Till) -> Iterator[FunctionGuard]:
    with detent.guard(till.home, waiting="raise") as made:
        yield made


def answer(guard: FunctionGuard, asked: CallNotDone, **said: Any) -> None:
    background = guard.background
    background.submit(background.host.answer(asked.run_id, asked.contract_id, said, by="ann")).result()
    background.submit(background.host.settled(asked.run_id)).result()


def make_pay(guard: FunctionGuard, paid: list[Any], **terms: Any) -> Any:
    @guard.tool("bank.pay", **{"ask": "Pay {amount} to {to}?", "settle_s": 0.0, **terms})
    def pay(to: str, amount: int) -> dict[str, int]:
        """Pay somebody."""
        paid.append((to, amount))
        return {"paid": amount}

    return pay


@pytest.mark.parametrize("dies", ["before", "inside", "inside-after", "returned", "after"])
def test_a_program_that_is_killed_has_paid_once_or_somebody_is_asked(till: Till, dies: str) -> None:
    if dies != "before":
        asked = till.run("ask")
        till.answer(asked, {"approved": True})
        assert till.paid == [], "approved, and nobody was there to make the call"
    assert till.run(dies) == -signal.SIGKILL
    made = till.paid
    again = till.run("ask")
    if dies == "before":
        assert again["waiting"] == "Pay 5 to ann?"
        assert made == []
    elif dies == "after":
        assert again["already"] == {"paid": 5}
        assert made == ["ann 5"]
    else:
        assert "may already have happened" in again["waiting"]
        assert made == ([] if dies == "inside" else ["ann 5"])
    assert till.paid == made
    if dies == "inside":
        till.answer(again, {"outcome": "not_happened"})
        assert till.run("ask") == {"result": {"paid": 5}}
    elif "waiting" in again and made:
        till.answer(again, {"outcome": "happened", "result": {"paid": 5}})
        assert till.run("ask")["already"] == {"paid": 5}
    if dies != "before":
        assert till.paid == ["ann 5"]


def test_the_holder_may_die_while_a_function_is_at_work_elsewhere(till: Till) -> None:
    holding = """
import asyncio, sys, detent
async def hold():
    async with detent.open(sys.argv[1]):
        print("holds", flush=True)
        await asyncio.Event().wait()
asyncio.run(hold())
"""
    command = [sys.executable, "-c", holding, str(till.home)]
    holder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    with holder:
        assert holder.stdout.readline() == "holds\n"
        till.answer(till.run("ask"), {"approved": True})
        with till.begin("slow") as program:
            assert program.stdout is not None
            assert program.stdin is not None
            assert program.stdout.readline() == "inside\n"
            holder.kill()
            program.stdin.write("\n")
            program.stdin.flush()
            assert json.loads(program.stdout.readline()) == {"result": {"paid": 5}}
            program.stdin.close()
    assert till.paid == ["ann 5"]
    assert till.run("ask")["already"] == {"paid": 5}


async def test_the_function_runs_in_the_program_that_called_it_and_not_with_the_holder(till: Till) -> None:
    async with detent.open(till.home) as host:
        asked = await asyncio.to_thread(till.run, "ask-async")
        assert host.is_holder
        with till.begin("block") as program:
            run_id = ""
            async for steps in host.reader.follow_all(0):
                run_id = next((step.run_id for step in steps if step.name == "bank_pay"), "")
                if run_id and (await host.settled(run_id)).waiting:
                    break
            run = await host.answer(run_id, "call/call/1", {"approved": True}, by="ann")
            assert json.loads((await asyncio.to_thread(program.communicate, timeout=PATIENCE_S))[0]) == {
                "result": {"paid": 5}
            }
        run = await host.settled(run_id)
        assert run.output["returned"] == {"paid": 5}
        assert asked["run_id"] != run_id
        with pytest.raises(detent_error("NotWaiting")):
            await host.answer(run_id, "call/call/1", {"approved": True}, by="bob")
    assert till.paid == ["ann 5"]


def detent_error(name: str) -> type[Exception]:
    return getattr(detent.errors, name)  # type: ignore[no-any-return]


def test_twice_at_once_is_one_call_and_both_hear_of_it(guard: FunctionGuard) -> None:
    paid: list[Any] = []
    pay = make_pay(guard, paid, ask=False)
    inside, go = threading.Event(), threading.Event()

    @guard.tool("bank.slow", ask=False)
    def slow(to: str) -> str:
        inside.set()
        go.wait(PATIENCE_S)
        paid.append(to)
        return to

    def say() -> Any:
        try:
            return slow("ann")
        except AlreadyDone as done:  # the first was over before the second began
            return done.result

    with ThreadPoolExecutor(2) as two:
        both = [two.submit(say) for _ in range(2)]
        assert inside.wait(PATIENCE_S)
        go.set()
    assert [one.result() for one in both] == ["ann", "ann"]
    assert paid == ["ann"]
    assert pay("bob", 1) == {"paid": 1}


def test_what_was_done_is_refused_reused_or_allowed(guard: FunctionGuard) -> None:
    paid: list[Any] = []
    pay = make_pay(guard, paid, ask=False)
    assert pay("ann", 5) == {"paid": 5}
    with pytest.raises(AlreadyDone) as done:
        pay(to="ann", amount=5)
    assert done.value.result == {"paid": 5}
    assert pay("ann", 6) == {"paid": 6}

    def add(name: str, repeat: Any) -> Any:
        @guard.tool(name, ask=False, repeat=repeat)
        def do(to: str) -> str:
            paid.append(to)
            return to

        return do

    reuse, allow, ask = add("a.reuse", "reuse"), add("a.allow", "allow"), add("a.ask", "ask")
    for one in (reuse, allow, ask):
        assert one("kim") == "kim"
    assert [reuse("kim"), allow("kim")] == ["kim", "kim"]
    with pytest.raises(Waiting, match="already done"):
        ask("kim")
    assert paid == [("ann", 5), ("ann", 6), "kim", "kim", "kim", "kim"]


def test_a_key_says_which_calls_are_the_same_deed(guard: FunctionGuard) -> None:
    paid: list[Any] = []

    @guard.tool("bank.pay", ask=False, key=lambda to, amount, invoice: invoice)
    def pay(to: str, amount: int, invoice: str) -> int:
        paid.append(invoice)
        return amount

    assert pay("ann", 5, "i1") == 5
    with pytest.raises(CallNotDone, match="used for another call"):
        pay("ann", 6, "i1")
    with pytest.raises(Refused, match="key"):
        pay("ann", 6, "")
    assert paid == ["i1"]


def test_waiting_raises_gives_a_ticket_or_blocks(guard: FunctionGuard) -> None:
    paid: list[Any] = []
    pay = make_pay(guard, paid)
    with pytest.raises(Waiting) as asked:
        pay("ann", 5)
    assert asked.value.question == "Pay 5 to ann?"
    assert asked.value.call == {"effect": "bank.pay", "input": {"to": "ann", "amount": 5}}
    ticket: Any = guard.options(pay, waiting="ticket")("ann", 5)
    assert isinstance(ticket, Ticket)
    assert ticket.run_id == asked.value.run_id, "the same call joins the one that is open"
    answer(guard, asked.value, approved=True)
    assert paid == []
    assert ticket.result() == {"paid": 5}
    assert paid == [("ann", 5)]
    assert guard.ticket(pay, ticket.run_id).result() == {"paid": 5}, "it is told again, and not made again"
    got: list[Any] = []
    blocked = threading.Thread(target=lambda: got.append(guard.options(pay, waiting="block")("bob", 1)))
    blocked.start()
    while True:
        with pytest.raises(Waiting) as joined:
            pay("bob", 1)
        break
    answer(guard, joined.value, approved=True)
    blocked.join(PATIENCE_S)
    assert got == [{"paid": 1}]


def test_an_answer_counts_once_and_a_no_is_the_end_of_the_call(guard: FunctionGuard) -> None:
    paid: list[Any] = []
    pay = make_pay(guard, paid)
    with pytest.raises(Waiting) as asked:
        pay("ann", 5)
    answer(guard, asked.value, approved=True)
    with pytest.raises(Refused):
        answer(guard, asked.value, approved=True)
    assert pay("ann", 5) == {"paid": 5}
    with pytest.raises(Waiting) as asked:
        pay("bob", 5)
    blocked = pytest.raises(Rejected, match="ann said no: too much")
    answer(guard, asked.value, approved=False, comment="too much")
    with blocked:
        guard.ticket(pay, asked.value.run_id).result()
    with pytest.raises(Waiting):
        pay("bob", 5)
    assert paid == [("ann", 5)]


def test_edited_arguments_are_what_the_function_gets(guard: FunctionGuard) -> None:
    paid: list[Any] = []
    pay = make_pay(guard, paid)
    with pytest.raises(Waiting) as asked:
        pay("ann", 500)
    answer(guard, asked.value, approved=True, args={"to": "ann", "amount": 50})
    assert pay("ann", 500) == {"paid": 50}
    assert paid == [("ann", 50)]


def test_an_exception_is_no_evidence_unless_the_function_says_so(guard: FunctionGuard) -> None:
    class TooMuch(Exception):
        pass

    @guard.tool("bank.pay", ask=False, harmless=(TooMuch,), settle_s=0.0)
    def pay(to: str, how: str) -> None:
        raise {"lost": ConnectionError("no answer"), "refused": TooMuch("no"), "none": detent.EffectFailed("no")}[how]

    with pytest.raises(InDoubt, match="ConnectionError: no answer") as doubt:
        pay("ann", "lost")
    assert isinstance(doubt.value.__cause__, ConnectionError)
    with pytest.raises(Waiting, match="may already have happened"):
        pay("ann", "lost")
    for _ in range(2):
        with pytest.raises(TooMuch):
            pay("ann", "refused")
        with pytest.raises(detent.EffectFailed):
            pay("ann", "none")

    @guard.tool("fetch", effect="idempotent")
    def fetch(what: str) -> None:
        raise LookupError(what)

    with pytest.raises(LookupError):
        fetch("x")


def test_a_call_with_an_id_is_that_call_and_no_other(guard: FunctionGuard) -> None:
    paid: list[Any] = []
    pay = make_pay(guard, paid, ask=False)
    first = guard.options(pay, session="s", call_id="c1")
    assert first("ann", 5) == first("ann", 5) == {"paid": 5}
    with pytest.raises(Refused, match="other arguments"):
        first("ann", 6)
    with pytest.raises(AlreadyDone):
        guard.options(pay, session="s", call_id="c2")("ann", 5)
    assert paid == [("ann", 5)]


async def test_async_functions_are_awaited_in_their_own_loop(guard: FunctionGuard) -> None:
    loops: list[Any] = []

    @guard.tool("look.up", effect="pure")
    async def look_up(what: str, depth: int = 2) -> str:
        loops.append(asyncio.get_running_loop())
        return what * depth

    assert await asyncio.gather(*(look_up(str(n)) for n in range(5))) == [str(n) * 2 for n in range(5)]
    assert set(loops) == {asyncio.get_running_loop()}

    @guard.tool("bank.pay", ask=True)
    async def pay(to: str) -> str:
        return to

    task = asyncio.ensure_future(guard.options(pay, waiting="block")("ann"))
    ticket: Any = await guard.options(pay, waiting="ticket")("ann")
    task.cancel()
    await asyncio.wait([task])
    host = guard.background.host
    done = guard.background.submit(host.answer(ticket.run_id, "call/call/1", {"approved": True}, by="ann"))
    await asyncio.wrap_future(done)
    assert await ticket == "ann"


def test_models_go_in_and_out(guard: FunctionGuard) -> None:
    class Invoice(msgspec.Struct):
        number: str
        amount: int

    @guard.tool("bank.settle", ask="Settle {invoice[number]}?")
    def settle(invoice: Invoice, note: str = "") -> Invoice:
        assert isinstance(invoice, Invoice)
        return Invoice(invoice.number, invoice.amount - 1)

    given = Invoice("i1", 5)
    with pytest.raises(Waiting, match="Settle i1") as asked:
        settle(given)
    answer(guard, asked.value, approved=True)
    assert guard.ticket(settle, asked.value.run_id).result() == Invoice("i1", 4)
    with pytest.raises(AlreadyDone) as done:
        guard.options(settle, waiting="block", session="another")(given)
    assert done.value.result == Invoice("i1", 4)
    assert find_tool(settle).schema["required"] == ["invoice"]
    assert find_tool(settle).schema["properties"]["note"] == {"type": "string", "default": ""}


def test_work_that_is_only_promised_is_not_done(guard: FunctionGuard) -> None:
    async def pay_later() -> None: ...

    class Teller:
        async def __call__(self, amount: int) -> int:
            return amount

    def promise_to_pay() -> Any:
        return pay_later()

    promise = guard.tool("bank.promise", ask=False)(promise_to_pay)
    with pytest.raises(InDoubt, match="yet to be done"):
        promise()
    teller = guard.tool("bank.teller", effect="pure")(Teller())
    assert asyncio.run(teller(3)) == 3


def test_arguments_of_a_model_reach_the_function_as_its_types_or_come_back(guard: FunctionGuard) -> None:
    pydantic = pytest.importorskip("pydantic")
    line: Any = pydantic.create_model("Line", to=(str, ...), amount=(int, ...))
    seen: list[Any] = []

    def settle(first: int, /, lines: Any, **more: Any) -> object:
        seen.append((first, lines, more))
        return object()

    settle.__annotations__["lines"] = list.__class_getitem__(line)
    guard.tool("bank.settle", ask=False)(settle)
    good = {"first": "1", "lines": [{"to": "ann", "amount": "5"}], "note": "x"}
    said = json.loads(guard.run_tool("bank_settle", good, call_id="c1"))
    assert said["status"] == "done", "a result that is no JSON is no failure"
    assert seen == [(1, [line(to="ann", amount=5)], {"note": "x"})]
    schema = guard.tools["bank.settle"].schema
    assert schema["additionalProperties"] is True
    assert schema["properties"]["lines"]["items"]["required"] == ["to", "amount"]
    for bad in ({**good, "first": "many"}, {**good, "lines": [{"to": "ann", "amount": "many"}]}, "[1]", "{a: 1}"):
        assert json.loads(guard.run_tool("bank_settle", bad, call_id="c2"))["status"] == "failed"
    assert len(seen) == 1


def test_arguments_that_were_edited_into_something_else_do_not_reach_the_function(guard: FunctionGuard) -> None:
    paid: list[Any] = []
    pay = make_pay(guard, paid)
    with pytest.raises(Waiting) as asked:
        pay("ann", 5)
    answer(guard, asked.value, approved=True, args={"to": "ann", "amount": 5.5})
    with pytest.raises(detent.EffectFailed, match="does not fit"):
        pay("ann", 5)
    assert paid == []


def test_the_policy_has_its_say(till: Till) -> None:
    till.home.parent.joinpath("detent.policy.yaml").write_text(
        "version: 1\nrules:\n"
        "  - name: small\n    tool: bank.pay\n    when: args.amount < 10\n    decision: allow\n"
        "  - name: never\n    tool: bank.pay\n    when: args.amount > 100\n    decision: deny\n"
    )
    paid: list[Any] = []
    with detent.guard(till.home, waiting="raise") as guard:
        pay = make_pay(guard, paid)
        assert pay("ann", 5) == {"paid": 5}
        with pytest.raises(Waiting):
            pay("ann", 50)
        with pytest.raises(Rejected, match="never"):
            pay("ann", 500)
    assert paid == [("ann", 5)]


def test_what_cannot_be_guarded_is_said(guard: FunctionGuard) -> None:
    with pytest.raises(DefinitionError, match="irreversible"):
        guard.tool("a", effect="harmless")  # type: ignore[arg-type]
    with pytest.raises(DefinitionError, match="name of a tool"):
        guard.tool("a b")
    make_pay(guard, [])
    with pytest.raises(DefinitionError, match="two tools"):
        make_pay(guard, [])
    with pytest.raises(DefinitionError, match="have names"):
        guard.tool("b")(lambda *args: None)
    with pytest.raises(DefinitionError, match="yields"):  # its body runs long after the call has "returned"
        guard.tool("d")(lambda: (yield 1))
    with pytest.raises(Refused, match="not guarded"):
        guard.options(print)
    with pytest.raises(Refused, match="'block'"):
        detent.guard(waiting="sleep")  # type: ignore[arg-type]

    @guard.tool("c", effect="pure")
    def take(what: Any) -> None: ...

    with pytest.raises(Refused, match="JSON"):
        take(object())
    with pytest.raises(TypeError):
        find_tool(take).wrap(CallOptions())()


def test_a_forked_process_opens_a_journal_of_its_own(guard: FunctionGuard) -> None:
    paid: list[Any] = []
    pay = make_pay(guard, paid, ask=False)
    assert pay("ann", 1) == {"paid": 1}
    child = os.fork()
    if not child:
        try:
            os._exit(0 if pay("ann", 2) == {"paid": 2} else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with pytest.raises(AlreadyDone):
        pay("ann", 2)


def test_a_plain_loop_describes_its_tools_and_makes_their_calls(guard: FunctionGuard) -> None:
    paid: list[Any] = []
    make_pay(guard, paid)
    (tool,) = guard.describe_tools("openai")
    assert tool["function"]["name"] == "bank_pay"
    assert tool["function"]["parameters"]["required"] == ["to", "amount"]
    assert guard.describe_tools("anthropic")[0]["input_schema"] == tool["function"]["parameters"]
    given = json.dumps({"to": "ann", "amount": 5})
    with pytest.raises(Waiting) as asked:
        guard.run_tool("bank_pay", given, call_id="c1")
    guard.answer(asked.value, {"approved": True}, by="ann")
    for _ in range(2):
        assert json.loads(guard.run_tool("bank_pay", given, call_id="c1")) == {"paid": 5}
    again = json.loads(guard.run_tool("bank_pay", given, call_id="c2"))
    assert (again["status"], again["result"]) == ("already_done", {"paid": 5})
    for name, bad in (("bank_pay", "{"), ("bank_pay", '{"whom": 1}'), ("bank_pay", "{}"), ("nothing", "{}")):
        assert json.loads(guard.run_tool(name, bad, call_id="c3"))["status"] == "failed"
    assert paid == [("ann", 5)]
