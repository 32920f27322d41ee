"""What no host on PostgreSQL can be quicker than: two processes, a word from one to the other and back, a commit each.

`work ADDRESS` waits for a word, takes what it is about, commits one row and says so. `prepare` makes the tables.
"""

import sys

import psycopg

PREPARE = (
    "drop table if exists asked, said; create table asked (no int primary key, is_taken bool not null);"
    "create table said (no int, who text, primary key (no, who))"
)
TAKE = "update asked set is_taken = true where no = %s and set_config('synchronous_commit', 'off', true) <> ''"


def prepare(address: str) -> None:
    """Make the tables."""
    with psycopg.connect(address, autocommit=True) as db:
        db.execute(PREPARE)


def say(db: psycopg.Connection, no: int, who: str) -> None:
    """Commit one row, which waits for the disk, and tell the other, which does not; in one message."""
    with db.pipeline():
        if who == "front":
            db.execute("insert into asked values (%s, false)", (no,))
        else:
            db.execute("insert into said values (%s, %s)", (no, who))
        db.execute("select pg_notify(%s, %s)", (who, str(no)))


def work(address: str) -> None:
    """Answer every word, until killed."""
    with (
        psycopg.connect(address, autocommit=True) as db,
        psycopg.connect(address, autocommit=True) as ear,
    ):
        ear.execute("listen front")
        print("ready", flush=True)
        for heard in ear.notifies():
            db.execute(TAKE, (int(heard.payload),))
            say(db, int(heard.payload), "worker")


if __name__ == "__main__":
    work(sys.argv[2])
