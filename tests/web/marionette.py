"""Firefox by its own remote protocol (Marionette): playwright drives only a Firefox of its own making."""

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.effort import PATIENCE_S

FIREFOX = shutil.which("firefox-esr") or ""


class Firefox:
    """A browser window, and the commands that it takes."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self._read()
        self._number = 0
        self.do("WebDriver:NewSession", capabilities={"alwaysMatch": {"acceptInsecureCerts": False}})

    def do(self, command: str, **given: Any) -> Any:
        """One command, and what it gives."""
        self._number += 1
        said = json.dumps([0, self._number, command, given])
        self._socket.sendall(f"{len(said.encode())}:{said}".encode())
        _, _, error, result = self._read()
        assert error is None, error
        return result

    def run(self, script: str, *given: Any) -> Any:
        """What a script of the page returns."""
        return self.do("WebDriver:ExecuteScript", script=script, args=list(given))["value"]

    def go(self, address: str) -> None:
        """Open an address."""
        self.do("WebDriver:Navigate", url=address)

    def until(self, script: str, *given: Any) -> Any:
        """Wait until a script returns something."""
        end = time.monotonic() + PATIENCE_S
        while not (found := self.run(script, *given)):
            assert time.monotonic() < end, script
            time.sleep(0.05)
        return found

    def close(self) -> None:
        """End the session."""
        self._socket.close()

    def _read(self) -> Any:
        text = b""
        while not text.endswith(b":"):
            text += self._take(1)
        return json.loads(self._take(int(text[:-1])) or b"null")

    def _take(self, count: int) -> bytes:
        parts = b""
        while len(parts) < count:
            part = self._socket.recv(count - len(parts))
            assert part, "firefox has gone"
            parts += part
        return parts


@contextmanager
def firefox(folder: Path) -> Iterator[Firefox]:
    """A Firefox with a profile of its own, without a window."""
    folder.mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (folder / "user.js").write_text(
        f'user_pref("marionette.port", {port});\n'
        'user_pref("datareporting.policy.dataSubmissionEnabled", false);\n'
        'user_pref("app.update.enabled", false);\n'
        'user_pref("intl.accept_languages", "en-US");\n'
    )
    words = [FIREFOX, "--headless", "--marionette", "--no-remote", "--profile", str(folder)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                opened = Firefox(port)
                break
            except ConnectionError:
                assert process.poll() is None, "firefox did not start"
                assert time.monotonic() < end, "firefox does not listen"
                time.sleep(0.1)
        yield opened
        opened.close()
    finally:
        process.kill()
        process.wait(PATIENCE_S)
