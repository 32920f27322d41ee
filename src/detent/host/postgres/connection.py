"""A PostgreSQL database as a home: its address, and connections to it from any thread.

A password belongs into the environment (`PGPASSWORD`), a password file or a service file; `host.address` refuses one in
an address. No message of ours repeats an address as given.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any, ParamSpec, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from detent.errors import JournalError, Refused

SCHEMA_NAME = "detent"
CONNECTIONS_MAX = 8
CONNECT_S = 5.0  # how long a connection may take
ACQUIRE_S = 10.0  # how long one may wait for a connection of the pool
ATTEMPT_S = 1.0  # the pool tries to connect when somebody asks it, and not again while he waits
# Whatever is asked is prepared the first time. The driver would count to five, and would then take for prepared what a
# message never came to that failed before it.
PREPARED_AFTER = 0
# A process that cannot be reached must not hold a run: the server ends what it left open, and it notices by itself.
IDLE_S = 15.0
IDLE = f"idle_in_transaction_session_timeout={int(1000 * IDLE_S)}"
# It ends no process that stopped inside of a message: to the server that one is still busy. Others end it.
END_STANDING = (
    "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database()"
    " and usename = current_user and application_name = current_setting('application_name')"
    " and xact_start is not null and state = 'active' and wait_event = 'ClientRead'"
    " and query_start < clock_timestamp() - make_interval(secs => %s)"
)
KEEPALIVE = {"keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3, "tcp_user_timeout": 15000}

DROPPED = "unsupported startup parameter"
POOLER = "a pooler is in front of it that drops what a connection needs; give the address of the server itself"

# What goes wrong with a connection is told to whoever asked for it, without the address.
logging.getLogger("psycopg").setLevel(logging.CRITICAL)

Q = ParamSpec("Q")
R = TypeVar("R")

# Of a server that became a standby, or that was told to take no writes until its disk has room again.
READ_ONLY = psycopg.errors.ReadOnlySqlTransaction
# The connection is gone, or cannot be had, or cannot write: what was asked may be asked again.
GONE = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    PoolTimeout,
    psycopg.errors.InvalidSqlStatementName,
    psycopg.errors.IdleInTransactionSessionTimeout,
    READ_ONLY,
)
# The server does not know, or does not write: the pool makes another connection.
USELESS = {psycopg.errors.InvalidSqlStatementName, READ_ONLY}


def read_address(address: str) -> dict[str, Any]:
    """The parts of an address; Refused where it is none."""
    try:
        return dict(conninfo_to_dict(address))
    except psycopg.Error:
        raise Refused("this is not the address of a database; write postgresql://HOST/DATABASE") from None


def describe_address(known: dict[str, Any]) -> str:
    """A database in a few words, without what nobody else should know."""
    place = known.get("host") or known.get("hostaddr") or known.get("service") or "localhost"
    port = f":{known['port']}" if known.get("port") else ""
    return f"postgresql://{place}{port}/{known.get('dbname') or ''}"


class Database:
    """Connections to one database, each used by one thread at a time."""

    def __init__(self, address: str, *, connections_max: int = CONNECTIONS_MAX) -> None:
        known = read_address(address)
        self.name = describe_address(known)
        options = f"{known.pop('options', None) or ''} -c search_path={SCHEMA_NAME} -c {IDLE}".strip()
        usual = {"connect_timeout": int(CONNECT_S), "fallback_application_name": SCHEMA_NAME, **KEEPALIVE}
        for setting, value in usual.items():
            known.setdefault(setting, value)
        self.conninfo = make_conninfo("", **known, options=options)
        self._known = {**known, "options": options}
        self._pool = ConnectionPool(
            self.conninfo,
            min_size=1,
            max_size=connections_max,
            kwargs={"autocommit": True, "prepare_threshold": PREPARED_AFTER},
            open=False,
            reconnect_timeout=0.0,
            num_workers=1,
            name="detent",
        )
        self._threads = ThreadPoolExecutor(connections_max, thread_name_prefix="detent-postgres")
        self._is_open = False

    def add_option(self, setting: str) -> str:
        """The address for connections with another setting."""
        return make_conninfo("", **{**self._known, "options": f"{self._known['options']} -c {setting}"})

    def open(self) -> None:
        """Begin; raises where the database does not answer."""
        if self._is_open:
            return
        try:
            with psycopg.connect(self.conninfo, autocommit=True) as first:  # the pool would only say that it waited
                row = first.execute("select current_setting('search_path')").fetchone()
        except psycopg.Error as error:
            why = POOLER if DROPPED in str(error) else explain(error)
            raise JournalError(f"cannot open {self.name}: {why}") from None
        if row is None or row[0] != SCHEMA_NAME:
            raise JournalError(f"cannot open {self.name}: {POOLER}")
        self._pool.open()
        self._is_open = True

    def close(self) -> None:
        """Let go."""
        self._is_open = False
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._pool.close(timeout=1.0)

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection]:
        """A connection of one's own while the block goes on; what is not committed then never was."""
        self.open()
        try:
            with ExitStack() as lent:
                connection = self._lend(lent)
                with _close_useless(connection):
                    yield connection
        except PoolClosed:
            raise JournalError(f"{self.name}: this host is closed") from None

    def _lend(self, lent: ExitStack) -> psycopg.Connection:
        until = time.monotonic() + ACQUIRE_S
        while True:
            try:
                return lent.enter_context(self._pool.connection(ATTEMPT_S))
            except PoolTimeout:
                if time.monotonic() > until:
                    raise

    async def aside(self, do: Callable[Q, R], *args: Q.args, **given: Q.kwargs) -> R:
        """Do something with the database in a thread, so that nobody else waits for it."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: do(*args, **given))


@contextmanager
def _close_useless(connection: psycopg.Connection) -> Iterator[None]:
    """Let go of a connection whose server does not know what the driver takes for prepared, or takes no writes."""
    try:
        yield
    except Exception as error:
        if not USELESS.isdisjoint((type(error), type(error.__cause__))):
            connection.close()
        raise


@contextmanager
def told_plainly(name: str) -> Iterator[None]:
    """What the database says against it, as a sentence for people."""
    try:
        yield
    except (psycopg.Error, PoolTimeout) as error:
        raise JournalError(f"{name}: {explain(error)}") from error


def join_messages(connection: psycopg.Connection, count: int) -> AbstractContextManager[object]:
    """Send several statements as one message; one alone is quicker as it is."""
    return connection.pipeline() if count > 1 else nullcontext()


def is_gone(error: BaseException) -> bool:
    """Whether an error only says that the database could not be asked just then."""
    return isinstance(error, GONE) or isinstance(error.__cause__, GONE)


def explain(error: BaseException) -> str:
    """What the database says, in one line and without the address it was asked at."""
    if isinstance(error, PoolTimeout):
        return "the database does not answer"
    diag = getattr(error, "diag", None)
    text = " ".join(((diag.message_primary if diag is not None else "") or str(error)).split())[:300]
    if isinstance(error, READ_ONLY):
        return f"the database takes no writes now ({text})"
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return f"this role lacks a right ({text}); whoever called `detent db init` can grant it"
    return text
