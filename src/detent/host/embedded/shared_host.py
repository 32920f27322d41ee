"""A host that several processes can open: the first holds the journal, the others hand it their verbs.

When the holder goes away, by exit or by SIGKILL, one of the others takes the journal over and goes on. Verbs carry
ids, so one that was handed over in the moment of a crash is not done twice. A holder that is there and says nothing is
named; what it has not begun is withdrawn.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any, Self

import msgspec

from detent.core.effect_type import Effect
from detent.core.history import Entry
from detent.core.identity import By, Identity
from detent.core.machine import Machine
from detent.core.policy import Policy
from detent.core.progress import Hear, Pass
from detent.core.run import Run
from detent.core.status import Status
from detent.core.value import plain
from detent.errors import JournalError, NoAnswer, Refused
from detent.host.embedded.adopted_process import bury_orphans
from detent.host.embedded.argument_check import HintingHost, check_arguments
from detent.host.embedded.handover_client import (
    ANSWER_S,
    PAUSE_S,
    PERHAPS,
    WITHDRAWN,
    DoorBlocked,
    DoorClosed,
    Errand,
    Knock,
    no_answer,
    result_of,
    run_of,
)
from detent.host.embedded.handover_socket import HandoverSocket
from detent.host.embedded.host import EmbeddedHost
from detent.host.embedded.journal_reader import JournalReader
from detent.host.embedded.lock import Lock
from detent.host.embedded.voucher import vouch
from detent.host.port import FindEffects
from detent.host.process_origin import PROGRAM, adopt_orphans
from detent.host.reading import Query, Summary
from detent.host.run_id import new_run_id

SUCCESSION_S = 0.25


class SharedHost(HintingHost):
    """A host that several processes can open; `detent.open` makes one, and `async with` opens it.

    A verb returns when its event is on disk. `Refused` (and `Unknown`, for a name that nothing has) means that nothing
    was changed. `NoAnswer` means that the process which holds the journal is silent, and that the verb was withdrawn;
    `MaybeDone`, that it was taken before the silence, so that only the journal can tell.
    """

    def __init__(
        self,
        home: Path,
        effects: Mapping[str, Effect] | Sequence[Effect],
        find_effects: FindEffects | None,
        command: str = "",
        reader: JournalReader | None = None,
        **settings: Any,
    ) -> None:
        self._home, self._effects, self._find_effects, self._settings = home, effects, find_effects, settings
        self._lock, self._token = Lock(home, command), getattr(settings.get("people"), "token", "")
        self._is_program = bool(command) and command.split(maxsplit=1)[0] == PROGRAM
        self.reader = reader or JournalReader(home)
        self._is_reader_ours = reader is None
        self._host: EmbeddedHost | None = None
        self._socket: HandoverSocket | None = None
        self._burial: asyncio.Task[None] | None = None
        self._ear: Pass | None = None
        self._is_open = self._is_closed = False
        self.grace_s: float | None = None  # so long may what is under way go on at the end; None: until it is done
        self._opening = asyncio.Lock()
        self.on_silence: Callable[[], None] = lambda: None  # the holder does not answer; a verb that waits waits on
        self.closing = AsyncExitStack()  # what was opened for this host, and is closed after it
        self.given_up = ""  # what is known of the verb that was last given up on: "withdrawn", or "perhaps" done

    @property
    def effects(self) -> Mapping[str, Effect]:
        """The effects that this process brings, by name; those of a run's definition file come first."""
        given = self._effects
        return given if isinstance(given, Mapping) else {effect.name: effect for effect in given}

    @property
    def policy(self) -> Policy | None:
        """The policy of this process; it holds while this process holds the journal."""
        given: Policy | None = self._settings.get("policy")
        return given

    @property
    def is_holder(self) -> bool:
        """Whether this process holds the journal."""
        return self._host is not None

    async def __aenter__(self) -> Self:
        """Take the journal, or find the process that has it."""
        await self.open()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Let go of the journal; after an error without waiting for what is under way."""
        async with self.closing:
            await self.close(is_hurried=kind is not None and self.grace_s is None, grace_s=self.grace_s)

    async def open(self) -> None:
        """Take the journal, or find the process that holds it. `async with` calls this for you."""
        if self._is_closed:
            raise Refused("this host is closed and cannot be opened again; open a new one")
        await self._take_or_find()
        self._is_open = True

    async def _take_or_find(self) -> None:
        loop = asyncio.get_running_loop()
        until = loop.time() + ANSWER_S  # the socket may be missing for a moment: its holder comes or leaves
        while not self._lock.take():
            try:
                knock = await Knock.open(self._home)
                knock.close()
                return
            except (DoorClosed, DoorBlocked):
                if loop.time() > until:
                    raise no_answer(self._home, WITHDRAWN) from None
                await asyncio.sleep(PAUSE_S)
        host = EmbeddedHost(
            self._home,
            self._effects,
            find_effects=self._find_effects,
            lock=self._lock,
            reader=self.reader,
            **self._settings,
        )
        await host.__aenter__()
        socket = HandoverSocket(host, self._home)
        try:
            await socket.open()
        except BaseException as error:
            await socket.close()
            await host.close(0.0)
            if isinstance(error, OSError):
                raise JournalError(f"cannot open the handover socket in {self._home}: {error}") from None
            raise
        self._host, self._socket = host, socket
        if self._is_program and adopt_orphans():  # a program that somebody else wrote may have children of its own
            self._burial = asyncio.create_task(bury_orphans())
        host.onlookers.ear = self._ear

    async def close(self, *, is_hurried: bool = False, grace_s: float | None = None) -> None:
        """Let go of the journal. Calls that are under way finish first: for `grace_s` seconds at most, by default all.

        `is_hurried` gives them only a moment. `async with` calls this for you.
        """
        self._is_closed = True
        if self._host is None:
            self._close_reader()
            return
        host, socket, self._host, self._socket = self._host, self._socket, None, None
        if self._burial is not None:
            self._burial.cancel()
        try:
            await host.finish(None if is_hurried else float("inf") if grace_s is None else grace_s)
        finally:
            if socket is not None:
                await socket.close()  # before the lock: afterwards the socket in this home is the next holder's
            self._close_reader()
            host.let_go()

    def _close_reader(self) -> None:
        if self._is_reader_ours:
            self.reader.close()

    async def succeed(self) -> None:
        """Wait until this process holds the journal: take over as soon as the present holder goes away."""
        while not self.is_holder and not self._is_closed:
            await asyncio.sleep(SUCCESSION_S)
            if self._lock.is_free():
                with suppress(JournalError):  # somebody else was quicker, or the disk is full: look again
                    await self._reopen()

    async def start(
        self, machine: Machine, input: Mapping[str, Any] | None = None, *, run_id: str = "", **given: Any
    ) -> Run:
        """Begin a run of a machine.

        `input` becomes the run's `context`. With a `run_id` of your own the call can be repeated safely: a second
        `start` with the same id returns the run that is already there. `by` says who starts it, `session` groups runs,
        and `source` is the file in which a later process finds the run's effects.
        """
        return await self._run(
            "start", machine=machine, input={} if input is None else input, run_id=run_id or new_run_id(), **given
        )

    async def signal(
        self, run_id: str, name: str, data: Mapping[str, Any] | None = None, *, id: str = "", by: By = ""
    ) -> Run:
        """Tell a run that something happened outside, by the name of a signal that its machine knows.

        A signal with an `id` counts once, however often it is sent. One that is not accepted in the present state is
        refused, unless the machine `keeps` it for later.
        """
        data = {} if data is None else data
        return await self._run("signal", run_id=run_id, name=name, data=data, id=id or _mark(), by=by)

    async def answer(self, run_id: str, contract_id: str, answer: Mapping[str, Any], *, by: By = "") -> Run:
        """Answer a waiting contract: `host.answer(run.id, run.waiting[0].id, {"approved": True})`.

        An answer holds `approved`, and may hold `by`, `comment`, `args` (other arguments for the call), `data` (a
        form), `patch` (values for the context) or `outcome` (what became of a call in doubt). The first answer wins;
        a later one is refused with `NotWaiting`.
        """
        return await self._run("answer", run_id=run_id, contract_id=contract_id, answer=answer, id=_mark(), by=by)

    async def cancel(self, run_id: str, *, by: By = "", reason: str = "") -> Run:
        """Stop a run and everything it has under way; its status becomes `cancelled`."""
        return await self._run("cancel", run_id=run_id, by=by, reason=reason, id=_mark())

    async def show(self, run_id: str) -> Run:
        """Where a run stands: its `state`, `status`, `context` and what it is `waiting` for."""
        return await self._run("show", run_id=run_id)

    async def list(
        self, *, status: Sequence[Status] = (), name: str = "", limit: int = 100, before: int = 0
    ) -> Sequence[Summary]:
        """The runs, newest first, of these statuses or this machine; the next page is `before` the last one's `no`."""
        self._own()
        query = Query(status=tuple(status), name=name, limit=limit, before=before)
        return self.reader.list(query).runs if self.reader.has_runs() else []

    async def watch(self, run_id: str, after: int = 0) -> AsyncIterator[Entry]:
        """The run's events after number `after`, as they come, until it ends; whichever process drives it."""
        self._own()
        async for entry in self.reader.follow(run_id, after):
            yield entry

    async def checkpoint(self, run_id: str) -> str:
        """The hash that stands for everything this run has been through so far; `fork` takes it."""
        await self.show(run_id)
        return self.reader.find(run_id).checkpoint

    async def hold(self, run_id: str, *, by: By = "") -> Run:
        """Pause a run: calls that are under way finish, and nothing new begins until `release`."""
        return await self._run("hold", run_id=run_id, by=by, id=_mark())

    async def release(self, run_id: str, *, by: By = "") -> Run:
        """Let a run go on after `hold`."""
        return await self._run("release", run_id=run_id, by=by, id=_mark())

    async def retry(self, run_id: str, *, by: By = "", id: str = "") -> Run:
        """Let a run that failed or was rejected go on from the action that failed.

        What is done stays done, and an approval of the same call still holds. A call that may have happened is asked
        about.
        """
        return await self._run("retry", run_id=run_id, by=by, id=id or _mark())

    async def migrate(
        self,
        run_id: str,
        machine: Machine,
        *,
        state: str = "",
        actions: Mapping[str, str] | None = None,
        by: By = "",
    ) -> Run:
        """Let a waiting run go on under another machine, such as a corrected version of its own.

        `state` is the present state's name in the new machine, if it has another; `actions` maps old names of actions
        to new ones.
        """
        given = {"state": state, "actions": dict(actions or {}), "by": by, "id": _mark()}
        return await self._run("migrate", run_id=run_id, machine=machine, **given)

    async def fork(self, run_id: str, checkpoint: str = "", *, new_id: str = "", by: By = "", loop: str = "") -> Run:
        """Begin a new run where another one was at a checkpoint; by default, where it is now.

        `new_id` names the new run. What the old run did to the outside world stays done, and the new run asks before
        it does the same again. `loop` names a `for_each` (`*`: the only one) that ended although items had failed: then
        the new run does only these again, and has the results and approvals of the others.
        """
        given = {"checkpoint": checkpoint, "new_id": new_id or new_run_id(), "by": by}
        given |= {"loop": loop} if loop else {}
        return await self._run("fork", run_id=run_id, **given)

    async def settled(self, run_id: str) -> Run:
        """Wait until the run has ended, or waits for an answer, a signal or a timer.

        A run that a crashed process left at work is driven by nobody until `recover` takes it up.
        """
        return await self._run("settled", run_id=run_id)

    async def probe(self, run_id: str, contract_id: str) -> bool:
        """Ask the effect's probe whether a call in doubt happened; returns whether that settled the question."""
        return bool(await self._do("probe", run_id=run_id, contract_id=contract_id))

    async def repair_claims(self) -> tuple[str, ...]:
        """Rebuild the claims on irreversible calls from the events; returns what was wrong, as sentences."""
        return tuple(await self._do("repair_claims"))

    async def anchor(self, *, by: By = "") -> dict[str, Any]:
        """Put on record what the journal holds. Returns the line to publish; `detent anchor` signs and keeps it."""
        return dict(await self._do("anchor", by=by))

    async def mark_restored(self, since: float, until: float = 0.0, *, by: By = "") -> int:
        """Say that this journal knows nothing of what was done since a time (seconds since 1970); the new epoch.

        `detent restore` does this. From then on an irreversible call that the journal does not know is asked about.
        """
        return int(await self._do("mark_restored", since=since, until=until, by=by))

    async def close_gap(self, *, by: By = "", comment: str = "") -> tuple[str, ...]:
        """Ask no more about calls that may have been made before a restore; returns the records that this closes."""
        return tuple(await self._do("close_gap", by=by, comment=comment))

    async def prune(self, before: float, *, by: By = "") -> dict[str, Any]:
        """Delete runs that ended before a time (seconds since 1970), except those that protect an irreversible call.

        What was deleted is recorded in a run of its own; the result has its id and the numbers.
        """
        return dict(await self._do("prune", before=before, by=by))

    async def change_people(self, change: Mapping[str, Any], *, by: By = "") -> dict[str, Any]:
        """Add, change or remove a person: `{"do": "add", "name": "ann", "roles": ["approver"]}`; or `adopt` the file.

        Only an admin may, and who did it is in the journal before it holds. The first change makes the file, and
        whoever makes it an admin, unless it names another. Returns everybody, without the hashes of their tokens.
        """
        return dict(await self._do("change_people", change=change, by=by))

    async def recover(self, run_id: str = "") -> tuple[str, ...]:
        """Take up the runs that a crashed process left at work, or one run with its parents and children.

        Returns the ids of the runs that had something under way. Call it once after opening, in the process that
        brings the effects: harmless calls are made again, and those that cannot be repeated are looked up or asked
        about.
        """
        return tuple(await self._do("recover", run_id=run_id))

    def overhear(self, run_id: str, hear: Hear) -> Callable[[], None]:
        """Call `hear` with the progress that a run's effects report, until the returned function is called.

        Progress is not journalled, and only the process that holds the journal hears it.
        """
        return self._host.overhear(run_id, hear) if self._host is not None else lambda: None

    def hear_all(self, ear: Pass) -> None:
        """Call `ear` with the progress of every run's effects, whenever this process holds the journal."""
        self._ear = ear
        if self._host is not None:
            self._host.onlookers.ear = ear

    def at_work(self, run_id: str) -> tuple[str, ...]:
        """The ids of the contracts of a run whose effects are being called in this process."""
        live = self._host.live(run_id) if self._host is not None else None
        return tuple(live.tasks) if live is not None else ()

    async def _run(self, verb: str, **given: Any) -> Run:
        result = await self._do(verb, **given)
        return result if isinstance(result, Run) else run_of(result)

    async def _do(self, verb: str, **given: Any) -> Any:
        check_arguments(given)
        if self._own() is None:
            reply = await self._hand_over(verb, given)
            if reply is not None:
                return result_of(reply)
        return await getattr(self._own(), verb)(**given)

    async def _hand_over(self, verb: str, given: dict[str, Any]) -> dict[str, Any] | None:
        """What the process that holds the journal says to a verb; None when that has become this one."""
        # What goes through the socket must be what a host would take: JSON on its own would make null of NaN.
        by: By = given.get("by", "")
        proof: dict[str, Any] = {"token": self._token} if self._token else {}
        if isinstance(by, Identity):
            if by.known == "mcp" and self._token and self._settings["people"].current() is not None:
                by = Identity()  # the owner of the token, with whose rights the program acts
            given = given | {"by": by.name}
            proof = proof if by.known == "claimed" else {"voucher": vouch(self._home, by)}
        sent = {k: msgspec.to_builtins(v) if isinstance(v, Machine) else plain(v, k) for k, v in given.items()}
        errand = Errand(self._home, verb, sent, self.on_silence, proof)
        try:
            while self._own() is None:
                try:
                    return await errand.run()
                except DoorClosed:
                    await self._reopen()
            return None
        except asyncio.CancelledError:
            self.given_up = errand.fate
            raise
        except (JournalError, NoAnswer) as error:  # also when whoever had it is gone, and the journal cannot be had
            if errand.fate == PERHAPS:
                raise errand.no_answer() from error
            raise

    async def _reopen(self) -> None:
        """The holder is gone: find the next one, or become it and take up what it left."""
        async with self._opening:
            if self._own() is None:
                await self._take_or_find()
                host = self._own()
                if host is not None:
                    await host.recover()

    def _own(self) -> EmbeddedHost | None:
        if not self._is_open:
            raise Refused("this host is not open yet; use it inside `async with detent.open(…) as host:`")
        if self._is_closed:
            raise JournalError("this host is closed")
        return self._host


def open_host(
    home: Path,
    effects: Mapping[str, Effect] | Sequence[Effect] = (),
    find_effects: FindEffects | None = None,
    policy: Policy | None = None,
    notify: str = "notify",
    command: str = "",
    reader: JournalReader | None = None,
    grace_s: float | None = None,
    **settings: Any,
) -> SharedHost:
    """A host on a journal that other processes may be using too; policy and notifier hold while it is the driver.

    Use it with `async with`. `command` is what others are told of this process while it holds the journal. A reader
    that is given is used, and left open. With `grace_s`, what is under way at the end has only so long to finish.
    """
    host = SharedHost(home, effects, find_effects, command, reader, policy=policy, notify=notify, **settings)
    host.grace_s = grace_s
    return host


def _mark() -> str:
    return secrets.token_hex(8)
