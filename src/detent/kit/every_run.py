"""All runs of a journal, a page at a time."""

from collections.abc import Iterator

from detent.errors import JournalError
from detent.host.reading import Query, Summary
from detent.kit.terminal.caller import Caller

PAGE = 500


def every(caller: Caller, name: str = "") -> Iterator[Summary]:
    """All runs, newest first, a page at a time; those that can be read come before the trouble with the others."""
    before, problems = 0, list[str]()
    while True:
        page = caller.reader.list(Query(name=name, before=before, limit=PAGE))
        yield from page.runs
        problems += page.damaged
        before = page.next
        if not before:
            break
    if problems:
        raise JournalError(problems[0])
