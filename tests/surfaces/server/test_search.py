"""Finding runs: by words in any language, by attributes, with an index that can be lost."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

import detent
from detent.core.status import Status
from detent.define import load
from detent.errors import DefinitionError
from detent.kit.run_index import FILE, RunFilter, RunIndex
from tests.surfaces.command import Detent
from tests.surfaces.server.stage import Stage, stage

ORDER = """\
name: order
input: {customer: string, amount: number, note: string}
attributes:
  customer: "{{ context.customer }}"
  amount: "{{ context.amount }}"
  large: "{{ context.amount > 100 }}"
  missing: "{{ context.nothing.here }}"
  parts: "{{ context }}"
states:
  check: {type: initial}
  large:
    actions:
      - {id: sign, tool: ask, approval: {question: "Deliver to {{ context.customer }}?"}}
  sent: {type: final}
transitions:
  - {from: check, to: large, condition: "{{ context.amount > 100 }}"}
  - {from: check, to: sent}
  - {from: large, to: sent}
output: {receipt: "R-{{ context.amount }}-{{ context.customer }}"}
"""
GIVEN: tuple[dict[str, Any], ...] = (
    {"customer": "Nordwind", "amount": 50, "note": "left at the door"},
    {"customer": "北京钟表厂", "amount": 300, "note": "易碎"},
    {"customer": "Ferris & Co", "amount": 120, "note": "100% cotton, 5_5"},
)


async def ordered(at: Stage) -> list[str]:
    return [await at.start("order", **given) for given in GIVEN]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "order.yaml").write_text(ORDER)
    return tmp_path


async def test_runs_are_found_by_words_and_by_what_holds_for_them(folder: Path) -> None:
    async with stage(folder) as at:
        one, two, three = await ordered(at)
        await at.until(one, "completed")
        for asked, meant in (
            ({"text": "door"}, [one]),
            ({"text": "OOR nordw"}, [one]),
            ({"text": "钟表"}, [two]),  # two letters: no trigram
            ({"text": "北京钟"}, [two]),
            ({"text": "0%"}, [three]),
            ({"text": "5_5"}, [three]),
            ({"text": "R-50-Nord"}, [one]),  # of the output
            ({"text": "Deliver Ferris"}, [three]),  # of the question
            ({"text": "nobody"}, []),
            ({"text": 'a"b\0c* NOT ('}, []),
            ({"where": "customer == 'Nordwind'"}, [one]),
            ({"where": "large and status == 'waiting'"}, [three, two]),
            ({"where": "attributes.amount > 100 and amount < 200"}, [three]),
            ({"where": "amount > 100", "text": "钟"}, [two]),
            ({"where": "missing == 1"}, []),
            ({"sort": "-amount"}, [two, three, one]),
            ({"sort": "amount", "limit": 2, "offset": 1}, [three, two]),
        ):
            found = await at.get("/api/search", params=asked)
            assert [line["run"]["run_id"] for line in found["found"]] == meant, asked
        assert found["total"] == 3
        assert found["found"][0]["attributes"] == {"customer": "Ferris & Co", "amount": 120, "large": True}
        refused = await at.get("/api/search", params={"where": "customer =="}, status=422)
        assert "where" in refused["error"]["message"]


async def test_one_thing_is_done_to_many_runs_after_a_look(folder: Path) -> None:
    async with stage(folder) as at:
        one, two, three = await ordered(at)
        await at.until(one, "completed")
        body = {"verb": "cancel", "where": "machine == 'order'", "reason": "sold out", "by": "ann"}
        seen = await at.post("/api/bulk", {**body, "preview": True})
        assert {line["run_id"]: line.get("problem", "") for line in seen["runs"]} == {
            three: "", two: "", one: "`cancel` makes no sense for it now",
        }  # fmt: skip
        assert (seen["done"], seen["matching"]) == (0, 3)
        assert (await at.get(f"/api/runs/{two}"))["status"] == "waiting"
        assert (await at.post("/api/bulk", body))["done"] == 2
        for run_id in (two, three):
            run = await at.get(f"/api/runs/{run_id}")
            assert run["status"] == "cancelled"
            assert "sold out" in str((await at.get(f"/api/runs/{run_id}/log"))["entries"][-1])
        count = await at.start("count")
        told = {"verb": "signal", "runs": [count, two], "signal": "TICK", "key": "k1"}
        for done in (1, 1):  # the same key twice: it counts once
            assert (await at.post("/api/bulk", told))["done"] == done
        assert (await at.get(f"/api/runs/{count}"))["seq"] == 2
        await at.post("/api/bulk", {"verb": "cancel"}, 422)


async def test_an_index_that_is_lost_damaged_or_of_another_journal_is_made_anew(folder: Path) -> None:
    async with stage(folder) as at:
        (one, *_rest) = await ordered(at)
        await at.until(one, "completed")
        file = folder / ".detent" / FILE
        for harm in (file.unlink, lambda: file.write_bytes(b"no database at all" * 400), lambda: None):
            assert (await at.get("/api/search", params={"text": "door"}))["total"] == 1
            assert file.stat().st_mode & 0o077 == 0
            harm()
        assert (await at.get("/api/search", params={"text": "door"}))["total"] == 1


async def test_what_is_found_is_what_is_there_whenever_somebody_looks(tmp_path: Path) -> None:
    """Against a reader that goes through everything."""
    chance = random.Random(3)
    (tmp_path / "order.yaml").write_text(ORDER)
    machine = load(str(tmp_path / "order.yaml")).machine
    home = tmp_path / ".detent"
    async with detent.open(home) as host:
        truth: dict[str, int] = {}
        for _ in range(12):
            for _ in range(chance.randrange(4)):
                amount = chance.randrange(90, 130)
                run = await host.start(machine, {"customer": "kim", "amount": amount, "note": "x"})
                truth[run.id] = amount
            for summary in host.reader.waiting():
                if chance.random() < 0.3:
                    await host.answer(summary.run_id, "large/sign/1", {"approved": True})
            index = RunIndex(host.reader, home)
            found = index.search(RunFilter(where="amount >= 110", limit=500))
            assert {one.summary.run_id for one in found.runs} == {
                name for name, amount in truth.items() if amount >= 110
            }
            ended = index.search(RunFilter(text="R-1", limit=500))
            assert {one.summary.run_id for one in ended.runs} == {
                name
                for name, amount in truth.items()
                if amount >= 100 and (await host.show(name)).status is Status.COMPLETED
            }


def test_the_command_lists_what_fits_with_its_attributes(folder: Path) -> None:
    run = Detent(folder)
    for given in GIVEN[:2]:
        words = [f"--set={name}={value}" for name, value in given.items()]
        run("run", "order.yaml", *words, code=0 if given["amount"] < 100 else 3)
    said = run("list", "--where", "amount > 100").out
    assert "北京钟表厂" in said
    assert "Nordwind" not in said
    found = run("list", "--text", "door", "--sort", "-amount", "--json").json
    assert [one["attributes"]["customer"] for one in found["runs"]] == ["Nordwind"]
    assert run("list", "--where", "amount >", code=2).err


@pytest.mark.parametrize(
    ("attributes", "problem"),
    [
        ({f"a{n}": "x" for n in range(17)}, "at most 16"),
        ({"two words": "x"}, "one word"),
        ({"bad": "{{ context. }}"}, "expected name"),
    ],
)
def test_attributes_that_cannot_be_are_refused_when_the_machine_is_made(
    attributes: dict[str, str], problem: str
) -> None:
    with pytest.raises(DefinitionError, match=problem):
        detent.Machine("m", "a", detent.table("a GO b"), ends={"b": Status.COMPLETED}, attributes=attributes)


async def test_many_runs_go_on_under_another_definition(folder: Path) -> None:
    async with stage(folder) as at:
        _one, two, three = await ordered(at)
        (folder / "newer.yaml").write_text(ORDER.replace("Deliver to", "Bring it to"))
        (folder / "other.yaml").write_text(
            ORDER.replace("large:\n    actions", "big:\n    actions").replace("large}", "big}")
        )
        body = {"verb": "migrate", "where": "status == 'waiting'", "definition": "newer.yaml"}
        seen = await at.post("/api/bulk", {**body, "preview": True})
        assert [line.get("problem", "") for line in seen["runs"]] == ["", ""]
        assert (await at.post("/api/bulk", body))["done"] == 2
        digests = {(await at.get(f"/api/runs/{run_id}"))["digest"] for run_id in (two, three)}
        assert len(digests) == 1
        seen = await at.post("/api/bulk", {**body, "preview": True})
        assert {line["problem"] for line in seen["runs"]} == {"it is on this definition already"}
        await at.post("/api/bulk", {**body, "definition": ""}, 422)
        await at.post("/api/bulk", {**body, "verb": "settle"}, 422)
        seen = await at.post("/api/bulk", {**body, "verb": "settle", "outcome": "happened", "preview": True})
        assert {line["problem"] for line in seen["runs"]} == {"it has no open doubt"}
        answer = await at.client.post("/api/bulk", json={"verb": "cancel"}, headers={"accept-language": "zh-CN"})
        assert "指明" in answer.json()["error"]["message"]


def test_the_command_shows_first_and_then_does(tmp_path: Path) -> None:
    detent = Detent(tmp_path)
    (tmp_path / "order.yaml").write_text(ORDER)
    for given in GIVEN[1:]:
        detent("run", "order.yaml", "--input", json.dumps(given), code=3)
    seen = detent("bulk", "cancel", "--where", "amount > 200", "--json").json
    assert (seen["is_preview"], seen["matching"], seen["done"]) == (True, 1, 0)
    assert "--yes" in detent("bulk", "cancel", "--where", "amount > 200").out
    assert (
        detent("bulk", "cancel", "--where", "amount > 200", "--reason", "too much", "--yes", "--json").json["done"] == 1
    )
    left = detent("list", "--where", "status == 'waiting'", "--json").json["runs"]
    assert [one["attributes"]["amount"] for one in left] == [120]
    refused = detent("bulk", "cancel", code=None)
    assert refused.code == 2
    assert "--where" in refused.err
    assert "--signal" in detent("bulk", "signal", "--where", "true", code=2).err


async def test_a_dry_run_before_the_start_touches_nothing(folder: Path) -> None:
    async with stage(folder) as at:
        body = {"definition": "order.yaml", "input": dict(GIVEN[1])}
        found = await at.post("/api/rehearsals", body)
        assert (found["state"], found["status"]) == ("sent", "completed")
        assert [step["kind"] for step in found["steps"]] == ["state", "state", "ask", "state"]
        assert (await at.get("/api/runs"))["runs"] == []
        await at.post("/api/rehearsals", {"definition": "order.yaml", "input": {"amount": "much"}}, 422)
        await at.post("/api/rehearsals", {"definition": "nothing"}, 404)
