"""The host of many machines: runs in PostgreSQL, carried out by any number of workers."""

from detent.host.postgres.host import PostgresHost

__all__ = ["PostgresHost"]
