"""Triggers through the real command: arming, firing, catching up, and what is said when nobody drives."""

import json
import os
import pwd
from pathlib import Path

import pytest

from tests.surfaces.command import Detent

FLOW = """
name: flow
triggers:
  day: {schedule: "30 2 * * *", timezone: Europe/Berlin}
  asked: {signal: wanted, schema: {who: string}, input: {who: "{{ event.data.who }}"}}
  came: {file: "in/*.txt", settle: 0s, existing: true, input: {who: "{{ event.name }}"}}
input: {who: {type: string, default: nobody}}
states:
  a:
    type: initial
    actions:
      - {id: w, tool: files.append, key: "{{ run.id }}", params: {path: out, text: "{{ context.who }} "}}
  z: {type: final}
transitions: [{from: a, to: z}]
"""


@pytest.fixture
def detent(tmp_path: Path) -> Detent:
    return Detent(tmp_path)


def test_a_file_is_armed_and_its_runs_begin_once(detent: Detent) -> None:
    folder = detent.folder
    (folder / "flow.yaml").write_text(FLOW)
    assert "Nothing drives them now" in detent("trigger", "add", "flow.yaml").out
    detent("trigger", "send", "wanted", "--data", '{"who": "ann"}', "--id", "1")
    assert "Nothing new" in detent("trigger", "send", "wanted", "--data", '{"who": "bob"}', "--id", "1").out
    (folder / "in").mkdir()
    (folder / "in" / "x.txt").write_text("x")
    for _ in range(2):
        detent("trigger", "run-due")
    assert (folder / "out").read_text() == "ann x.txt "
    first = json.loads(detent("trigger", "backfill", "day", "--from", "2026-03-28", "--to", "2026-03-30", "--json").out)
    assert first["started"] == ["flow-day-20260328T013000Z", "flow-day-20260329T010000Z"]
    again = json.loads(detent("trigger", "backfill", "day", "--from", "2026-03-28", "--to", "2026-03-30", "--json").out)
    assert (again["started"], again["known"]) == ([], first["started"])
    listed = json.loads(detent("list", "--json").out)["runs"]
    assert {run["name"] for run in listed} == {"flow"}, "the triggers themselves are not among the runs"


NIGHTS = """
name: nights
states:
  a:
    type: initial
    actions:
      - {id: note, tool: shell, effect: idempotent,
         params: {argv: [sh, -c, "echo {{ context.trigger.planned }} >> seen; test ! -e broken"]}}
  z: {type: final}
transitions: [{from: a, to: z}]
triggers: {night: {schedule: "0 2 * * *"}}
"""


def test_a_backfill_begins_in_order_and_a_dry_one_lists_only_what_it_would_start(detent: Detent) -> None:
    (detent.folder / "nights.yaml").write_text(NIGHTS)
    detent("trigger", "add", "nights.yaml")
    march = ("trigger", "backfill", "night", "--from", "2026-03-10", "--to", "2026-03-15", "--json")
    detent("trigger", "fire", "night", "--at", "2026-03-12T02:00")
    said = detent("trigger", "fire", "night", "--at", "2026-03-12", code=2).err
    assert "no planned time 2026-03-12; the next one is 2026-03-12T02:00:00+00:00" in said
    listed = json.loads(detent(*march, "--dry-run").out)
    assert [one[-16:-8] for one in listed["started"]] == ["20260310", "20260311", "20260313", "20260314"]
    assert [one[-16:-8] for one in listed["known"]] == ["20260312"]
    assert json.loads(detent(*march).out)["started"] == listed["started"]
    nights = [line[:10] for line in (detent.folder / "seen").read_text().split()]
    assert nights == ["2026-03-12", "2026-03-10", "2026-03-11", "2026-03-13", "2026-03-14"]
    assert "Nothing new: 5" in detent(*march[:-1], "--dry-run").out


def test_cron_is_told_of_a_run_that_failed(detent: Detent) -> None:
    (detent.folder / "nights.yaml").write_text(NIGHTS)
    detent("trigger", "add", "nights.yaml")
    detent.touch("broken")
    said = detent("trigger", "fire", "night", "--json", code=1).json
    assert (said["ok"], said["failed"]) == (False, said["started"])
    assert "failed" in detent("trigger", "backfill", "night", "--from", "2026-03-10", "--to", "2026-03-11", code=1).out
    (detent.folder / "broken").unlink()
    assert detent("trigger", "fire", "night", "--json").json["failed"] == []
    detent("trigger", "run-due")


def test_a_viewer_fires_nothing_and_whoever_armed_it_has_begun_it(detent: Detent) -> None:
    (detent.folder / "flow.yaml").write_text(FLOW)
    detent("people", "add", "ada", "--role", "admin", "--os-user", pwd.getpwuid(os.getuid()).pw_name)
    vic = detent("people", "add", "vic", "--role", "viewer", "--token", "--json").json["token"]
    detent("trigger", "add", "flow.yaml")
    asked = ("send", "wanted", "--data", '{"who": "vic"}')
    for words in (("fire", "day"), asked, ("backfill", "day", "--from", "2026-03-28")):
        assert "takes the role operator" in detent("trigger", *words, DETENT_TOKEN=vic, code=2).err
    detent("trigger", "send", "wanted", "--data", '{"who": "ann"}', "--id", "1")
    started = json.loads(detent("log", "last", "--json").out.splitlines()[0])["event"]
    assert (started["by"], started["spoken_by"]) == ("trigger:flow.asked", "ada")


def test_what_is_wrong_with_a_signal_is_said_and_starts_nothing(detent: Detent) -> None:
    (detent.folder / "flow.yaml").write_text(FLOW)
    detent("trigger", "add", "flow.yaml")
    said = json.loads(detent("trigger", "send", "wanted", "--data", '{"who": 7}', "--json").out)
    assert said["started"] == []
    assert "who must be string" in said["skipped"][0]
    assert "no armed trigger" in detent("trigger", "send", "other", code=2).err


def test_a_changed_file_counts_when_it_is_armed_again(detent: Detent) -> None:
    path: Path = detent.folder / "flow.yaml"
    path.write_text(FLOW)
    detent("trigger", "add", "flow.yaml")
    path.write_text(FLOW.replace("default: nobody", "default: somebody"))
    assert "has changed since" in detent("trigger", "list").out
    detent("trigger", "fire", "day")
    assert (detent.folder / "out").read_text() == "nobody "
    detent("trigger", "add", "flow.yaml")
    assert "has changed" not in detent("trigger", "list").out
    detent("trigger", "fire", "day")
    assert (detent.folder / "out").read_text() == "nobody somebody "
    path.write_text(FLOW.replace("  asked: {signal", "  other: {signal"))
    detent("trigger", "add", "flow.yaml")
    names = {one["name"] for one in json.loads(detent("trigger", "list", "--json").out)["triggers"]}
    assert names == {"flow.day", "flow.came", "flow.other"}
    detent("trigger", "remove", "flow.yaml")
    assert "No trigger is armed" in detent("trigger", "list").out
    assert "no trigger `day`" in detent("trigger", "fire", "day", code=2).err


def test_next_says_when_and_what_a_clock_change_does(detent: Detent) -> None:
    (detent.folder / "flow.yaml").write_text(FLOW)
    assert "Nothing is planned" in detent("next").out
    detent("trigger", "add", "flow.yaml")
    planned = json.loads(detent("next", "--count", "400", "--json").out)["next"]
    assert len(planned) == 400
    assert {one.get("clock_change") for one in planned} == {None, "moved", "once"}
    detent("trigger", "pause", "day")
    assert "Nothing is planned" in detent("next").out
