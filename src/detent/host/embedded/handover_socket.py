"""The handover socket: verbs handed over a private Unix socket to the process that holds the journal.

One JSON object per line each way, in two phases:

    caller   {"protocol": 2, "offer": {"verb": …, "args": …}}
    holder   {"ready": 2}                                       or {"leaving": 2}, or an error
    caller   {"go": 2}
    holder   {"result": …} or {"error": …}

The holder acts only after the go, and only while the caller is still there: one that dies or gives up before has
withdrawn its verb, also if the holder was stopped meanwhile and reads of it much later. `{"ping": 2}` is answered at
once. Only the same user can connect: the home is 0700, the socket 0600, and the peer's user id is checked.
"""

import asyncio
import os
import select
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from detent.core.identity import Identity
from detent.core.machine import Machine
from detent.errors import DetentError, EventRefused, NotPermitted, Refused, Unknown
from detent.host.embedded.voucher import check_voucher
from detent.host.people import user_name
from detent.host.process_origin import Peer, origin_of, peer_of

if TYPE_CHECKING:
    from detent.host.embedded.host import EmbeddedHost

PROTOCOL = 2  # 1 had no go: whatever was sent was done, however late it was read
LINE_MAX = 64 * 1024 * 1024
NAME = "door"
VERBS = frozenset(
    {
        "start",
        "signal",
        "answer",
        "cancel",
        "show",
        "hold",
        "release",
        "retry",
        "fork",
        "migrate",
        "settled",
        "recover",
        "prune",
        "probe",
        "repair_claims",
        "close_gap",
        "anchor",
        "change_people",
    }
)
SIGNED = VERBS - {"show", "settled", "recover", "probe", "repair_claims"}  # verbs that say who does them
PONG, READY, LEAVING = (msgspec.json.encode({word: PROTOCOL}) for word in ("pong", "ready", "leaving"))


