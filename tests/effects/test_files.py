"""The `files` effects against a real folder, links, pipes, and a killed writer."""

import asyncio
import base64
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from detent.core.contract import Contract
from detent.core.effect_type import Effect, EffectFailed, Outcome, StillRunning
from detent.effects.files import READ_BYTES_MAX, append, files, read, write


def contract(effect: Effect, created_at: float = 0.0, **given: Any) -> Contract:
    return Contract("a/b/1", "b", effect.name, input=given, key="files:x", created_at=created_at)


async def do(effect: Effect, **given: Any) -> dict[str, Any]:
    outcome = await effect.perform(contract(effect, **given))
    assert isinstance(outcome, Outcome)
    result: dict[str, Any] = outcome.result
    return result


async def refusal(effect: Effect, **given: Any) -> EffectFailed:
    with pytest.raises(EffectFailed) as caught:
        await effect.perform(contract(effect, **given))
    return caught.value


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder of a project."""
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    return project


async def test_what_is_written_can_be_read(folder: Path) -> None:
    assert await do(write, path="a.txt", text="grüß\n") == {"path": "a.txt", "bytes": 7, "success": True}
    expected = {"path": "a.txt", "bytes": 7, "success": True, "truncated": False, "text": "grüß\n"}
    assert await do(read, path="a.txt") == expected
    assert os.listdir(folder) == ["a.txt"]


async def test_values_and_bytes_and_encodings(folder: Path) -> None:
    value = {"b": [1, None, "ü"], "a": {}}
    await do(write, path="v.json", json=value)
    assert (await do(read, path="v.json", **{"as": "json"}))["json"] == value
    assert (folder / "v.json").read_text(encoding="utf-8").endswith("}\n")
    await do(write, path="b", base64=base64.b64encode(b"\xff\0").decode())
    assert (folder / "b").read_bytes() == b"\xff\0"
    assert (await do(read, path="b", **{"as": "base64"}))["base64"] == base64.b64encode(b"\xff\0").decode()
    await do(write, path="l", text="ü", encoding="latin-1")
    assert (folder / "l").read_bytes() == b"\xfc"
    assert (await do(read, path="l", encoding="latin-1"))["text"] == "ü"
    await do(write, path="empty", text="")
    assert (await do(read, path="empty"))["text"] == ""


async def test_appending_adds_lines(folder: Path) -> None:
    await do(append, path="log", text="one\n")
    await do(append, path="log", json={"n": 2})
    assert (folder / "log").read_text() == 'one\n{"n":2}\n'


async def test_one_effect_takes_the_same_words_as_op(folder: Path) -> None:
    await do(files, op="write", path="f", text="a")
    await do(files, op="append", path="f", text="b")
    assert (await do(files, op="read", path="f"))["text"] == "ab"
    assert "one of write, read, append" in str(await refusal(files, op="delete", path="f"))
    assert "needs `op`" in str(await refusal(files, path="f"))
    assert "knows no `text`" in str(await refusal(files, op="read", path="f", text="x"))


async def test_a_large_file_is_read_in_part_and_says_so(folder: Path) -> None:
    (folder / "big").write_bytes(b"x" * (READ_BYTES_MAX - 1) + "ü".encode() * 10)
    result = await do(read, path="big")
    assert result["truncated"]
    assert result["text"] == "x" * (READ_BYTES_MAX - 1)
    assert (result["bytes"], "1,048,576 of 1,048,595" in result["note"]) == (READ_BYTES_MAX + 19, True)
    assert "too large" in str(await refusal(read, path="big", **{"as": "json"}))


@pytest.mark.parametrize(
    ("effect", "given", "problem"),
    [
        (write, {"text": "x"}, "needs `path`"),
        (write, {"path": "", "text": "x"}, "name a file"),
        (write, {"path": "a\0b", "text": "x"}, "name a file"),
        (write, {"path": "a"}, "exactly one of"),
        (write, {"path": "a", "text": "x", "json": 1}, "exactly one of"),
        (write, {"path": "a", "text": "漢", "encoding": "ascii"}, "cannot be written"),
        (write, {"path": "a", "text": "x", "encoding": "no-such"}, "cannot be written"),
        (write, {"path": "a", "base64": "***"}, "cannot be written"),
        (write, {"path": "a", "text": 5}, "must be text"),
        (write, {"path": "a", "text": "x", "root": "nowhere"}, "there is no folder"),
        (write, {"path": "no/such/a", "text": "x"}, "parents: true"),
        (append, {"path": "no/such/a", "text": "x"}, "parents: true"),
        (write, {"path": ".", "text": "x"}, "is a folder"),
        (read, {"path": "."}, "is a folder"),
        (append, {"path": ".", "text": "x"}, "is a folder"),
        (write, {"path": "../a", "text": "x"}, "leads out of"),
        (write, {"path": "/etc/hostname", "text": "x"}, "leads out of"),
        (read, {"path": "/etc/passwd"}, "leads out of"),
        (read, {"path": "x/../../../etc/passwd"}, "leads out of"),
        (read, {"path": "a", "as": "xml"}, "one of text, json, base64"),
    ],
)
async def test_what_cannot_be_meant_is_refused(
    folder: Path, effect: Effect, given: dict[str, Any], problem: str
) -> None:
    error = await refusal(effect, **given)
    assert error.type == "validation_error"
    assert problem in str(error)
    assert os.listdir(folder) == []


async def test_a_file_that_is_not_there_is_not_found(folder: Path) -> None:
    assert (await refusal(read, path="nothing")).type == "tool_failure.not_found"


async def test_a_file_that_is_no_text_says_how_to_read_it(folder: Path) -> None:
    (folder / "b").write_bytes(b"\xff")
    assert "as: base64" in str(await refusal(read, path="b"))
    assert "is not JSON" in str(await refusal(read, path="b", **{"as": "json"}))


async def test_links_are_followed_but_not_outside(folder: Path) -> None:
    outside = folder.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_text("s")
    (folder / "link").symlink_to(outside)
    (folder / "file").symlink_to(outside / "secret")
    (folder / "dangling").symlink_to(outside / "new")
    (folder / "loop").symlink_to(folder / "loop")
    for path in ("link/secret", "file"):
        assert "leads out of" in str(await refusal(read, path=path))
    for effect in (write, append):
        for path in ("link/new", "file", "dangling"):
            assert "leads out of" in str(await refusal(effect, path=path, text="x"))
    assert isinstance(await refusal(read, path="loop"), EffectFailed)
    assert os.listdir(outside) == ["secret"]
    assert (await do(read, path="file", anywhere=True))["text"] == "s"


async def test_a_link_inside_stays_a_link_and_its_file_is_replaced(folder: Path) -> None:
    (folder / "real").write_text("old")
    (folder / "link").symlink_to("real")
    await do(write, path="link", text="new")
    assert (folder / "link").is_symlink()
    assert (folder / "real").read_text() == "new"


async def test_another_root_bounds_the_path(folder: Path) -> None:
    (folder / "out").mkdir()
    await do(write, root="out", path="a", text="x")
    assert (folder / "out" / "a").read_text() == "x"
    assert "leads out of" in str(await refusal(write, root="out", path="../b", text="x"))
    await do(write, path=str(folder.parent / "free"), text="x", anywhere=True)
    await do(write, path=str(folder / "absolute but inside"), text="x")


async def test_missing_folders_are_made_when_asked(folder: Path) -> None:
    await do(write, path="a/b/c.txt", text="x", parents=True)
    await do(append, path="a/d/log", text="x", parents=True)
    assert (folder / "a/b/c.txt").read_text() == (folder / "a/d/log").read_text() == "x"


async def test_the_permissions_of_a_replaced_file_stay(folder: Path) -> None:
    (folder / "tool").write_text("old")
    (folder / "tool").chmod(0o750)
    await do(write, path="tool", text="new")
    assert (folder / "tool").stat().st_mode & 0o777 == 0o750


async def test_a_file_in_the_place_of_a_folder_is_an_error_of_the_system(folder: Path) -> None:
    (folder / "f").write_text("x")
    assert (await refusal(write, path="f/g", text="x", parents=True)).type == "tool_failure"
    assert (folder / "f").read_text() == "x"


async def test_a_forbidden_folder_is_a_failure_of_the_tool(folder: Path) -> None:
    closed = Path("/sys/kernel")  # where even root may not make a file
    if os.geteuid() != 0:
        closed = folder / "closed"
        closed.mkdir(0o500)
    for effect in (write, append):
        error = await refusal(effect, path=str(closed / "file"), text="x", anywhere=True)
        assert error.type == "tool_failure"
        assert str(closed) in str(error)


async def test_a_pipe_or_a_device_is_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    assert isinstance(await refusal(read, path="pipe"), EffectFailed)
    assert isinstance(await refusal(append, path="pipe", text="x"), EffectFailed)
    assert "not an ordinary file" in str(await refusal(read, path="/dev/zero", anywhere=True))


WRITER = """
import asyncio, sys
from detent.core.contract import Contract
from detent.effects.files import write
async def main():
    for round in range(10**6):
        letter = "ab"[round % 2]
        await write.perform(Contract("a", "b", "files.write", input={"path": "file", "text": letter * 300_000}))
        print(round, flush=True)
