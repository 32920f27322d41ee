"""The editor's addresses through a real server: files as text, drafts that are not saved, runs pinned to versions."""

import os
from pathlib import Path
from typing import Any

from detent.surfaces.server.setting import ServerSettings
from tests.surfaces.server.people import with_people
from tests.surfaces.server.stage import Stage, stage

WAIT = """\
name: parcel
input: {type: object, properties: {to: {type: string}}, required: [to]}
states:
  packed: {type: initial}
  sent:
    actions: [{id: note, type: log, message: "for {{ context.to }}"}]
  home: {type: final}
transitions:
  - {from: packed, to: sent, on: PICKED}
  - {from: sent, to: home}
"""
CASES = """\
- id: arrives
  workflow: parcel.yaml
  input: {to: kim}
  script: [{event: PICKED}]
  expect: {status: completed, state: home}
- id: stays
  workflow: parcel.yaml
  input: {to: kim}
  expect: {status: completed}
- id: of-another-file
  workflow: approval.yaml
  input: {what: x, amount: 5}
  expect: {status: completed}
"""
STEPS = "steps:\n  - id: hello\n    run: echo hello\n"


async def open_file(at: Stage, name: str = "parcel.yaml") -> Any:
    return await at.get(f"/api/files/view?name={name}")


def lay(folder: Path) -> None:
    (folder / "parcel.yaml").write_text(WAIT)
    (folder / "parcel.test.yaml").write_text(CASES)
    (folder / "hello.yaml").write_text(STEPS)


async def test_a_file_is_saved_as_it_was_seen_and_not_otherwise(tmp_path: Path) -> None:
    lay(tmp_path)
    path = tmp_path / "parcel.yaml"
    path.chmod(0o640)
    async with stage(tmp_path) as at:
        seen = await open_file(at)
        assert (seen["text"], seen["grammar"], seen["may_save"]) == (WAIT, "states", True)
        new = WAIT.replace("packed", "boxed")
        saved = await at.post("/api/files/save", {"name": "parcel.yaml", "text": new, "hash": seen["hash"]})
        assert (path.read_text(), path.stat().st_mode & 0o777) == (new, 0o640)
        assert (await open_file(at))["hash"] == saved["hash"] != seen["hash"]
        late = await at.post("/api/files/save", {"name": "parcel.yaml", "text": WAIT, "hash": seen["hash"]}, 409)
        assert late["error"]["type"] == "file_changed"
        assert path.read_text() == new, "whoever comes second changes nothing"
        entries = await at.get("/api/runs/detent_files/log")
        (audited,) = (await at.client.get("/api/audit")).text.splitlines()[:-1]
        assert '"decision":"save"' in audited
        assert '"reason":"parcel.yaml"' in audited
        told = [one for one in entries["entries"] if one.get("event", {}).get("name") == "SAVED"]
        assert [one["event"]["data"]["file"] for one in told] == ["parcel.yaml"]
        assert (await at.get("/api/runs"))["runs"] == [], "the record is nobody's work"
        assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".parcel")] == []


async def test_only_workflow_files_of_the_project_are_opened_or_written(tmp_path: Path) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    for folder in (project, outside, project / "deep"):
        folder.mkdir()
    lay(project)
    (outside / "other.yaml").write_text(WAIT)
    (project / "link.yaml").symlink_to(outside / "other.yaml")
    (project / "door").symlink_to(outside)
    (project / "deep" / "in.yml").write_text(WAIT)
    (project / "compose.yaml").write_text("services: {web: {image: x}}\n")
    os.mkfifo(project / "pipe.yaml")
    async with stage(project) as at:
        (project / ".detent" / "x.yaml").write_text(WAIT)
        text = (await open_file(at, "deep/in.yml"))["text"]
        assert text == WAIT
        names = ["../outside/other.yaml", "/etc/passwd", "door/other.yaml", "link.yaml", "pipe.yaml", ".detent/x.yaml",
                 "deep/../../outside/other.yaml", "compose.yaml", "flows.py", "no.yaml", "deep", "x\0.yaml",
                 str(outside / "other.yaml")]  # fmt: skip
        for name in names:
            answer = await at.client.get("/api/files/view", params={"name": name})
            assert answer.status_code in (404, 409), (name, answer.text)
            body = {"name": name, "text": WAIT.replace("parcel", "taken"), "hash": "0" * 64}
            for path in ("/api/files/save", "/api/drafts/check"):
                answer = await at.client.post(
                    path, json=body if path.endswith("save") else {"name": name, "text": WAIT}
                )
                assert answer.status_code in (404, 409), (path, name, answer.text)
        assert (outside / "other.yaml").read_text() == WAIT
        seen = await open_file(at)
        for text in ("a: 1\n", "", "states: {}\n" + "#" * 1_100_000):  # no workflow any more, nothing, too long
            body = {"name": "parcel.yaml", "text": text, "hash": seen["hash"]}
            answer = await at.client.post("/api/files/save", json=body)
            assert answer.status_code in (409, 422), answer.text
        assert (project / "parcel.yaml").read_text() == WAIT


