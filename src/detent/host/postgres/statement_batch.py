"""Statements of one transaction that do not depend on each other, sent to the database as one."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import psycopg

JOINED_MAX = 12  # more are sent one by one: every length is a statement to prepare


class Statements:
    """Collects what a transaction writes; no two may be about one row, and nothing of it is read back."""

    def __init__(self) -> None:
        self._queries: list[str] = []
        self._values: list[Sequence[Any]] = []
        self._calls: list[tuple[str, Sequence[Any]]] = []

    def add(self, query: str, values: Sequence[Any] = ()) -> None:
        """Something to write: an insert, an update or a delete."""
        self._queries.append(query)
        self._values.append(values)

    def call(self, query: str, values: Sequence[Any]) -> None:
        """A function to call. The database would skip it inside of another statement."""
        self._calls.append((query, values))

    def send(self, connection: psycopg.Connection) -> None:
        """Send everything, as part of the connection's transaction."""
        if len(self._queries) > JOINED_MAX or len(self._calls) > 1:
            for query, values in (*zip(self._queries, self._values, strict=True), *self._calls):
                connection.execute(query, values)
            return
        for query, values in self._calls:
            self.add(query, values)
        if self._queries:
            connection.execute(_join(tuple(self._queries)), [value for values in self._values for value in values])


@lru_cache(maxsize=500)
def _join(queries: tuple[str, ...]) -> str:
    *first, last = queries
    if not first:
        return last
    return f"with {', '.join(f's{number} as ({query})' for number, query in enumerate(first))} {last}"
