"""OAuth 2.1 with a real authorization server: discovery, registration, a browser, tokens that are kept and renewed."""

import asyncio
import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from detent.core import Contract, Outcome
from detent.core.effect_type import EffectFailed
from detent.effects.mcp import Servers, parse_config
from detent.effects.mcp.oauth_login import BrowserLogin
from tests.effort import PATIENCE_S
from tests.surfaces import command

AUTHORITY = Path(__file__).with_name("authority.py")


@pytest.fixture
def url() -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with subprocess.Popen([sys.executable, str(AUTHORITY), str(port)]) as server:
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            try:
                httpx2.get(f"http://127.0.0.1:{port}/.well-known/oauth-authorization-server")
                break
            except httpx2.TransportError:
                assert server.poll() is None
        yield f"http://127.0.0.1:{port}/mcp"
        server.kill()


def detent(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    given = [command.SCRIPT, *words]
    return subprocess.run(given, cwd=folder, capture_output=True, text=True, check=False, timeout=PATIENCE_S)


def log_in(url: str, folder: Path) -> Path:
    """Somebody logs in with a browser; gives the file that keeps the tokens."""
    folder.joinpath("detent.mcp.yaml").write_text(json.dumps({"servers": {"shop": {"url": url, "trusted": True}}}))
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [command.SCRIPT, "mcp", "login", "shop"], cwd=folder, stdin=pipe, stdout=pipe, stderr=pipe, text=True
    ) as login:
        assert login.stderr is not None
        shown = re.search(r"http://\S+", login.stderr.readline())
        assert shown is not None
        page = httpx2.get(shown[0], follow_redirects=True)  # the person says yes, and their browser comes back
        assert "close this page" in page.text
        said, _ = login.communicate(timeout=PATIENCE_S)
    assert (login.returncode, said) == (0, "shop: 2 tools\n")
    return folder / ".detent" / "mcp" / "oauth" / "shop.json"


def test_a_person_logs_in_once_and_runs_call_the_tools(url: str, tmp_path: Path) -> None:
    tmp_path.joinpath("detent.mcp.yaml").write_text(json.dumps({"servers": {"shop": {"url": url, "trusted": True}}}))
    before = detent(tmp_path, "mcp", "tools", "shop")
    assert before.returncode == 1
    assert "detent mcp login shop" in before.stdout
    kept = log_in(url, tmp_path)
    assert kept.stat().st_mode & 0o777 == 0o600
    tokens = json.loads(kept.read_text())["tokens"]
    flow = {
        "name": "ask",
        "states": {
            "look": {"type": "initial", "actions": [{"id": "leak", "tool": "shop.leak", "params": {}},
                                                    {"id": "count", "tool": "shop.renewals", "params": {}}]},
            "done": {"type": "final"},
        },
        "transitions": [{"from": "look", "to": "done"}],
        "output": {"leak": "{{ result.leak.text }}", "count": "{{ result.count.text }}"},
    }  # fmt: skip
    tmp_path.joinpath("ask.yaml").write_text(json.dumps(flow))
    until = time.monotonic() + PATIENCE_S
    count = 0
    while not count and time.monotonic() < until:  # its first token lives for a second
        run = json.loads(detent(tmp_path, "run", "ask.yaml", "--json").stdout)
        assert run["status"] == "completed", json.dumps(run)
        assert tokens["access_token"] not in json.dumps(run)
        assert json.loads(kept.read_text())["tokens"]["access_token"] not in json.dumps(run)
        count = int(run["output"]["count"])
    assert count, "a token that is over is renewed without anybody"
    assert detent(tmp_path, "mcp", "logout", "shop").returncode == 0
    assert not kept.exists()


async def test_only_the_login_that_was_begun_is_heard() -> None:
    login = BrowserLogin(lambda _: None)
    async with login.listening(), httpx2.AsyncClient() as browser:
        await login.redirect("https://auth.example/authorize?state=mine")
        for stray in ("", "?code=c", "?code=c&state=other", "?state=mine"):
            assert (await browser.get(login.address + stray)).status_code == 400
        page = await browser.get(f"{login.address}?error=access_denied&state=mine")
        assert "Nobody was logged in" in page.text
        with pytest.raises(EffectFailed, match="access_denied"):
            await login.callback()


def test_a_token_that_the_server_no_longer_takes_is_renewed(url: str, tmp_path: Path) -> None:
    kept = log_in(url, tmp_path)
    first = json.loads(kept.read_text())
    kept.write_text(json.dumps(first | {"expires_at": time.time() + 3600}))  # that is what our clock says
    until = time.monotonic() + PATIENCE_S
    while json.loads(kept.read_text())["tokens"] == first["tokens"] and time.monotonic() < until:
        listed = detent(tmp_path, "mcp", "tools", "shop")
        assert listed.returncode == 0, listed.stdout + listed.stderr
    assert json.loads(kept.read_text())["tokens"] != first["tokens"]


async def test_what_another_process_has_renewed_is_taken(url: str, tmp_path: Path) -> None:
    kept = log_in(url, tmp_path)
    configs, _ = parse_config({"servers": {"shop": {"url": url, "trusted": True}}})
    async with Servers(tmp_path / ".detent", configs) as servers:
        count = (await servers.effects())["shop.renewals"]
        contract = Contract("a/b/1", "b", "shop.renewals", kind="pure")
        first = json.loads(kept.read_text())
        until = time.monotonic() + PATIENCE_S
        while json.loads(kept.read_text())["tokens"] == first["tokens"] and time.monotonic() < until:
            await asyncio.to_thread(detent, tmp_path, "mcp", "tools", "shop")  # each renewal is taken once only
        done = await count.perform(contract)
        assert isinstance(done, Outcome)
        assert int(done.result["text"]) >= 1
