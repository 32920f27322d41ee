"""The documented reverse proxy, as a real nginx in front of a real server."""

import asyncio
import re
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest

from detent.surfaces.server.setting import Proxy, ServerSettings
from tests.surfaces.server.people import with_people

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "log-in-through-a-proxy.md"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin") or ""
SECRET = "what only the proxy knows"
# Passwords as nginx reads them: {PLAIN} needs no hashing program here.
USERS = "ann@example.org:{PLAIN}one\nstranger@example.org:{PLAIN}two\n"
MAIN = """
daemon off;
master_process off;
worker_processes 1;
pid FOLDER/nginx.pid;
error_log FOLDER/error.log;
events { worker_connections 64; }
http {
    access_log off;
    client_body_temp_path FOLDER/body;
    proxy_temp_path FOLDER/proxy;
    fastcgi_temp_path FOLDER/fastcgi;
    uwsgi_temp_path FOLDER/uwsgi;
    scgi_temp_path FOLDER/scgi;
    SERVER
}
"""


def documented(folder: Path, port: int, behind: int) -> str:
    """The configuration of the page, with this test's places in it and without TLS."""
    (server,) = re.findall(r"^```nginx\n(.*?)^```", PAGE.read_text(), re.M | re.S)
    server = re.sub(r"^ +(ssl_|server_name).*\n", "", server, flags=re.M)
    for old, new in (
        ("listen 443 ssl;", f"listen 127.0.0.1:{port};"),
        ("/etc/nginx/control.users", str(folder / "users")),
        ("127.0.0.1:8410", f"127.0.0.1:{behind}"),
        ('"DETENT_PROXY_SECRET"', f'"{SECRET}"'),
    ):
        assert old in server
        server = server.replace(old, new)
    return MAIN.replace("FOLDER", str(folder)).replace("SERVER", server)


@asynccontextmanager
async def nginx(folder: Path, behind: int) -> AsyncIterator[str]:
    """A proxy in front of a port; its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder.mkdir()
    (folder / "users").write_text(USERS)
    (folder / "nginx.conf").write_text(documented(folder, port, behind))
    process = await asyncio.create_subprocess_exec(
        NGINX, "-p", str(folder), "-e", str(folder / "error.log"), "-c", str(folder / "nginx.conf")
    )
    try:
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                break
            except ConnectionRefusedError:
                assert process.returncode is None, (folder / "error.log").read_text()
                await asyncio.sleep(0.02)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        await process.wait()


@pytest.mark.skipif(not NGINX, reason="there is no nginx here: `./run browser`, as root, installs it")
async def test_the_documented_proxy_says_who_somebody_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DETENT_PROXY_SECRET", SECRET)
    settings = ServerSettings(proxy=Proxy("DETENT_PROXY_SECRET", log_out="/oauth2/sign_out"))
    async with with_people(tmp_path, settings) as (at, _), nginx(tmp_path / "nginx", at.port) as address:
        ann = httpx2.BasicAuth("ann@example.org", "one")
        async with httpx2.AsyncClient(base_url=address, timeout=None) as client:
            assert (await client.get("/api/me")).status_code == 401  # nginx itself wants to know
            me = (await client.get("/api/me", auth=ann)).json()
            assert (me["name"], me["known_by"], me["log_out"]) == ("ann", "proxy", "/oauth2/sign_out")
            forged = {"X-Remote-User": "bob@example.org", "X-Proxy-Secret": "a guess"}
            assert (await client.get("/api/me", auth=ann, headers=forged)).json()["name"] == "ann"
            stranger = httpx2.BasicAuth("stranger@example.org", "two")
            refused = await client.get("/api/me", auth=stranger)
            assert refused.status_code == 403
            assert "--proxy-name" in refused.json()["error"]["message"]
            begun = await client.post("/api/runs", json={"definition": "count"}, auth=ann, headers={"Origin": address})
            assert (begun.status_code, begun.json()["by"]) == (201, "ann")
            async with client.stream("GET", "/api/events", auth=ann) as stream:
                async for part in stream.aiter_text():
                    assert "retry" in part
                    break
        assert (await at.client.get("/api/me", headers={"X-Remote-User": "ann@example.org"})).status_code == 403
