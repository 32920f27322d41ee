"""`detent.open`: a host for everybody, and a sentence for whoever holds it wrong."""

import asyncio
import re
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import detent
from detent import Action, Contract, Machine, Question, effect, table
from detent.errors import DefinitionError, DetentError, Refused, Unknown


@effect("mail.send")
async def send(contract: Contract) -> dict[str, Any]:
    outbox = Path(contract.input["outbox"])
    outbox.write_text((outbox.read_text() if outbox.exists() else "") + "sent\n")
    return {"sent": True}


MAIL = Machine(
    name="mail",
    initial="sending",
    transitions=table("sending - sent"),
    work={"sending": [Action("send", "mail.send", {"outbox": "{{ context.outbox }}"}, ask=Question("Send it?"))]},
    ends={"sent": "completed"},
)
LISTING = Machine(
    name="listing",
    initial="looking",
    transitions=table("looking - done"),
    work={"looking": [Action("look", "shell", {"argv": ["true"]}, kind="pure")]},
    ends={"done": "completed"},
)


@pytest.mark.parametrize("kind", [str, Path])
async def test_a_home_is_a_text_or_a_path_and_built_in_effects_are_there(
    kind: Callable[[Path], str | Path], tmp_path: Path
) -> None:
    async with detent.open(home=kind(tmp_path / "home")) as host:
        run = await host.settled((await host.start(LISTING)).id)
        assert run.status == "completed"
        assert [one.run_id for one in await host.list()] == [run.id]
        assert [entry.run.state async for entry in host.watch(run.id)][-1] == "done"


async def test_the_home_is_the_command_lines_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DETENT_HOME", raising=False)
    async with detent.open():
        assert (tmp_path / ".detent" / "journal.db").exists()
    monkeypatch.setenv("DETENT_HOME", str(tmp_path / "other"))
    async with detent.open():
        assert (tmp_path / "other" / "journal.db").exists()


async def test_another_terminal_approves_while_the_program_holds_the_journal(tmp_path: Path) -> None:
    home, outbox = tmp_path / "home", tmp_path / "outbox.txt"
    async with detent.open(home, [send]) as host:
        run = await host.start(MAIL, {"outbox": str(outbox)})
        await host.settled(run.id)
        detent_command = Path(sys.executable).with_name("detent")
        other = await asyncio.create_subprocess_exec(detent_command, "--home", home, "approve", run.id)
        assert await other.wait() == 0
        assert (await host.settled(run.id)).status == "completed"
    assert outbox.read_text(encoding="utf-8") == "sent\n"


async def test_a_second_host_sees_and_moves_what_the_first_drives(tmp_path: Path) -> None:
    async with detent.open(tmp_path, [send]) as first, detent.open(tmp_path) as second:
        run = await second.start(MAIL, {"outbox": str(tmp_path / "outbox.txt")})
        run = await second.settled(run.id)
        saved = await second.checkpoint(run.id)
        assert saved == await first.checkpoint(run.id)
        assert [one.run_id for one in await second.list(status=[run.status])] == [run.id]
        await second.answer(run.id, run.waiting[0].id, {"approved": True})
        states = [entry.run.state async for entry in second.watch(run.id)]
        assert states == [entry.run.state async for entry in first.watch(run.id)]
        assert (await second.show(run.id)).state == states[-1] == "sent"


async def test_the_policy_beside_the_home_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DETENT_POLICY", raising=False)
    rules = "rules: [{name: no-mail, tool: mail.send, decision: deny}]"
    (tmp_path / "detent.policy.yaml").write_text(rules, encoding="utf-8")
    async with detent.open(tmp_path / "home", [send]) as host:
        run = await host.start(MAIL, {"outbox": str(tmp_path / "outbox.txt")})
        assert (await host.settled(run.id)).status == "rejected"


async def test_a_host_that_is_not_open_says_so(tmp_path: Path) -> None:
    host = detent.open(tmp_path)
    verbs: list[Awaitable[object]] = [host.start(LISTING), host.show("r"), host.list(), anext(host.watch("r"))]
    for verb in verbs:
        with pytest.raises(Refused, match=r"not open yet; use it inside `async with"):
            await verb
    async with host:
        pass
    with pytest.raises(DetentError, match="this host is closed"):
        await host.start(LISTING)
    with pytest.raises(Refused, match="cannot be opened again"):
        await host.open()


