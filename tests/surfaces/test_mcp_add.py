"""Servers that are pasted from another program's file: kinds are proposed, and written down once somebody agrees."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from detent.effects.mcp import Offer
from detent.effects.mcp.catalogue import Hints
from detent.errors import Refused
from detent.kit.available_effects import read_servers
from detent.kit.server_proposal import insert_block, parse_pasted, propose_kind
from tests.surfaces import command

UPSTREAM = Path(__file__).with_name("upstream.py")


@pytest.mark.parametrize(
    ("name", "hints", "kind"),
    [
        ("anything", Hints(read_only=True), "pure"),
        ("anything", Hints(idempotent=True), "idempotent"),
        ("list_files", Hints(), "pure"),
        ("listFiles", Hints(), "pure"),
        ("git_status", Hints(), "pure"),
        ("getOrCreateUser", Hints(read_only=False), "irreversible"),
        ("delete_by_search", Hints(), "irreversible"),
        ("send", Hints(), "irreversible"),
        ("list_files", Hints(destructive=True), "irreversible"),
    ],
)
def test_a_kind_is_proposed_from_hints_and_names(name: str, hints: Hints, kind: str) -> None:
    assert propose_kind(Offer(name, "", {}, hints)).kind == kind


def test_a_pasted_block_works_at_once(tmp_path: Path) -> None:
    server = {"command": sys.executable, "args": [str(UPSTREAM), str(tmp_path / "notes"), "Pay."]}
    pasted = json.dumps({"mcpServers": {"up": server}})

    def add(*words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [command.SCRIPT, "mcp", "add", "--json", *words],
            cwd=tmp_path, input=pasted, capture_output=True, text=True, check=False,
        )  # fmt: skip

    shown = json.loads(add().stdout)
    assert not shown["written"]
    proposed = {tool["name"]: tool["effect"] for tool in shown["servers"][0]["tools"]}
    assert proposed.items() >= {
        "look": "pure", "draw": "pure", "fail": "pure", "pay": "irreversible",
        "die": "pure", "grow": "pure", "pay_and_die": "irreversible",
    }.items()  # fmt: skip
    file = tmp_path / "detent.mcp.yaml"
    file.write_text("# ours\nservers:\n  other: {command: other}  # kept\n")
    assert json.loads(add("--yes").stdout)["written"]
    found = read_servers(file)
    assert set(found) == {"up", "other"}
    assert found["up"].tool("look").effect == "pure"
    assert "# kept" in file.read_text()
    assert add("--yes").returncode == 2, "it is there already"


def test_what_cannot_be_added_is_said(tmp_path: Path) -> None:
    for text in ("{", "[]", "{}", '{"a": 1}'):
        with pytest.raises(Refused):
            parse_pasted(text)
    file = tmp_path / "detent.mcp.yaml"
    file.write_text("{servers: {}}")
    with pytest.raises(Refused, match="put this"):
        insert_block(file, "  a: {}\n")