asyncio.run(main())
"""


def test_a_killed_writer_leaves_the_old_file_or_the_new_one(folder: Path) -> None:
    (folder / "file").write_text("b" * 300_000)
    env = {"PYTHONPATH": ":".join(sys.path)}
    for kill in range(20):
        with subprocess.Popen([sys.executable, "-c", WRITER], env=env, stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            for _ in range(kill % 4 + 1):
                assert writer.stdout.readline()
            until = time.perf_counter() + kill * 0.0004  # another moment of the next write each time
            while time.perf_counter() < until:
                pass
            writer.kill()
        assert (folder / "file").read_text() in ("a" * 300_000, "b" * 300_000)


async def probe(effect: Effect, created_at: float = 0.0, **given: Any) -> Outcome | None:
    assert effect.reconcile is not None
    return await effect.reconcile(contract(effect, created_at, **given))


@pytest.mark.parametrize(("effect", "op"), [(append, {}), (files, {"op": "append"})])
async def test_an_interrupted_append_is_judged_by_the_file(folder: Path, effect: Effect, op: dict[str, str]) -> None:
    given: dict[str, Any] = {**op, "path": "log", "text": "paid 42\n"}
    begun = time.time()
    with pytest.raises(EffectFailed):
        await probe(effect, begun, **given)  # there is no file: it did not happen

    (folder / "log").write_text("older\n")
    os.utime(folder / "log", (begun - 60, begun - 60))
    with pytest.raises(EffectFailed, match="last changed before"):
        await probe(effect, begun, **given)

    done = await effect.perform(contract(effect, begun, **given))
    assert await probe(effect, begun, **given) == done

    (folder / "log").write_text("older\npaid 42\nsomebody else\n")
    assert await probe(effect, begun, **given) is None
    (folder / "log").write_text("older\npaid")
    assert await probe(effect, begun, **given) is None

    (folder / "log").write_text("paid 42\n")  # it always ended so: no evidence either way
    os.utime(folder / "log", (begun - 60, begun - 60))
    assert await probe(effect, begun, **given) is None


async def test_an_interrupted_write_is_judged_by_the_file(folder: Path) -> None:
    given: dict[str, Any] = {"op": "write", "path": "f", "text": "new"}
    (folder / "f").write_text("brand new")
    assert await probe(files, time.time(), **given) is None
    done = await files.perform(contract(files, **given))
    assert await probe(files, time.time(), **given) == done
    with pytest.raises(EffectFailed, match="changes nothing"):
        await probe(files, op="read", path="f")


async def test_a_file_that_cannot_be_looked_into_is_no_evidence(folder: Path) -> None:
    (folder / "f").write_text("x")
    assert await probe(append, time.time(), path="f/g", text="x") is None


def test_the_word_decides_what_kind_of_deed_it_is() -> None:
    kinds = {op: files.declared.kind_of({"op": op}) for op in ("read", "write", "append", "shred")}
    assert kinds == {"read": "pure", "write": "idempotent", "append": "irreversible", "shred": "irreversible"}
    assert files.declared.kind_of({}) == "irreversible"


async def test_an_append_that_is_given_up_goes_on_and_says_late_that_it_was_done(folder: Path) -> None:
    size = 50_000_000
    task = asyncio.create_task(do(append, path="log", text="x" * size))
    await asyncio.sleep(0)  # it is with its thread
    task.cancel()
    with pytest.raises(StillRunning, match=r"files\.append") as caught:
        await task
    late = await caught.value.outcome
    assert late == Outcome({"path": "log", "bytes": size, "success": True})
    assert (folder / "log").stat().st_size == size


async def test_an_append_that_fails_late_says_that_too(folder: Path) -> None:
    task = asyncio.create_task(do(append, path="nowhere/log", text="x"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(StillRunning) as caught:
        await task
    with pytest.raises(EffectFailed, match="parents"):
        await caught.value.outcome


FULL = """
import asyncio, resource, sys
from detent.core import Contract, EffectFailed
from detent.effects.files import append
from detent.effects.notify import notify

TOLD = ((append, {"path": "log", "text": "x" * 60}), (notify, {"outbox": "box", "message": "x" * 60}))

async def main():
    for effect, given in TOLD:
        for key in ("one", "two"):
            try:
                await effect.perform(Contract("a/b/1", "b", effect.name, input=given, key=key))
            except EffectFailed as error:
                print(effect.name, key, error)

resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
asyncio.run(main())
"""


def test_what_does_not_fit_on_the_disk_is_taken_back_and_only_then_nothing_happened(folder: Path) -> None:
    env = {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", FULL], capture_output=True, text=True, check=True, env=env)
    assert [line.split(" ")[:2] for line in done.stdout.splitlines()] == [["files.append", "two"], ["notify", "two"]]
    assert (folder / "log").read_text() == "x" * 60
    (line,) = (folder / "box").read_text().splitlines()
    assert json.loads(line)["key"] == "one"
