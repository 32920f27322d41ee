"""Files that a run keeps: listed, fetched, refused where they are not what they seem, and gone with their run."""

import hashlib
import os
from pathlib import Path

import pytest

from tests.surfaces.command import Detent
from tests.surfaces.server.stage import stage

FLOW = """\
input: {what: {type: array, default: ["out/*"]}}
states:
  a: {type: initial, actions: [{id: keep, tool: files.keep, params: {path: "{{ context.what }}"}}]}
  z: {type: final}
transitions: [{from: a, to: z}]
output: {count: "{{ result.keep.artefacts | length }}"}
"""


@pytest.fixture
def detent(tmp_path: Path) -> Detent:
    (tmp_path / "flow.yaml").write_text(FLOW)
    (tmp_path / "out").mkdir()
    return Detent(tmp_path)


def test_files_are_listed_and_fetched_and_the_same_content_is_there_once(detent: Detent) -> None:
    (detent.folder / "out" / "report.txt").write_text("fine\n")
    (detent.folder / "out" / "again.txt").write_text("fine\n")
    run = detent("run", "flow.yaml", "--json").json
    assert run["output"] == {"count": 2}
    found = detent("artefacts", "last", "--json").json["artefacts"]
    digest = hashlib.sha256(b"fine\n").hexdigest()
    assert [(one["name"], one["digest"], one["size"]) for one in found] == [
        ("out/again.txt", digest, 5),
        ("out/report.txt", digest, 5),
    ]
    assert digest[:12] in detent("artefacts", "last").out
    detent("artefacts", "last", "out/report.txt", "--to", "copy.txt")
    assert (detent.folder / "copy.txt").read_text() == "fine\n"
    assert "--force" in detent("artefacts", "last", digest[:8], "--to", "copy.txt", code=2).err
    assert detent("artefacts", "last", digest[:8], "--to", "-").out == "fine\n"
    assert "there is no artefact `no`" in detent("artefacts", "last", "no", code=2).err
    kept = [file for file in (detent.folder / ".detent" / "artefacts").rglob("*") if file.is_file()]
    assert len({file.stat().st_ino for file in kept}) == 1
    assert all(file.stat().st_mode & 0o077 == 0 for file in kept)
    detent("backup", "copy.detent")
    detent("restore", "copy.detent", "--home", "elsewhere")
    assert detent("artefacts", run["run_id"], digest[:8], "--to", "-", "--home", "elsewhere").out == "fine\n"
    detent("prune", "--older-than", "0s")
    assert [file for file in (detent.folder / ".detent" / "artefacts").rglob("*") if file.is_file()] == []


def make_hostile(folder: Path) -> None:
    (folder / "secret.txt").write_text("mine")
    (folder / "out" / "link.txt").symlink_to("../secret.txt")
    (folder / "behind").symlink_to("out")
    os.mkfifo(folder / "out" / "pipe")
    (folder / "out" / "turned\u202etxt.exe").write_text("x")
    (folder / "out" / "large").touch()
    os.truncate(folder / "out" / "large", 256 * 1024 * 1024 + 1)


@pytest.mark.parametrize(
    ("what", "problem"),
    [
        ("out/link.txt", "is a link or behind one"),
        ("behind/large", "is a link or behind one"),
        ("out/pipe", "is not an ordinary file"),
        ("out/turned*", "cannot be the name of an artefact"),
        ("../*", "names files below `root`"),
        ("/etc/passwd", "names files below `root`"),
        (".detent/journal.db", "is in the home"),
        ("out/large", "too large to be kept"),
        ("nothing.txt", "there is no file"),
    ],
)
def test_what_is_not_a_plain_file_below_the_folder_is_refused(detent: Detent, what: str, problem: str) -> None:
    make_hostile(detent.folder)
    said = detent("run", "flow.yaml", "--input", f'{{"what": ["{what}"]}}', "--json", code=1).json
    assert problem in said["error"]["message"]
    assert detent("artefacts", "last", "--json").json["artefacts"] == []


async def test_an_artefact_is_sent_as_a_download_and_a_secret_field_is_never_shown(tmp_path: Path) -> None:
    made, secret = tmp_path / "made", "correct-horse-battery-staple"
    made.mkdir()
    (made / "page.html").write_text("<script>alert(1)</script>")
    async with stage(tmp_path) as at:
        keep = f"{{id: keep, tool: files.keep, params: {{path: page.html, root: {made}, name: 'für kim.html'}}}}"
        flow = FLOW.replace("what: {type", "key: secret, what: {type").replace(
            FLOW[FLOW.index("{id: keep") : FLOW.index("]}\n  z")], keep
        )
        (at.folder / "flow.yaml").write_text(flow)
        offered = (await at.get("/api/definitions/view?name=flow.yaml"))["input"]
        assert offered["properties"]["key"]["format"] == "password"
        refused = await at.post("/api/runs", {"definition": "flow.yaml"}, 409)
        assert "the secret `key` is missing" in refused["error"]["message"]
        run = await at.post("/api/runs", {"definition": "flow.yaml", "input": {"key": secret}}, 201)
        run_id = run["run_id"]
        await at.until(run_id, "completed")
        (file,) = (await at.get(f"/api/runs/{run_id}/artefacts"))["artefacts"]
        assert file["name"] == "für kim.html"
        sent = await at.client.get(f"/api/runs/{run_id}/artefacts/{file['digest']}")
        assert sent.content == b"<script>alert(1)</script>"
        assert sent.headers["content-type"] == "application/octet-stream"
        assert sent.headers["content-disposition"] == "attachment; filename*=UTF-8''f%C3%BCr%20kim.html"
        assert "sandbox" in sent.headers["content-security-policy"]
        await at.get(f"/api/runs/{run_id}/artefacts/{'0' * 64}", 404)
        assert secret not in str(await at.get(f"/api/runs/{run_id}/log"))
