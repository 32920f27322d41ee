"""Servers that are pasted from another program's file: kinds are proposed, and written down once somebody agrees."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from detent.effects.mcp import Offer
from detent.effects.mcp.catalogue import Hints
from detent.effects.mcp.config import Resolver
from detent.errors import Refused
from detent.kit.available_effects import read_servers
from detent.kit.pasted_block import parse_pasted
from detent.kit.server_proposal import insert_block, propose_kind
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


ONE = '"one": {"command": "x", "args": ["//a", 1], "env": {"PORT": 8080}}'
WANTED = {"one": {"command": "x", "args": ["//a", "1"], "env": {"PORT": "8080"}}}


@pytest.mark.parametrize(
    "text",
    [
        "{%s}",
        '{"mcpServers": {%s}}',
        '{"inputs": [], "servers": {%s}}',
        '"mcpServers": {%s}',
        "%s,",
        '```json\n{"mcpServers": {%s}}\n```\n',
        '{ // mine\n"mcpServers": {%s, /* no\nmore */ }, }',
    ],
)
def test_a_block_is_read_as_people_paste_it(text: str) -> None:
    assert parse_pasted(text % ONE) == (WANTED, [])


def test_what_other_programs_say_is_said_in_our_words_or_named() -> None:
    servers, notes = parse_pasted(
        """{"My Server!": {"serverUrl": "https://x.example/mcp", "type": "streamableHttp", "autoApprove": ["pay"],
            "headers": {"Authorization": "Bearer ${input:api-key}"}, "timeout": 30000, "enabled": true},
            "off": {"command": "x", "env": {"K": "${env:Home}"}, "enabled": false}}"""
    )
    assert servers == {
        "My-Server": {
            "url": "https://x.example/mcp", "headers": {"Authorization": "Bearer ${API_KEY}"}, "timeout": 30.0
        },
        "off": {"command": "x", "env": {"K": "${Home}"}, "disabled": True},
    }  # fmt: skip
    told = "\n".join(notes)
    assert all(word in told for word in ("`My-Server`", "autoApprove", "${API_KEY}", "${Home}"))


def test_a_secret_that_stands_in_a_pasted_block_is_hidden_where_it_comes_back() -> None:
    resolver = Resolver("one")
    resolver.texts({"API_KEY": "correct-horse", "LOG_LEVEL": "everything"})
    resolver.texts({"Authorization": "Bearer staple-battery"})
    said = resolver.hide("correct-horse staple-battery everything")
    assert "horse" not in said
    assert "staple" not in said
    assert "everything" in said


def test_what_cannot_be_added_is_said(tmp_path: Path) -> None:
    for text in ("{", "[]", "{}", '{"a": 1}', '{"a b": {}, "a-b": {}}', '{"é": {}}'):
        with pytest.raises(Refused):
            parse_pasted(text)
    file = tmp_path / "detent.mcp.yaml"
    file.write_text("{servers: {}}")
    with pytest.raises(Refused, match="put this"):
        insert_block(file, "  a: {}\n")
