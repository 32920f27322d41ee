"""Families: a run with the runs it was started by and those it has started, at any depth.

A parent only waits for its child and is at rest meanwhile; so whoever takes up one of a family takes up all of it.
"""

from detent.errors import Unknown
from detent.host.parts.journal_query import AnyJournal
from detent.host.reading import Member

# A child's `parent` is "RUN CONTRACT", and the sign after a blank is `!`: the range is all children of a run.
KIN = (
    "with recursive kin (run_id) as (select run_id from runs where run_id = ?"
    " union select child.run_id from kin join runs child"
    " on child.parent > kin.run_id || ' ' and child.parent < kin.run_id || '!' and child.parent <> '')"
    " select runs.run_id, runs.parent, runs.status, runs.seq from kin join runs on runs.run_id = kin.run_id"
    " order by runs.no"
)
PARENT = "select parent from runs where run_id = ?"
CHILDREN = (
    "select child.run_id, child.parent, child.status in ('completed', 'failed', 'rejected', 'cancelled')"
    " from runs child left join runs parent on parent.run_id = substr(child.parent, 1,"
    " instr(child.parent, ' ') - 1) where child.parent <> ''"
    " and (child.status in ('pending', 'running', 'waiting') or parent.status in ('waiting', 'running'))"
    " order by child.no"
)


def first_of(journal: AnyJournal, run_id: str) -> str:
    """The run that a family began with."""
    while (rows := journal.rows(PARENT, (run_id,))) and rows[0][0]:
        above = rows[0][0].partition(" ")[0]
        if not journal.rows(PARENT, (above,)):
            break  # it is not in this journal any more
        run_id = above
    return run_id


def family(journal: AnyJournal, run_id: str) -> list[Member]:
    """Every run of a run's family, parents before their children."""
    with journal.one_moment():
        found = [Member(*row) for row in journal.rows(KIN, (first_of(journal, run_id),))]
    if not found:
        raise Unknown(f"there is no run {run_id}")
    return found


def children(journal: AnyJournal) -> list[tuple[str, str, bool]]:
    """Runs that a parent may still have to hear of, or to end: (run id, "parent contract", has it ended)."""
    return [(row[0], row[1], bool(row[2])) for row in journal.rows(CHILDREN, ())]
