"""The file that names the servers: what it may say, and every problem told with its place."""

from pathlib import Path

import pytest

from detent.effects.mcp import ToolConfig
from detent.errors import DefinitionError
from detent.kit.available_effects import read_servers

GOOD = """\
servers:
  git:
    command: mcp-server-git
    args: [--repository, .]
    env: {TOKEN: "${GIT_TOKEN}"}
    trusted: true
    timeout: 90s
    tools:
      git_commit: {effect: irreversible, key: message, timeout: 5m, scope: run, key_argument: request_id}
  web: {url: "https://example.org/mcp", headers: {Authorization: "Bearer ${KEY}"}}
  old: {command: x, disabled: true}
"""
COMMON = '{"mcpServers": {"fs": {"type": "stdio", "command": "npx", "args": ["-y", "x"]}, "w": {"type": "http", "url": "http://x"}}}'


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "detent.mcp.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_whole_file_is_understood(tmp_path: Path) -> None:
    servers = read_servers(written(tmp_path, GOOD))
    assert list(servers) == ["git", "web"]
    git = servers["git"]
    assert (git.command, git.args, git.trusted, git.timeout_s) == ("mcp-server-git", ("--repository", "."), True, 90.0)
    assert git.tool("git_commit") == ToolConfig("irreversible", ("message",), "request_id", 300.0, "run")
    assert "GIT_TOKEN" in git.env["TOKEN"], "a reference is read when the server is started, not before"


def test_the_common_json_is_understood(tmp_path: Path) -> None:
    servers = read_servers(written(tmp_path, COMMON))
    assert (servers["fs"].command, servers["w"].url) == ("npx", "http://x")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("servers: {git: {comand: x}}", r":1:17: server `git` knows no `comand`"),
        ("servers: {git: {}}", r"needs a `command` to start or a `url`"),
        ("servers: {git: {command: x, url: http://x}}", r"one of them"),
        ("servers: {git: {command: x, args: --all}}", r"`args` must be a list of texts"),
        ("servers: {git: {command: x, env: {A: 1}}}", r"write numbers in quotes"),
        ("servers: {git: {url: 'ftp://x'}}", r"must begin with http"),
        ("servers: {git: {url: http://x, type: sse}}", r"`sse` is not spoken here"),
        ("servers: {files: {command: x}}", r"effects of its own"),
        ("servers: {'a b': {command: x}}", r"cannot be the name"),
        ("servers: {git: {command: x, timeout: soon}}", r"a time such as 30, 90s or 5m"),
        ("servers: {git: {command: x, effect: harmless}}", r"one of pure, idempotent, irreversible"),
        ("servers: {git: {command: x, tools: {t: {efect: pure}}}}", r"tool `t` knows no `efect`"),
        ("servers: {git: {command: x, trusted: certainly}}", r"true or false"),
        ("servers: []", r"must be a mapping"),
        ("{}", r"names no servers"),
        ("servers: {a: {command: x}}\nservers: {}", r"servers"),
        ("nothing: here", r"knows no `nothing`"),
    ],
)
def test_every_problem_is_told_with_its_place(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(DefinitionError, match=problem) as caught:
        read_servers(written(tmp_path, text))
    assert "detent.mcp.yaml:" in str(caught.value)