def undeclared(contract: Contract) -> None:
    """Somebody forgot `@effect`."""


@pytest.mark.parametrize(
    ("given", "error", "sentence"),
    [
        ({"home": 3}, Refused, "home is 3; it must be the path of a folder"),
        ({"home": ""}, Refused, "home is ''; it must be the path of a folder"),
        ({"effects": 3}, Refused, "effects is 3; it must be a list of effects"),
        ({"effects": "shell"}, Refused, "effects is 'shell'; it must be a list"),
        ({"effects": send}, Refused, "effects is the effect `mail.send`; it must be a list"),
        (
            {"effects": [undeclared]},
            DefinitionError,
            "the function undeclared is not an effect; declare it with @effect",
        ),
        ({"effects": [{}]}, DefinitionError, "{} is not an effect"),
        ({"effects": [send, effect("mail.send")(undeclared)]}, DefinitionError, "two effects are called `mail.send`"),
        ({"policy": 3}, Refused, "policy is 3; it must be a Policy or the path of a policy file"),
        ({"policy": "missing.yaml"}, DefinitionError, "missing.yaml"),
        ({"notify": "pigeon"}, DefinitionError, "there is no effect `pigeon`"),
    ],
)
def test_what_cannot_be_opened_is_said_in_a_sentence(
    given: dict[str, Any], error: type[Exception], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=re.escape(sentence)):
        detent.open(**({"home": tmp_path} | given))


def test_a_file_is_no_home(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(Refused, match="is not a folder, so it cannot be a home"):
        detent.open(tmp_path / "file")


async def test_a_verb_held_wrong_is_answered_in_a_sentence(tmp_path: Path) -> None:
    async with detent.open(tmp_path) as open_host:
        host: Any = open_host  # somebody who does not check types
        wrong: list[tuple[Awaitable[object], type[Exception], str]] = [
            (host.start({"name": "mail"}), Refused, "it must be a Machine"),
            (host.start("mail.yaml"), Refused, "`detent.define.load(FILE).machine`"),
            (host.start(LISTING, 3), Refused, "input is 3; it must be a mapping"),
            (host.start(LISTING, run_id=3), Refused, "run_id is 3; it must be the id of a run"),
            (host.start(MAIL, {"outbox": ""}), Unknown, "there is no effect `mail.send`"),
            (host.show(None), Refused, "run_id is None; it must be the id of a run"),
            (host.signal("nobody", "x"), Unknown, "there is no run nobody"),
            (host.signal("nobody", 3), Refused, "name is 3; it must be the name of a signal"),
            (host.answer("nobody", "x", True), Refused, "answer is True; it must be a mapping"),
        ]
        for verb, error, sentence in wrong:
            with pytest.raises(error, match=re.escape(sentence)):
                await verb


async def test_a_value_that_is_long_is_named_by_its_type(tmp_path: Path) -> None:
    async with detent.open(tmp_path) as open_host:
        host: Any = open_host
        run = await host.start(LISTING)
        with pytest.raises(Refused, match="run_id is a Run; it must be the id of a run"):
            await host.show(run)


def test_a_wrong_name_is_answered_with_the_right_one(tmp_path: Path) -> None:
    host = detent.open(tmp_path)
    for place, name, sentence in (
        (detent, "opn", "detent has no `opn`; did you mean `open`?"),
        (detent, "Mashine", "detent has no `Mashine`; did you mean `Machine`?"),
        (host, "strat", "a host has no `strat`; did you mean `start`?"),
        (host, "standing", "a host has no `standing`; its reader does: `host.reader.standing`"),
    ):
        with pytest.raises(AttributeError, match=re.escape(sentence)):
            getattr(place, name)


def test_a_star_import_leaves_pythons_own_open_alone() -> None:
    names: dict[str, Any] = {}
    exec("from detent import *", names)  # noqa: S102
    assert "open" not in names
    assert "open" in dir(detent)
