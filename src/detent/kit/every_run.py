"""All runs of a journal, a page at a time."""

from collections.abc import Iterator

from detent.errors import JournalError
from detent.host.port import Reader
from detent.host.reading import Query, Summary

PAGE = 500


def walk_runs(reader: Reader, query: Query) -> Iterator[Summary]:
    """Every run that is meant, newest first; those that can be read come before the trouble with the others."""
    problems: list[str] = []
    query = query._replace(limit=PAGE)
    while reader.has_runs():
        page = reader.list(query)
        yield from page.runs
        problems += page.damaged
        query = query._replace(before=page.next)
        if not page.next:
            break
    if problems:
        raise JournalError(problems[0])