async def test_a_secret_that_is_not_shown_is_not_written_over(tmp_path: Path) -> None:
    lay(tmp_path)
    token = "ghp_" + "a1B2c3D4e5" * 4  # as the formats of known tokens have it
    (tmp_path / "parcel.yaml").write_text(WAIT + f"# {token}\n")
    async with stage(tmp_path) as at:
        seen = await open_file(at)
        assert token not in seen["text"]
        assert not seen["may_save"]
        assert "line 11" in seen["why_not"]
        refused = await at.post("/api/files/save", {"name": "parcel.yaml", "text": WAIT, "hash": seen["hash"]}, 409)
        assert "secret" in refused["error"]["message"]
        steps = await open_file(at, "hello.yaml")
        masked = {"name": "hello.yaml", "text": f"{STEPS}# •••\n", "hash": steps["hash"]}
        assert "•••" in (await at.post("/api/files/save", masked, 409))["error"]["message"]


async def test_who_may_edit(tmp_path: Path) -> None:
    lay(tmp_path)
    async with with_people(tmp_path) as (_, enter):
        for name, status in (("kim", 403), ("opal", 403), ("ann", 403), ("ada", 200)):
            client = await enter(name)
            seen = (await client.get("/api/files/view?name=parcel.yaml")).json()
            assert seen["may_save"] is (status == 200)
            body = {"name": "parcel.yaml", "text": seen["text"] + "#\n", "hash": seen["hash"]}
            drafts = [await client.post("/api/drafts/check", json={"name": "parcel.yaml", "text": WAIT})]
            drafts.append(await client.post("/api/files/save", json=body))
            assert [one.status_code for one in drafts] == [status, status], name
        foreign = {"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"}
        assert (await client.post("/api/files/save", json=body, headers=foreign)).status_code == 403


async def test_editing_can_be_closed(tmp_path: Path) -> None:
    lay(tmp_path)
    async with stage(tmp_path, ServerSettings(edit=False)) as at:
        seen = await open_file(at)
        assert not seen["may_save"]
        refused = await at.post("/api/files/save", {"name": "parcel.yaml", "text": WAIT, "hash": seen["hash"]}, 409)
        assert "edit: false" in refused["error"]["message"]


