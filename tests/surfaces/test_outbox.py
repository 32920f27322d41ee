"""Messages to whoever started a run, on the command line."""

import json
from pathlib import Path

from tests.surfaces.command import Detent

FLOW = """\
states: {a: {type: initial, actions: [{id: look, tool: files.read, params: {path: nowhere}}]}, late: {type: final}}
transitions: []
error_handlers: [{action: notify_requester, fallback_state: late, message: "cannot read"}]
"""


def test_a_message_is_in_the_file_and_shown_with_the_run(tmp_path: Path) -> None:
    detent = Detent(tmp_path)
    (tmp_path / "flow.yaml").write_text(FLOW)
    detent("run", "flow.yaml", "--by", "ann")
    (line,) = (tmp_path / ".detent" / "outbox.jsonl").read_text().splitlines()
    assert (json.loads(line)["to"], json.loads(line)["message"]) == ("ann", "cannot read")
    (note,) = detent("show", "last", "--json").json["outbox"]
    assert (note["key"], note["delivered_at"] > 0) == (json.loads(line)["key"], True)
    assert "told ann: " in detent("show", "last").out
    assert "message to ann: " in detent("log", "last").out
    assert "DETENT_NOTIFY" in detent("run", "flow.yaml", code=2, DETENT_NOTIFY="pigeon").err
