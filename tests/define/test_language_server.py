"""The JSON Schema in a real language server: what an editor shows of a workflow file.

yaml-language-server is not part of the environment. Where it is on the PATH, or `DETENT_YAML_SERVER` names it, it is
driven over its protocol; elsewhere these tests are skipped and say so.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from detent.define.schema import schema

FLOW = """name: demo
states:
  a: {type: initial, actions: [{id: look, tool: http, colour: red}]}
  z: {type: fin}
transitions:
  - {from: a, to: z}
"""


def find_server() -> str:
    return os.environ.get("DETENT_YAML_SERVER") or shutil.which("yaml-language-server") or ""


class Editor:
    """The few messages an editor needs."""

    def __init__(self, folder: Path) -> None:
        self.process = subprocess.Popen(
            [find_server(), "--stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.folder, self.number = folder, 0
        self.told: dict[str, list[dict[str, Any]]] = {}
        schemas = {(folder / "workflow.schema.json").as_uri(): "*.yaml"}
        self.settings = {"yaml": {"schemas": schemas, "hover": True, "completion": True, "validate": True}}
        self.ask("initialize", {"processId": None, "rootUri": folder.as_uri(), "capabilities": {}})
        self.say("initialized", {})
        self.say("workspace/didChangeConfiguration", {"settings": self.settings})

    def say(self, method: str, params: Any, **more: Any) -> None:
        body = json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **more}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        length = 0
        while (line := self.process.stdout.readline().strip()) != b"":
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        said: dict[str, Any] = json.loads(self.process.stdout.read(length))
        if said.get("method") == "textDocument/publishDiagnostics":
            self.told[said["params"]["uri"]] = said["params"]["diagnostics"]
        elif "method" in said and "id" in said:  # it asks for settings, or registers something
            wanted = said["params"].get("items", ()) if isinstance(said.get("params"), dict) else ()
            result = [self.settings.get(one.get("section", ""), {}) for one in wanted]
            body = json.dumps({"jsonrpc": "2.0", "id": said["id"], "result": result}).encode()
            assert self.process.stdin is not None
            self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
            self.process.stdin.flush()
        return said

    def ask(self, method: str, params: Any) -> Any:
        self.number += 1
        self.say(method, params, id=self.number)
        while True:
            said = self.hear()
            if said.get("id") == self.number and "method" not in said:
                return said.get("result")

    def open(self, name: str, text: str) -> str:
        uri = (self.folder / name).as_uri()
        document = {"uri": uri, "languageId": "yaml", "version": 1, "text": text}
        self.say("textDocument/didOpen", {"textDocument": document})
        while not self.told.get(uri):
            self.hear()
        return uri

    def hover(self, uri: str, line: int, column: int) -> str:
        where = {"textDocument": {"uri": uri}, "position": {"line": line, "character": column}}
        return json.dumps(self.ask("textDocument/hover", where))


@pytest.fixture
def editor(tmp_path: Path) -> Iterator[Editor]:
    if not find_server():
        pytest.skip("there is no yaml-language-server here; `npm install yaml-language-server` brings it")
    (tmp_path / "workflow.schema.json").write_text(json.dumps(schema()))
    editor = Editor(tmp_path)
    yield editor
    editor.process.kill()
    editor.process.communicate()


def test_an_editor_underlines_what_is_wrong_and_explains_the_keys(editor: Editor) -> None:
    uri = editor.open("flow.yaml", FLOW)
    wrong = {(one["range"]["start"]["line"], one["message"]) for one in editor.told[uri]}
    assert any(line == 2 and "colour" in message for line, message in wrong), wrong
    assert any(line == 3 and "final" in message for line, message in wrong), wrong
    assert "The states, by name" in editor.hover(uri, 1, 2)
    assert "What kind of state it is" in editor.hover(uri, 2, 8)
    assert "latest result is read as" in editor.hover(uri, 2, 33)


def test_every_key_of_the_schema_says_what_it_is_for() -> None:
    bare: list[str] = []

    def look(value: Any, path: str) -> None:
        if isinstance(value, dict):
            for name, inner in (value.get("properties") or {}).items() if "/if" not in path else ():
                if isinstance(inner, dict) and not inner.get("description"):
                    bare.append(f"{path}/{name}")
            for name, inner in value.items():
                look(inner, f"{path}/{name}")
        elif isinstance(value, list):
            for at, inner in enumerate(value):
                look(inner, f"{path}/{at}")

    look(schema(), "")
    assert bare == []
