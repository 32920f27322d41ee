"""Servers, clients and copies of one database: all of them show the same runs and take the same answers."""

import asyncio
import json
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import Implementation

import detent
from detent.errors import AlreadyDone, Refused, Waiting
from tests.effort import PATIENCE_S
from tests.host.test_postgres import databases, server  # noqa: F401  # fixtures
from tests.postgres import find_programs, why_not
from tests.surfaces.command import Detent
from tests.surfaces.server.test_service import Process, process, until
from tests.surfaces.test_chat import INVITE, TOOLS
from tests.surfaces.test_many_machines import STEPS, Machines, machines, worker  # noqa: F401  # fixtures
from tests.surfaces.test_mcp import DETENT, YES, Person, call

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())


@contextmanager
def serve(machine: Detent) -> Iterator[Process]:
    (machine.folder / "steps.yaml").write_text(STEPS)
    with process(machine.folder, "steps.yaml", env=machine.env) as one:
        yield one


def follow(at: Process, run_id: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """What a server's stream says of a run, up to the end of the run."""
    with urllib.request.urlopen(f"{at.address}/api/runs/{run_id}/events", timeout=PATIENCE_S) as stream:  # noqa: S310
        kind = ""
        for line in stream:
            name, _, value = line.decode().strip().partition(": ")
            if name == "event":
                kind = value
            elif name == "data":
                yield kind, json.loads(value)
                if kind == "end":
                    return


def test_two_servers_in_front_of_one_database_show_the_same(machines: Machines) -> None:  # noqa: F811
    with serve(machines("one", DETENT_SLOTS="0")) as one, serve(machines("two", DETENT_SLOTS="0")) as two:
        begun = one.post("/api/runs", {"definition": "steps"})
        path = f"/api/runs/{begun['run_id']}"
        (lacking,) = until(lambda: two.get(path)["unserved"])
        assert (lacking["contract_id"], lacking["lack"]) == ("first/one/1", "local")
        assert "start one with `detent worker`" in lacking["problem"]
        with worker(machines("three"), "three"):
            until(lambda: two.get(path)["waiting"])
            assert "unserved" not in two.get(path), "it waits for a person, not for a worker"
            assert [item["run_id"] for item in two.get("/api/inbox")["items"]] == [begun["run_id"]]
            heard = follow(one, begun["run_id"])
            assert next(heard)[0] == "entry", "whoever follows on the one"
            two.post(f"{path}/contracts/asking/ask/1/answer", {"approved": True})
            *_, (last, _end) = heard
        assert last == "end", "hears what was answered on the other"
        assert [at.get(path)["status"] for at in (one, two)] == ["completed"] * 2
        assert one.get(f"{path}/verify") == two.get(f"{path}/verify")
    assert machines.log("three") == "1\n2\n"


async def test_an_mcp_client_has_its_user_decide_about_a_run_in_a_database(machines: Machines) -> None:  # noqa: F811
    front = machines("front")
    (front.folder / "steps.yaml").write_text(STEPS)
    parameters = StdioServerParameters(command=DETENT, args=["mcp"], cwd=front.folder, env=front.env)
    known = Implementation(name="tester", version="1")
    with (front.folder / "mcp.log").open("w") as log:  # the default is what stderr was at the import, closed since
        line = stdio_client(parameters, errlog=log)
        async with Client(line, elicitation_callback=Person(YES), client_info=known) as connected:
            begun = await call(connected, "run_start", workflow="steps.yaml", key="k1")
            assert (begun["status"], begun["state"]) == ("waiting", "asking")
            decision = await call(connected, "approval_request", run=begun["run_id"])
            assert (decision["answer"], decision["by"]) == ("approved", "mcp:tester")
            assert decision["run"]["status"] == "completed"
    assert front("show", begun["run_id"], "--json").json["status"] == "completed"
    assert machines.log("front") == "1\n2\n"


async def test_a_program_sees_the_database_and_a_guard_reaches_it_by_a_server(
    machines: Machines,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    front, paid = machines("front"), list[int]()
    monkeypatch.chdir(front.folder)
    with detent.guard(machines.address) as local:
        look = local.tool("bank.look", effect="pure")(lambda: 1)
        with pytest.raises(Refused, match="detent serve"):  # a file of this machine is no journal of all of them
            look()
    with serve(front) as one, detent.guard(one.address, waiting="raise") as guard:

        @guard.tool("bank.pay", settle_s=0.0)
        def pay(amount: int) -> int:
            paid.append(amount)
            return amount

        with pytest.raises(Waiting) as asked:
            await asyncio.to_thread(pay, 7)
        async with detent.open(machines.address) as host:
            assert [run.run_id for run in await host.list()] == [asked.value.run_id]
        front("approve", asked.value.run_id, code=3)
        assert await asyncio.to_thread(pay, 7) == 7
        with pytest.raises(AlreadyDone):
            await asyncio.to_thread(pay, 7)
    assert paid == [7]


def test_an_assistant_acts_once_in_a_database_and_every_machine_sees_it(machines: Machines) -> None:  # noqa: F811
    one, two = machines("one"), machines("two")
    (one.folder / "mail.py").write_text(TOOLS)
    turn = one("chat", "--session", "s", "--tools", "mail.py", "--json", INVITE, code=3).json
    assert two("show", turn["run_id"], "--json", code=None).json["status"] == "waiting"
    one("approve", turn["run_id"])
    again = one("chat", "--session", "t", "--tools", "mail.py", "--json", INVITE).json
    assert "already done" in again["response"]
    assert (one.folder / "sent").read_text() == "bob@example.com\n"
    assert two("log", turn["run_id"], "--verify").code == 0


@contextmanager
def restored(address: str, dump: str) -> Iterator[str]:
    """Another database, into which a dump was restored."""
    base, _, name = address.rpartition("/")
    with psycopg.connect(f"{base}/postgres", autocommit=True) as connection:
        connection.execute(f"create database {name}_restored")
        subprocess.run([find_programs() / "pg_restore", "-d", f"{address}_restored", dump], check=True)  # type: ignore[operator]
        try:
            yield f"{address}_restored"
        finally:
            connection.execute(f"drop database {name}_restored with (force)")


def test_a_dump_that_is_restored_asks_before_it_does_again_what_it_cannot_know(machines: Machines) -> None:  # noqa: F811
    one, dump = machines("one"), str(machines.folder / "dump")
    irreversible = STEPS.replace('"echo 2 >> log; test ! -e broken"]}, effect: idempotent', '"echo 2 >> log"]}, key: k')
    (one.folder / "steps.yaml").write_text(irreversible)
    run_id = one("run", "steps.yaml", code=3).run_id
    subprocess.run([find_programs() / "pg_dump", "-Fc", "-f", dump, machines.address], check=True)  # type: ignore[operator]
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
    one("approve", run_id)
    assert machines.log("one") == "1\n2\n", "done after the copy was made"
    with restored(machines.address, dump) as address:
        again = machines("one", DETENT_HOME=address)
        assert "epoch 2" in again("db", "restored", "--since", f"{since}Z").out
        assert "may have been done between" in again("approve", run_id, code=3).out
        assert machines.log("one") == "1\n2\n", "nothing is done a second time without a word"
        again("answer", run_id, "second/two/1", "--outcome", "use")
        assert again("show", run_id, "--json").json["status"] == "completed"
        assert "closed" in again("restore", "--close-gap").out
        assert again("log", run_id, "--verify").code == 0
    assert machines.log("one") == "1\n2\n"
