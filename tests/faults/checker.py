"""Proves from the files alone that a home is sound: reads SQLite and a ledger, and knows nothing of detent.

    python checker.py JOURNAL LEDGER ACKNOWLEDGED

The ledger is written by the outside world, one JSON line for each deed: what it was told (`key`, `run_id`,
`contract_id`) and what it saw in the journal at that moment with its own eyes (`seq` and `head` of the run,
`claimed_by` of the key). Acknowledged are JSON lines too: the `run_id`, `seq` and `head` that a caller was told.
Only the standard library is used.
"""

import hashlib
import json
import sqlite3
import sys
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

# Words that say that a deed has not happened: only a person or a probe may speak them.
DENIERS = ("probe", "evidence")


def look(journal: Path, run_id: str, key: str) -> dict[str, Any]:
    """What stands on disk now about a run and a key, for whoever is about to do a deed."""
    db = sqlite3.connect(f"file:{journal}?mode=ro", uri=True)
    try:
        seq, head = db.execute("select seq, head from runs where run_id = ?", (run_id,)).fetchone()
        claim = db.execute("select run_id, contract_id from claims where key = ?", (key,)).fetchone()
    finally:
        db.close()
    return {"seq": seq, "head": bytes(head).hex(), "claimed_by": " ".join(claim) if claim else ""}


def head_at(journal: Path, run_id: str, seq: int) -> str:
    """The hash of an event as it stands on disk now."""
    db = sqlite3.connect(f"file:{journal}?mode=ro", uri=True)
    try:
        asked = "select hash from events join runs on runs.no = events.run where run_id = ? and events.seq = ?"
        return bytes(db.execute(asked, (run_id, seq)).fetchone()[0]).hex()
    finally:
        db.close()


def check(journal: Path, ledger: Path, acknowledged: Path) -> list[str]:
    """Everything that is wrong; nothing when all is well."""
    db = sqlite3.connect(f"file:{journal}?mode=ro", uri=True)
    try:
        runs = {run_id: (no, seq, bytes(head)) for run_id, no, seq, head in
                db.execute("select run_id, no, seq, head from runs")}  # fmt: skip
        events = {run_id: list(db.execute("select seq, body, hash from events where run = ? order by seq", (no,)))
                  for run_id, (no, _, _) in runs.items()}  # fmt: skip
        claims = {key: f"{run} {contract}" for key, run, contract in
                  db.execute("select key, run_id, contract_id from claims")}  # fmt: skip
    finally:
        db.close()
    deeds, said = list(_lines(ledger)), list(_lines(acknowledged))
    problems = [problem for run_id in runs for problem in _broken(run_id, runs[run_id], events[run_id])]
    heads = {run_id: [bytes(row[2]).hex() for row in rows] for run_id, rows in events.items()}
    problems += [f"an acknowledged event is missing: {one}" for one in said if not _stands(heads, one)]
    problems += [f"the journal forgot what led to a deed: {one}" for one in deeds if not _stands(heads, one)]
    problems += [
        f"a deed that was not claimed before: {one}"
        for one in deeds
        if one["claimed_by"] != f"{one['run_id']} {one['contract_id']}"
    ]
    return problems + list(_repeated(deeds, events)) + list(_invented(deeds, events, claims))


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    if file.exists():
        for line in file.read_text().splitlines():
            yield json.loads(line)


def _broken(run_id: str, row: tuple[int, int, bytes], events: list[Any]) -> Iterator[str]:
    """What is wrong with a run's chain."""
    head = hashlib.sha256(run_id.encode()).digest()
    for number, (seq, body, stored) in enumerate(events, 1):
        head = hashlib.sha256(head + bytes(body)).digest()
        if seq != number or head != bytes(stored):
            yield f"{run_id}: event {number} is not what was written"
            return
    if (len(events), head) != row[1:]:
        yield f"{run_id}: the list says {row[1]} events, there are {len(events)}"


def _stands(heads: dict[str, list[str]], one: dict[str, Any]) -> bool:
    """Whether the journal still has that event of that run, with that hash."""
    chain = heads.get(one["run_id"], [])
    return 0 < one["seq"] <= len(chain) and bool(chain[one["seq"] - 1] == one["head"])


def _repeated(deeds: list[dict[str, Any]], events: dict[str, list[Any]]) -> Iterator[str]:
    """Deeds done twice although nobody said that the first had not happened."""
    by_key: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for deed in deeds:
        by_key[deed["key"]].append(deed)
    for key, same in by_key.items():
        for first, second in pairwise(same):
            between = (
                events[second["run_id"]][first["seq"] : second["seq"]] if first["run_id"] == second["run_id"] else []
            )
            if not any(_denies(json.loads(bytes(body)), second["contract_id"]) for _, body, _ in between):
                yield f"done twice without a word: {key}: {first} {second}"


def _denies(event: dict[str, Any], contract_id: str) -> bool:
    if event.get("event") != "moved" or event.get("contract_id") != contract_id or event.get("trigger") != "resume":
        return False
    answer = event.get("result") or {}
    is_somebody = bool(answer.get("by")) or event.get("actor") in DENIERS
    return answer.get("outcome") == "not_happened" and is_somebody


def _invented(deeds: list[dict[str, Any]], events: dict[str, list[Any]], claims: dict[str, str]) -> Iterator[str]:
    """Deeds that the journal calls done and the world has not seen, and deeds whose key is free again."""
    done = {(deed["run_id"], deed["contract_id"]): deed["key"] for deed in deeds}
    for run_id, rows in events.items():
        for _, body, _ in rows:
            event = json.loads(bytes(body))
            result = event.get("result")
            if event.get("event") == "moved" and isinstance(result, dict) and result.get("outcome") == "happened":
                result = result.get("result")
            is_success = event.get("trigger") in ("succeed", "resume") and isinstance(result, dict) and "deed" in result
            if is_success and (run_id, event["contract_id"]) not in done:
                yield f"{run_id} {event['contract_id']} says it did {result['deed']}, and the world knows nothing of it"
    for owner, key in done.items():
        if claims.get(key) != " ".join(owner):
            yield f"the key of a deed that was done is free: {key} of {' '.join(owner)}"


if __name__ == "__main__":
    found = check(*map(Path, sys.argv[1:4]))
    print("\n".join(found) or "ok")
    sys.exit(bool(found))
