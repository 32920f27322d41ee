"""The server as a process: it binds, opens the journal, takes up its runs, serves, and lets go in time."""

import asyncio
import contextlib
import ipaddress
import resource
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from detent.core.effect_type import Effect
from detent.errors import Refused
from detent.host import open_host
from detent.host.port import FindEffects
from detent.kit.people_file import PeopleFile, has_people
from detent.surfaces.server.application import application
from detent.surfaces.server.authentication import COOKIE
from detent.surfaces.server.definition_library import Library
from detent.surfaces.server.mcp_mount import agents_welcome
from detent.surfaces.server.notice import Notifier
from detent.surfaces.server.periodic_task import upkeep
from detent.surfaces.server.request_gate import HEAD_BYTES, Gate
from detent.surfaces.server.server_context import HttpServer, open_room
from detent.surfaces.server.setting import ServerSettings
from detent.surfaces.server.tracing import RunTracer
from detent.surfaces.server.trigger_routes import drive_triggers
from detent.surfaces.server.webhook import Courier, sender

STREAMS_S = 1.5  # how long open requests may take after the signal to stop
EFFECTS_S = 1.0  # and then the effects that are at work; what is cut off is recovered at the next start
FILES_WANTED = 8192
TOKEN_MIN = 16


class ServePlan(NamedTuple):
    """What the server was told on its command line."""

    home: Path
    folder: Path
    host: str = "127.0.0.1"
    port: int = 8410
    token: str = ""
    definitions: tuple[str, ...] = ()
    user: str = ""


class Served(NamedTuple):
    """A server that answers now."""

    address: str
    room: HttpServer
    stop: Callable[[], None]
    done: "asyncio.Task[None]"


def is_loopback(host: str) -> bool:
    """Whether an address is only reached from this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_token(path: Path) -> str:
    """The token that a file holds."""
    try:
        token = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"cannot read the token from {path}: {getattr(error, 'strerror', None) or error}") from None
    if len(token) < TOKEN_MIN or not token.isascii() or not token.isprintable() or " " in token:
        raise Refused(f"{path} must hold one token of at least {TOKEN_MIN} plain characters")
    return token


@contextlib.asynccontextmanager
async def serving(
    plan: ServePlan,
    settings: ServerSettings,
    effects: Mapping[str, Effect] | None = None,
    find_effects: FindEffects | None = None,
    **driving: Any,
) -> AsyncIterator[Served]:
    """A server that works while the block does, and lets go within three seconds."""
    if not is_loopback(plan.host) and not has_people(plan.home):
        raise Refused(
            f"on {plan.host} others can reach this server, and nobody here says who they are: say who may do what"
            " first, with `detent people add NAME --role approver --token`"
        )
    driving.setdefault("people", PeopleFile(plan.home))
    with bind_socket(plan.host, plan.port) as listener:
        notifier = Notifier(settings)
        given = [*(effects or {}).values(), sender(settings), *notifier.effects()]
        library = Library(plan.folder, (*plan.definitions, *settings.definitions))
        async with (
            open_host(plan.home, given, find_effects, grace_s=EFFECTS_S, **driving) as host,
            open_room(host, plan.home, library, settings) as room,
            agents_welcome(room, plan.folder),
        ):
            room.user = plan.user
            notifier.room = room
            if host.is_holder:
                await host.recover()  # else the process that has the journal drives it
            async with asyncio.TaskGroup() as tasks:
                caretakers = [tasks.create_task(Courier(room).run()), tasks.create_task(host.succeed())]
                caretakers.append(tasks.create_task(notifier.run()))
                caretakers.append(tasks.create_task(drive_triggers(room)))
                caretakers += [tasks.create_task(work) for work in upkeep(settings, plan.home)]
                if settings.traces is not None:
                    caretakers.append(tasks.create_task(RunTracer(room, settings.traces).run()))
                room.reception.cookie_name = f"{COOKIE}_{listener.getsockname()[1]}"  # cookies do not know ports
                server = Server(room, plan, settings)
                done = tasks.create_task(server.serve(sockets=[listener]))
                try:
                    await server.answering()
                    yield Served(_address(plan.host, listener), room, server.stop, done)
                finally:
                    server.stop()
                    await asyncio.wait([done])
                    for one in caretakers:
                        one.cancel()


class Server(uvicorn.Server):
    """uvicorn with our own way to stop, and with a limit on how long a connection may say nothing."""

    def __init__(self, room: HttpServer, plan: ServePlan, settings: ServerSettings) -> None:
        self._room = room
        self._is_answering = asyncio.Event()
        limits = settings.limits
        gate = Gate(settings, plan.token, hosts=[plan.host], reception=room.reception)
        config = uvicorn.Config(
            application(room, gate),
            http=_protocol(limits.connections, limits.head_seconds),
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=max(1, round(STREAMS_S)),
            timeout_keep_alive=30,
            h11_max_incomplete_event_size=HEAD_BYTES,
        )
        super().__init__(config)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the business of whoever runs the process."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen, and say so."""
        await super().startup(sockets)
        self._is_answering.set()

    async def answering(self) -> None:
        """Return when requests are taken."""
        await self._is_answering.wait()

    def stop(self) -> None:
        """End the streams and stop."""
        self._room.close()
        self.should_exit = True


