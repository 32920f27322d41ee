"""An exported journal is verified by the program in the docs, and whatever was done to it is found."""

import hashlib
import json
import random
import re
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests import doctext
from tests.surfaces.command import Detent, Done

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "journal-export.md"


@pytest.fixture
def detent(tmp_path: Path) -> Detent:
    (program,) = [block for block in doctext.blocks(PAGE.read_text()) if block.file == "verify_export.py"]
    doctext.save(program, tmp_path)
    detent = Detent(tmp_path)
    detent("run", "flows.py:QUICK", "--id", "quick", "--set", "text=na\u00efve \u2028 \U0001f600")
    detent("run", "flows.py:PLEA", "--id", "plea", "--set", "to=ann", code=3)
    detent("approve", "plea")
    detent("run", "flows.py:CHILD", "--id", "family", code=3)
    return detent


def verified(detent: Detent, lines: list[bytes]) -> Done:
    """What the documented verifier says of these lines, also without its asserts."""
    (detent.folder / "x.jsonl").write_bytes(b"".join(lines))
    command = [sys.executable, "-I", "-O", "verify_export.py", "x.jsonl"]
    done = subprocess.run(command, cwd=detent.folder, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    return Done(done.returncode, done.stdout, done.stderr)


def exported(detent: Detent, *which: str) -> list[bytes]:
    return detent("log", *which, "--export").out.encode().splitlines(keepends=True)


def test_the_verifier_uses_only_the_standard_library_and_agrees_with_show(detent: Detent) -> None:
    source = (detent.folder / "verify_export.py").read_text()
    assert set(re.findall(r"(?m)^(?:import|from) (\w+)", source)) <= sys.stdlib_module_names
    assert 25 <= len([line for line in source.split("def verify")[1].splitlines() if line.strip()]) <= 35
    for run in ("quick", "plea", "family"):
        said = verified(detent, exported(detent, run))
        assert said.out == f"ok {run} {detent('show', run, '--json').json['checkpoint']}\n"


def test_all_runs_are_exported_with_their_children_and_machines(detent: Detent) -> None:
    lines = exported(detent, "--all")
    rows = [json.loads(line) for line in lines]
    listed = [run["run_id"] for run in detent("list", "--json").json["runs"]]
    assert len(listed) == 4
    assert [row["run_id"] for row in rows if row["line"] == "run"] == listed
    assert len({row["digest"] for row in rows if row["line"] == "machine"}) == 4
    assert rows[-1]["runs"] == 4
    assert rows[-1]["events"] == sum(row["line"] == "event" for row in rows)
    assert verified(detent, lines).out.count("ok ") == 4


def test_an_export_is_written_whole_or_not_at_all(detent: Detent) -> None:
    assert detent("log", "quick", "--export", "out.jsonl", "--json").json["file"] == "out.jsonl"
    before = (detent.folder / "out.jsonl").read_bytes()
    assert before.splitlines(keepends=True) == exported(detent, "quick")
    with sqlite3.connect(detent.folder / ".detent" / "journal.db") as db:
        db.execute("update events set body = replace(body, 'na', 'NA') where seq = 1")
    said = detent("log", "quick", "--export", "out.jsonl", code=1)
    assert "run quick is damaged at event 1" in said.err
    assert (detent.folder / "out.jsonl").read_bytes() == before
    assert not list(detent.folder.glob(".out.jsonl*"))
    cut = detent("log", "quick", "--export", code=1).out
    assert '"line":"end"' not in cut


def test_what_cannot_be_meant_is_told(detent: Detent) -> None:
    assert "say which run" in detent("log", "--export", code=2).err
    assert "say which run" in detent("log", "quick", "--all", "--export", code=2).err
    assert "--all goes with" in detent("log", "--all", code=2).err
    assert "do not go together" in detent("log", "quick", "--export", "--verify", code=2).err
    assert "cannot write" in detent("log", "quick", "--export", "no/such/x", code=2).err
    said = detent("log", "--all", "--verify").out.splitlines()
    assert [line.partition("  ")[2][:3] for line in said] == ["ok:"] * 4
    assert len({line.partition("  ")[0] for line in said}) == 4, "each with the run it is about"


def test_every_changed_byte_is_found(detent: Detent) -> None:
    lines = exported(detent, "plea")
    whole = b"".join(lines)
    chance = random.Random(20_261_116)
    ends = len(whole) - len(lines[-1])
    places = [*sorted(chance.sample(range(ends), 60)), ends + whole[ends:].index(b'sha256":"') + 12]
    script = "import sys; sys.argv = ['', 'x.jsonl']; import verify_export as v\n"
    for number, place in enumerate(places):
        changed = bytearray(whole)
        changed[place] ^= 1 << chance.randrange(7)
        (detent.folder / f"{number}.jsonl").write_bytes(changed)
    script += (
        "for n in range(61):\n"
        "    try: v.verify(open(f'{n}.jsonl', 'rb')); print('unnoticed', n)\n"
        "    except (ValueError, KeyError, AttributeError, TypeError): print('found')\n"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, cwd=detent.folder, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["found"] * 61, done.stdout


def test_a_dropped_line_two_swapped_lines_and_a_cut_are_found(detent: Detent) -> None:
    lines = exported(detent, "plea")
    for at in range(len(lines)):
        assert verified(detent, lines[:at] + lines[at + 1 :]).code == 1, f"line {at + 1} dropped"
        assert verified(detent, lines[:at]).code == 1, f"cut after {at} lines"
        if at:
            swapped = [*lines[: at - 1], lines[at], lines[at - 1], *lines[at + 1 :]]
            assert verified(detent, swapped).code == 1, f"lines {at} and {at + 1} swapped"
    assert verified(detent, [*lines, lines[-1]]).code == 1
    assert verified(detent, [*lines[:-1], lines[-1][:-20]]).code == 1
    assert verified(detent, [b""]).code == 1


def test_even_a_new_seal_does_not_hide_a_change_in_a_run_and_a_kept_head_tells_a_cut_tail(detent: Detent) -> None:
    head = detent("show", "plea", "--json").json["checkpoint"]
    *lines, end = exported(detent, "plea")

    def sealed(lines: list[bytes]) -> list[bytes]:
        again = {**json.loads(end), "sha256": hashlib.sha256(b"".join(lines)).hexdigest()}
        return [*lines, json.dumps(again).encode()]

    assert verified(detent, sealed(lines)).code == 0
    events = [at for at, line in enumerate(lines) if json.loads(line)["line"] == "event"]
    changed = [line.replace(b"ann", b"bob") if at in events else line for at, line in enumerate(lines)]
    assert verified(detent, sealed(changed)).code == 1
    for at in events:
        assert verified(detent, sealed(lines[:at] + lines[at + 1 :])).code == 1
    # The one thing no chain can tell: a tail left out by somebody who writes the closing lines anew.
    last = json.loads(lines[events[-2]])
    forged = {**json.loads(lines[-1]), "events": last["seq"], "head": last["hash"]}
    cut = sealed([*lines[: events[-1]], json.dumps(forged).encode() + b"\n"])
    assert verified(detent, cut).code == 0
    assert head not in verified(detent, cut).out, "a head that was kept elsewhere does"
