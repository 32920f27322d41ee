"""Secrets reach the effect and nothing else."""

import json
import urllib.parse
from pathlib import Path
from typing import Any

import pytest

from detent.core import Action, Contract, EffectFailed, Outcome, OutcomeUnknown, Question, Status, effect
from detent.host.embedded import EmbeddedHost
from detent.testing import World, simulate
from detent.testing.conformance import Outside, one, until
from detent.testing.conformance.fixtures import as_data

VALUE = 'hunter2 "quoted" + more/äöü\\n'
REFERENCE = {
    "headers": {"Authorization": {"secret": "TEST_TOKEN", "prefix": "Bearer "}},
    "list": [{"secret": "TEST_TOKEN"}],
}


@pytest.fixture(autouse=True)
def _token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_TOKEN", VALUE)


def assert_not_kept(home: Path) -> None:
    """Look for the value, as text and in the forms it may take, in every byte of the home."""
    forms = {
        VALUE,
        json.dumps(VALUE)[1:-1],
        json.dumps(VALUE, ensure_ascii=False)[1:-1],
        urllib.parse.quote(VALUE, safe=""),
    }
    for file in home.iterdir():
        if file.is_file():
            kept = file.read_bytes()
            assert b"hunter2" not in kept, file
            assert not [form for form in forms if form.encode() in kept]


def telling(what: str) -> Any:
    """Effects that cannot keep a secret."""

    async def perform(contract: Contract) -> Any:
        got = contract.input["headers"]["Authorization"]
        assert got == f"Bearer {VALUE}"
        assert contract.input["list"] == [VALUE]
        match what:
            case "result":
                return {"echo": contract.input, got: [got], "quoted": urllib.parse.quote(VALUE, safe="")}
            case "patch":
                return Outcome({}, patch={"seen": got})
            case "question":
                return Outcome(question=Question(f"May I send {got}?", data={"call": contract.input}))
            case "failure":
                raise EffectFailed(f"401 for {got}", result={"sent": got})
            case "exception":
                raise ValueError(contract.input)
            case _:
                raise OutcomeUnknown(got)

    return perform


@pytest.mark.parametrize("what", ["result", "patch", "question", "failure", "exception", "silence"])
async def test_a_secret_is_never_kept(what: str, tmp_path: Path) -> None:
    tell = effect("tell", settle_s=0.0)(telling(what))
    async with EmbeddedHost(tmp_path, [tell], sync="off", grace_s=0.0) as host:
        run = await host.settled((await host.start(one(Action("a", "tell", REFERENCE)))).id)
        assert "hunter2" not in repr(run)
        assert run.ended is not None or run.waiting
        assert_not_kept(tmp_path)
    assert_not_kept(tmp_path)


async def test_a_missing_secret_is_a_clear_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TEST_TOKEN")
    async with EmbeddedHost(tmp_path, [effect("tell")(telling("result"))], sync="off") as host:
        run = await host.settled((await host.start(one(Action("a", "tell", REFERENCE)))).id)
        assert run.error is not None
        assert (run.status, run.error.type) == (Status.FAILED, "validation_error")
        assert "TEST_TOKEN" in run.error.message


async def test_words_in_data_that_look_like_a_secret_stay_data(tmp_path: Path) -> None:
    """What a model or a caller says must not read this process's environment."""
    outside = Outside()
    machine = one(Action("a", "do", {"said": "{{ context.said }}"}))
    async with EmbeddedHost(tmp_path, [outside.effect(kind="idempotent")], sync="off") as host:
        await host.settled((await host.start(machine, {"said": {"secret": "TEST_TOKEN"}})).id)
        assert outside.deeds[0].input == {"said": {"secret": "TEST_TOKEN"}}


async def test_a_secret_in_a_child_machine_is_resolved_in_the_child_only(tmp_path: Path) -> None:
    seen: list[Any] = []

    async def perform(contract: Contract) -> dict[str, Any]:
        seen.append(contract.input)
        return {}

    child = one(Action("a", "tell", {"token": {"secret": "TEST_TOKEN"}}), name="child")
    parent = one(Action("sub", "child", {"machine": as_data(child), "input": {}}))
    async with EmbeddedHost(tmp_path, [effect("tell", kind="idempotent")(perform)], sync="off") as host:
        run = await host.start(parent)
        run = await until(host, run.id, lambda run: run.ended is not None)
        assert (run.status, seen) == (Status.COMPLETED, [{"token": VALUE}])
        assert_not_kept(tmp_path)


@pytest.mark.parametrize("is_set", [True, False])
def test_a_probe_without_its_secret_is_no_evidence(is_set: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def perform(contract: Contract) -> Outcome:
        monkeypatch.delenv("TEST_TOKEN")
        if is_set:
            monkeypatch.setenv("TEST_TOKEN", VALUE)
        raise OutcomeUnknown("lost")

    async def probe(contract: Contract) -> Outcome | None:
        raise EffectFailed(f"nothing of {contract.input['token']}")

    async def story() -> None:
        world.effects["pay"] = effect("pay", settle_s=0.0, reconcile=probe)(perform)
        async with world.host() as host:
            machine = one(Action("a", "pay", {"token": {"secret": "TEST_TOKEN"}}))
            run = await host.settled((await host.start(machine)).id)
            if is_set:
                assert run.status is Status.FAILED
                assert "hunter2" not in repr(run)
            else:
                assert run.waiting, "without its secret the probe could not look, and that is not a no"

    with World() as world:
        simulate(story())
        assert_not_kept(world.home)