async def test_a_draft_is_checked_drawn_rehearsed_and_played_without_being_saved(tmp_path: Path) -> None:
    lay(tmp_path)
    async with stage(tmp_path) as at:
        draft = {"name": "parcel.yaml", "text": WAIT.replace("home", "there")}
        checked = await at.post("/api/drafts/check", draft)
        assert (checked["ok"], checked["machine"], checked["states"]) == (True, "parcel", 3)
        assert {node["id"] for node in checked["graph"]["nodes"]} == {"packed", "sent", "there"}
        assert checked["input"]["required"] == ["to"]
        same = await at.post("/api/drafts/check", {"name": "parcel.yaml", "text": WAIT})
        listed = {one["name"]: one for one in await at.get("/api/definitions")}
        assert same["digest"] == listed["parcel.yaml"]["digest"], "a draft is the machine that the file would be"

        broken = await at.post("/api/drafts/check", {**draft, "text": WAIT.replace("to: sent", "to: nowhere")})
        assert not broken["ok"]
        assert broken["graph"] is None
        assert [(one["file"], one["line"]) for one in broken["problems"]] == [("parcel.yaml", 9)]
        nonsense = await at.post("/api/drafts/check", {**draft, "text": "states: [\n"})
        assert [one["severity"] for one in nonsense["problems"]] == ["error"]
        deep = await at.post("/api/drafts/check", {**draft, "text": "states: " + "[" * 100_000})
        assert not deep["ok"]
        unknown = await at.post(
            "/api/drafts/check",
            {**draft, "text": WAIT.replace('type: log, message: "for {{ context.to }}"', "tool: nobodys")},
        )
        assert not unknown["ok"], "a tool that is not here is told, as `detent validate` does"
        lost = {**draft, "text": WAIT.replace("to: sent", "to: nowhere")}
        chinese = await at.client.post("/api/drafts/check", json=lost, headers={"Accept-Language": "zh-CN"})
        assert any("\u4e00" <= mark <= "\u9fff" for mark in chinese.json()["problems"][0]["message"])

        dry = await at.post("/api/drafts/rehearsal", {**draft, "input": {"to": "kim"}})
        assert (dry["state"], dry["status"]) == ("packed", "waiting")
        await at.post("/api/drafts/rehearsal", draft, 422)

        played = await at.post("/api/drafts/cases", {"name": "parcel.yaml", "text": WAIT})
        assert played["files"] == ["parcel.test.yaml"]
        assert [(one["id"], one["ok"], one["line"]) for one in played["cases"]] == [
            ("arrives", True, 1),
            ("stays", False, 6),
        ]
        assert played["cases"][0]["path"] == ["packed", "sent", "home"]
        assert played["cases"][1]["actual"] == {"status": "waiting"}
        played = await at.post("/api/drafts/cases", draft)
        assert [one["differs"] for one in played["cases"]] == [["state"], ["status"]], (
            "the draft is played, not the file"
        )
        await at.post("/api/drafts/cases", {**draft, "text": "states: ["}, 422)
        assert (tmp_path / "parcel.yaml").read_text() == WAIT
        assert (await at.get("/api/runs"))["runs"] == []


async def test_a_steps_file_is_listed_started_and_edited_like_any_other(tmp_path: Path) -> None:
    lay(tmp_path)
    (tmp_path / "pipeline.yml").write_text("steps:\n  - label: build\n    command: make\n")  # somebody else's tool
    async with stage(tmp_path) as at:
        listed = [one["name"] for one in await at.get("/api/definitions")]
        assert "hello.yaml" in listed
        assert "pipeline.yml" not in listed
        assert (await open_file(at, "hello.yaml"))["grammar"] == "steps"
        checked = await at.post(
            "/api/drafts/check", {"name": "hello.yaml", "text": STEPS + "  - id: bye\n    run: echo bye\n"}
        )
        assert (checked["ok"], checked["states"]) == (True, 4)
        flawed = await at.post(
            "/api/drafts/check", {"name": "hello.yaml", "text": STEPS + "  - id: hello\n    run: x\n"}
        )
        assert [one["line"] for one in flawed["problems"] if one["severity"] == "error"] == [4]


async def test_runs_are_compared_with_the_draft_and_moved_to_what_is_saved(tmp_path: Path) -> None:
    lay(tmp_path)
    async with stage(tmp_path) as at:
        runs = [await at.start("parcel.yaml", to=name) for name in ("ann", "bob")]
        pins = await at.get("/api/files/pins?name=parcel.yaml")
        assert [(one["is_saved"], one["count"]) for one in pins["versions"]] == [(True, 2)]
        old = pins["digest"]
        text = WAIT.replace('"for', '"now for')
        compared = await at.post("/api/drafts/compare", {"name": "parcel.yaml", "text": text, "digest": old})
        assert [(one["what"], one["subject"]) for one in compared["changes"]] == [("work", "sent")]
        seen = await open_file(at)
        await at.post("/api/files/save", {"name": "parcel.yaml", "text": text, "hash": seen["hash"]})
        pins = await at.get("/api/files/pins?name=parcel.yaml")
        assert [(one["digest"], one["is_saved"]) for one in pins["versions"]] == [(old, False)]
        assert {run["run_id"] for run in pins["versions"][0]["runs"]} == set(runs)
        moved = await at.post("/api/bulk", {"verb": "migrate", "definition": "parcel.yaml", "runs": runs})
        assert moved["done"] == 2
        pins = await at.get("/api/files/pins?name=parcel.yaml")
        assert [(one["is_saved"], one["count"]) for one in pins["versions"]] == [(True, 2)]
