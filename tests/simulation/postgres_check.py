"""Reads what a chaos test has left, in the tables and the ledger; knows nothing of detent but the names of its columns.

    python -m tests.simulation.postgres_check ADDRESS LEDGER ANSWERS KEYS

Runs are known by how their ids begin: k, p and e must have completed, and their key is in the ledger once; d are two
runs for the same two keys, in opposite order, of which one may be refused; c were cancelled, and did their deed at most
once.
"""

import hashlib
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import psycopg

Db = psycopg.Connection[Any]
ENDED = {"completed", "failed", "cancelled", "rejected"}


def check(address: str, ledger: Path, answers: Path, keys: int) -> list[str]:
    """What is wrong, as sentences."""
    done = Counter(ledger.read_text().split())
    wrong = [f"{key} was done {count} times" for key, count in done.items() if count > 1]
    missing = [key for key in expected_keys(keys) if not done[key] and not key.startswith("c")]
    wrong += [f"{key} was never done" for key in missing]
    with psycopg.connect(address, options="-c search_path=detent") as db:
        wrong += check_runs(db)
        wrong += check_chains(db)
        wrong += check_answers(db, answers)
        for question, expected in (
            ("select count(*) from work", 0),
            ("select count(*) from procrastinate_jobs where scheduled_at is null or scheduled_at < now()", 0),
            ("select count(*) from runs where alarms <> ''", 0),
        ):
            (count,) = db.execute(question).fetchone() or (None,)
            if count != expected:
                wrong.append(f"{question}: {count}, not {expected}")
        wrong += check_claims(db, done)
        (swept,) = db.execute("select value from meta where name = 'swept'").fetchone() or ("",)
        print("deeds:", sum(done.values()), "swept:", swept)
    return wrong


def expected_keys(keys: int) -> list[str]:
    """What the ledger must have."""
    return [name for number in range(keys) for name in name_keys(number)]


def name_keys(number: int) -> list[str]:
    """The keys of the n-th thing to do: of ten, one is a pair, one has a child, one is cancelled."""
    kind = "kkkkkkpedc"[number % 10]
    return [f"d{number}a", f"d{number}b"] if kind == "d" else [] if kind == "e" else [f"{kind}{number}"]


def check_runs(db: Db) -> list[str]:
    wrong = []
    for run_id, status in db.execute("select run_id, status from runs"):
        allowed = {"d": {"completed", "failed", "rejected"}, "c": ENDED}.get(run_id[0], {"completed"})
        if status not in allowed:
            wrong.append(f"run {run_id} is {status}")
    return wrong


def check_chains(db: Db) -> list[str]:
    wrong = []
    for no, run_id, head in db.execute("select no, run_id, head from runs").fetchall():
        hashed, expected = hashlib.sha256(run_id.encode()).digest(), 0
        for seq, body, kept in db.execute("select seq, body, hash from events where run = %s order by seq", (no,)):
            hashed, expected = hashlib.sha256(hashed + body).digest(), expected + 1
            if (seq, kept) != (expected, hashed):
                wrong.append(f"the chain of {run_id} is broken at {seq}")
        if hashed != head:
            wrong.append(f"the chain of {run_id} does not end at its head")
    return wrong


def check_answers(db: Db, answers: Path) -> list[str]:
    """Every answer that was taken is an event of its run, once."""
    wrong = []
    given_to = Counter(tuple(json.loads(line)) for line in answers.read_text().splitlines())
    for (run_id, contract_id), times in given_to.items():
        asked = (
            "select count(*) from events join runs on runs.no = events.run where run_id = %s"
            " and position(%s::bytea in body) > 0 and position(%s::bytea in body) > 0"
        )
        given = (run_id, f'"contract_id":"{contract_id}"'.encode(), b'"ann"')
        (count,) = db.execute(asked, given).fetchone() or (0,)
        if count != times:
            wrong.append(f"{times} answers to {run_id} {contract_id} were taken, {count} are kept")
    return wrong


def check_claims(db: Db, done: Counter[str]) -> list[str]:
    """Everything that was done is claimed."""
    claimed = {run_id for (run_id,) in db.execute("select run_id from claims")}
    runs = {key for key in done if key[0] in "kc"}
    return [f"{key} was done and is not claimed" for key in sorted(runs - claimed)]


if __name__ == "__main__":
    found = check(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]))
    print("\n".join(found[:50]) or "nothing was done twice, nothing is lost, nothing is stuck")
    sys.exit(bool(found))