class HandoverSocket:
    """Serves verbs of one host to other processes."""

    def __init__(self, host: "EmbeddedHost", home: Path) -> None:
        self._host = host
        self._home = home
        self._server: asyncio.AbstractServer | None = None
        self._callers: set[asyncio.Task[Any]] = set()
        self._folder = -1

    async def open(self) -> None:
        """Begin to listen."""
        self._folder, path = address(self._home)
        (self._home / NAME).unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(self._serve, path, limit=LINE_MAX)
        finally:
            os.umask(before)

    async def close(self) -> None:
        """Stop listening and hang up, so that whoever waits can take over; to be done before the lock is let go."""
        if self._server is not None:
            (self._home / NAME).unlink(missing_ok=True)
            self._server.close()
            self._server = None
            for caller in self._callers:
                caller.cancel()
            if self._callers:
                await asyncio.wait(self._callers)
        if self._folder >= 0:
            os.close(self._folder)
            self._folder = -1

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        caller: Any = asyncio.current_task()
        self._callers.add(caller)
        try:
            peer = peer_of(writer.get_extra_info("socket"))
            if peer.uid not in (os.getuid(), -1):
                return
            while line := await reader.readline():
                await self._attend(line, peer, reader, writer)
        except (ConnectionError, ValueError, asyncio.LimitOverrunError, asyncio.CancelledError):
            return  # a caller that goes away or talks nonsense loses its connection, nothing else
        finally:
            self._callers.discard(caller)
            writer.close()

    async def _attend(
        self, line: bytes, peer: Peer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """One thing a caller says: a ping, or an offer with what comes of it."""
        try:
            verb, given, proof = _offer(line)
        except Refused as error:
            await _say(writer, _encode_error(error))
            return
        if not verb:
            await _say(writer, PONG)
            return
        if self._host.is_closing:
            await _say(writer, LEAVING)
            await _for_ever()  # until we hang up; then the caller asks the next holder
        await _say(writer, READY)
        if not _is_go(await reader.readline()) or _is_gone(writer):
            raise ConnectionAbortedError("withdrawn")
        if not self._host.is_closing:
            reply = await self._reply(verb, given, partial(self._identify, peer, proof))
        if self._host.is_closing:
            # What a host says while it closes is not the last word. Left without a reply until we hang up,
            # the caller asks the next holder, and what was done here already is not done there again.
            await _for_ever()
        await _say(writer, reply)

    def _identify(self, peer: Peer, proof: dict[str, Any], verb: str, wish: str) -> Identity:
        """Who hands this over: what the kernel says of the process, a token, or the word of a server of this home."""
        is_guarded = verb in ("answer", "prune", "change_people", "close_gap")
        admission = self._host.admission
        if "voucher" in proof:
            who = check_voucher(self._home, proof["voucher"], peer.pid)
            is_step = is_guarded and origin_of(peer.pid) == "step"
            return Identity(who.name, "step") if is_step else replace(who, is_checked=True)
        return admission.of_peer(
            wish,
            str(proof.get("token") or ""),
            peer.uid,
            peer.pid,
            is_guarded=is_guarded,
            is_lenient=verb == "change_people",
        )

    async def _reply(self, verb: str, given: dict[str, Any], identify: Callable[[str, str], Identity]) -> bytes:
        try:
            if verb in SIGNED:
                inside = given.get("answer")
                wish = given.get("by") or (inside.get("by") if isinstance(inside, dict) else "")
                try:
                    given["by"] = identify(verb, str(wish or ""))
                except NotPermitted as error:
                    if verb == "answer":  # nobody that we know: the user is
                        user = Identity(user_name(os.getuid()), "os_user")
                        await self._host.note_attempt(given["run_id"], given["contract_id"], verb, user, str(error))
                    raise
            if "machine" in given:
                given["machine"] = msgspec.convert(given["machine"], Machine)
            result = await getattr(self._host, verb)(**given)
            reply = msgspec.json.encode({"result": result})
            if len(reply) >= LINE_MAX:
                raise DetentError(f"it was done, but the run is too large to show here ({len(reply):,} bytes)")
            return reply
        except (KeyError, TypeError, ValueError, msgspec.MsgspecError) as error:
            return _encode_error(Refused(f"not understood: {error}"))
        except DetentError as error:
            return _encode_error(error)
        except Exception as error:  # noqa: BLE001  # silence would make the caller ask again, for ever
            return _encode_error(DetentError(f"{type(error).__name__}: {error}"))


def address(home: Path) -> tuple[int, str]:
    """An open folder and the socket's path through it: the real path may be longer than a socket address can be."""
    folder = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    through = f"/proc/self/fd/{folder}/{NAME}"
    return folder, through if Path(f"/proc/self/fd/{folder}").exists() else str(home / NAME)


def _offer(line: bytes) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """The verb that is offered, what it is given, and what is to prove who offers it; no verb for a ping."""
    try:
        said = msgspec.json.decode(line, type=dict[str, Any])
        if "ping" in said:
            return "", {}, {}
        if said.get("protocol") != PROTOCOL:
            raise Refused(
                f"process {os.getpid()} holds the journal and speaks protocol {PROTOCOL}, not"
                f" {said.get('protocol', 1)}; nothing was done. Use the same version of detent on both sides"
            )
        verb, given = said["offer"]["verb"], dict(said["offer"]["args"])
        proof = dict(said["offer"].get("proof") or {})
    except (KeyError, TypeError, ValueError, msgspec.MsgspecError) as error:
        raise Refused(f"not understood: {error}") from None
    if verb not in VERBS:
        raise Unknown(f"there is no verb `{verb}`")
    return verb, given, proof


def _encode_error(error: DetentError) -> bytes:
    """An error as the caller will raise it."""
    said: dict[str, Any] = {"protocol": PROTOCOL, "error": type(error).__name__, "message": str(error)}
    if isinstance(error, EventRefused):
        said |= {"state": error.state, "event": error.event, "accepts": error.accepts}
    return msgspec.json.encode(said)


async def _say(writer: asyncio.StreamWriter, line: bytes) -> None:
    writer.write(line + b"\n")
    await writer.drain()


async def _for_ever() -> None:
    await asyncio.get_running_loop().create_future()


def _is_go(line: bytes) -> bool:
    try:
        return bool(msgspec.json.decode(line, type=dict[str, Any]).get("go"))
    except msgspec.MsgspecError:
        return False


def _is_gone(writer: asyncio.StreamWriter) -> bool:
    """Whether the caller has hung up by now, although what it sent before can still be read."""
    poll = select.poll()
    poll.register(writer.get_extra_info("socket").fileno(), select.POLLIN)
    return any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll(0))
