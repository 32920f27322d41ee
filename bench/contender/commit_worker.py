"""What no host on PostgreSQL can be quicker than: two processes that tell each other, and commit one row each.

`ADDRESS`: wait for a word, take what it is about, commit one row and say so, until killed.
"""

import sys
import time
from typing import Self

import psycopg

IDLE_S = 0.03
PREPARE = "create table asked (no int primary key, is_taken bool not null);create table said (no int primary key)"
ASK = "insert into asked values (%s, false)"
TAKE = "update asked set is_taken = true where no = %s and set_config('synchronous_commit', 'off', true) <> ''"
SAY = "insert into said values (%s)"
NOTIFY = "select pg_notify(%s, %s)"


def prepare(address: str) -> None:
    """Make the tables."""
    with psycopg.connect(address, autocommit=True) as db:
        db.execute(PREPARE)


def write(db: psycopg.Connection, query: str, channel: str, number: int) -> None:
    """Commit one row, which waits for the disk, and tell the other process, in one message."""
    with db.pipeline():
        db.execute(query, (number,))
        db.execute(NOTIFY, (channel, str(number)))


class Front:
    """The side that asks."""

    def __init__(self, address: str) -> None:
        self._db = psycopg.connect(address, autocommit=True)
        self._ear = psycopg.connect(address, autocommit=True)
        self._ear.execute("listen said")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._ear.close()
        self._db.close()

    def ask(self, number: int) -> float:
        """How long it takes until the other side has committed its row and said so."""
        time.sleep(IDLE_S)
        begun = time.perf_counter()
        write(self._db, ASK, "asked", number)
        for heard in self._ear.notifies(timeout=60):
            if heard.payload == str(number):
                return time.perf_counter() - begun
        raise TimeoutError


def work(address: str) -> None:
    """Answer every word, until killed."""
    with psycopg.connect(address, autocommit=True) as db, psycopg.connect(address, autocommit=True) as ear:
        ear.execute("listen asked")
        print("ready", flush=True)
        for heard in ear.notifies():
            number = int(heard.payload)
            db.execute(TAKE, (number,))
            write(db, SAY, "said", number)


if __name__ == "__main__":
    work(sys.argv[1])