def _protocol(most: int, head_s: float) -> Any:
    class Guarded(H11Protocol):
        """One connection: refused when there are too many, closed when it does not say what it wants."""

        _patience: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > most:
                transport.abort()
                return
            self._patience = self.loop.call_later(head_s, self._weary)

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._be_patient()
            self._patience = self.loop.call_later(head_s + self.timeout_keep_alive, self._weary)

        def connection_lost(self, exc: Exception | None) -> None:
            self._be_patient()
            super().connection_lost(exc)

        def handle_events(self) -> None:
            before = self.cycle
            super().handle_events()
            if self.cycle is not before:
                self._be_patient()

        def _be_patient(self) -> None:
            if self._patience is not None:
                self._patience.cancel()
                self._patience = None

        def _weary(self) -> None:
            if self.cycle is None or self.cycle.response_complete:
                self.transport.abort()

    return Guarded


@contextlib.contextmanager
def bind_socket(host: str, port: int) -> Iterator[socket.socket]:
    """A socket at that address, or a sentence that says why not."""
    _want_files()
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family[0], socket.SOCK_STREAM)
    except (OSError, UnicodeError, OverflowError) as error:
        raise Refused(f"`{host}` is not an address here: {error}") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Connections inherit it. Without it the second small message of a stream waits 40 ms for the receipt of the
        # first: asyncio sets it only on sockets that name their protocol, which one made like this does not.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind(family[4])
        listener.listen(1024)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise Refused(f"cannot serve at {host}, port {port}: {error.strerror}; --port takes another") from None
    try:
        yield listener
    finally:
        listener.close()


def _want_files() -> None:
    """Every stream is an open file, and the usual limit is for people, not for servers."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_WANTED if hard == resource.RLIM_INFINITY else min(FILES_WANTED, hard)
    if soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _address(host: str, listener: socket.socket) -> str:
    """An address that can be opened: of a server on all addresses, the one that others on the network reach."""
    host = _find_own_address(host) if host in ("0.0.0.0", "::") else host  # noqa: S104  # only compared
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{listener.getsockname()[1]}"


def _find_own_address(host: str) -> str:
    """This machine's own address on its network; nothing is sent to find it out."""
    family, elsewhere = (socket.AF_INET6, "2001:db8::1") if ":" in host else (socket.AF_INET, "192.0.2.1")
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((elsewhere, 9))
            return str(probe.getsockname()[0])
    except OSError:
        return "::1" if ":" in host else "127.0.0.1"  # there is no network


@contextlib.contextmanager
def listening() -> Iterator[asyncio.Event]:
    """What is set when the process is asked to stop; to be entered before anybody is told that it serves."""
    loop = asyncio.get_running_loop()
    told = asyncio.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        loop.add_signal_handler(number, told.set)
    try:
        yield told
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)


async def until_told(told: asyncio.Event, served: Served) -> None:
    """Return when the process is asked to stop, or the server has stopped by itself."""
    waiting = asyncio.ensure_future(told.wait())
    try:
        await asyncio.wait([waiting, served.done], return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
