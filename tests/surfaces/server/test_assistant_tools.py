"""The assistant's tools over HTTP: which there are, and what a call that waits would change in a file."""

from pathlib import Path
from typing import Any

import pytest

from tests.effects.llm.scripted import calling, said, serving
from tests.surfaces.server.stage import stage

TOOLS = """
from pathlib import Path

from detent import effect


@effect("notes.write", schema={"type": "object"})
async def write(contract):
    '''Write a note.'''
    return "written"


@effect("notes.read", kind="pure")
async def read(contract):
    return "note"
"""


async def test_tools_are_listed_and_a_change_is_shown_of_own_files_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "tools.py").write_text(TOOLS)
    (folder / "a.txt").write_text("one\ntwo\n")
    (folder / ".env").write_text("KEY=secret\n")
    (tmp_path / "outside.txt").write_text("secret\n")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("DETENT_TOOLS", "tools.py")
    names = ("a.txt", ".env", "../outside.txt", "new.txt")
    async with serving(*(calling("notes_write", path=name, text="one\nTWO\n") for name in names)) as model:
        monkeypatch.setenv("DETENT_MODEL", "openai:test")
        monkeypatch.setenv("DETENT_BASE_URL", model.url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        async with stage(folder) as at:
            offered = {one["name"]: one for one in (await at.get("/api/assistant/tools"))["tools"]}
            assert offered["notes.write"] == {"name": "notes.write", "kind": "irreversible", "about": "Write a note."}
            planned = {one["name"] for one in (await at.get("/api/assistant/tools?plan=true"))["tools"]}
            assert "notes.read" in planned
            assert "notes.write" not in planned
            assert not [name for name in offered if name.startswith("detent.")], "the server's own are for nobody"
            found: dict[str, Any] = {}
            for name in names:
                await at.client.post("/chat", json={"message": "I prefer work"})
                (asked,) = at.room.reader.waiting()
                path, which = f"/api/runs/{asked.run_id}/changes", {"contract": asked.waiting[0].contract_id}
                found[name] = (await at.get(path, params=which))["lines"]
                await at.post(f"/api/runs/{asked.run_id}/cancel", {"reason": "seen"})
            await at.get(path, 404, params=which)
    assert found["a.txt"][-3:] == [" one", "-two", "+TWO"]
    assert found["new.txt"][-2:] == ["+one", "+TWO"]
    assert found[".env"] == found["../outside.txt"] == []


async def test_files_that_a_message_names_go_with_it_if_they_may_be_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "project"
    (folder / "notes").mkdir(parents=True)
    (folder / "notes" / "a.txt").write_text("the harbour is foggy")
    (folder / "notes" / ".hidden").write_text("")
    (folder / "dot.gif").write_bytes(b"GIF89a" + bytes(20))
    (folder / ".env").write_text("KEY=secret\n")
    (folder / "way-out").symlink_to(tmp_path)
    (folder / "binary.bin").write_bytes(b"\xff\xfe\x00\x80")
    (tmp_path / "outside.txt").write_text("secret\n")
    monkeypatch.chdir(folder)
    names = ["notes/a.txt", "notes", "dot.gif,", ".env", "../outside.txt", "way-out/outside.txt", "bob", str(tmp_path)]
    async with serving(said("Seen.")) as model:
        monkeypatch.setenv("DETENT_MODEL", "openai:test")
        monkeypatch.setenv("DETENT_BASE_URL", model.url)
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        async with stage(folder) as at:
            await at.client.post("/chat", json={"message": "I prefer @notes/a.txt", "files": names})
            refused = await at.post("/chat", {"message": "I prefer", "files": ["binary.bin"]}, 409)
            begun = ["", "no", "notes/", "notes/b", "..", "../", "/", ".e", "way-out/", "notes/../../"]
            listed = {one: (await at.get("/api/assistant/files", params={"begun": one}))["names"] for one in begun}
            assert refused["error"]["message"] == "@binary.bin: this is neither text nor an image that models take"
    assert {"binary.bin", "dot.gif", "notes/"} <= set(listed[""])
    assert not {".env", "way-out/"} & set(listed[""])
    assert (listed["no"], listed["notes/"]) == (["notes/"], ["notes/a.txt"])
    assert not [one for one in begun[3:] if listed[one]], listed
    (words, picture) = model.asked[0].body["messages"][-1]["content"]
    assert words["text"] == (
        "I prefer @notes/a.txt\n\nFile notes/a.txt:\n```\nthe harbour is foggy\n```\n\nFolder notes:\na.txt"
    )
    assert picture["type"] == "image_url"
