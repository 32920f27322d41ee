"""A function whose calls are contracts: it runs where it is called, when the journal says so, and once.

What comes of it is told as evidence. A result says that it was done, `EffectFailed` that nothing happened; any other
exception says only that something went wrong, and after an irreversible call a person is asked.
"""

import asyncio
import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from detent.core.contract import Contract
from detent.core.effect_type import EffectFailed, PartialFailure
from detent.core.run import Run
from detent.core.status import Status
from detent.core.value import plain
from detent.errors import AlreadyDone, CallNotDone, InDoubt, Refused, Rejected, Waiting
from detent.guarding.call_journal import CallOrder
from detent.guarding.call_mailbox import (
    CallSettled,
    MakeCall,
    Message,
    Reply,
    make_task_mailbox,
    make_thread_mailbox,
)
from detent.guarding.function_schema import FunctionSchema, to_json
from detent.guarding.tool_machine import ToolTerms, build_tool_machine

if TYPE_CHECKING:
    from detent.guarding.function_guard import FunctionGuard

WaitingMode = Literal["block", "raise", "ticket"]
MESSAGE_MAX = 2000
RETURNED = "returned"  # a result is kept under this name: what a function returns is not for a machine to judge


class CallOptions(NamedTuple):
    """How one call is made: what happens while a person is asked, and what it is the same as."""

    waiting: WaitingMode = "block"
    session: str = ""
    call_id: str = ""  # an id that the agent gave the call: made again with it, it is the same call
    by: str = ""
    run_id: str = ""


class GuardedFunction:
    """What a guard knows of one function."""

    def __init__(
        self,
        guard: "FunctionGuard",
        function: Callable[..., Any],
        terms: ToolTerms,
        ask: str | Callable[..., str] | None,
        key: Callable[..., Any] | None,
        harmless: tuple[type[BaseException], ...],
        settle_s: float,
        leave_out: frozenset[str],
    ) -> None:
        self.guard, self.function, self.terms = guard, function, terms
        self.name, self.about = terms.name, inspect.getdoc(function) or ""
        self.parameters = FunctionSchema(function, leave_out)
        self.is_async = any(map(inspect.iscoroutinefunction, (function, getattr(function, "__call__", None))))  # noqa: B004
        self._ask, self._key, self._harmless, self._settle_s = ask, key, harmless, settle_s
        self.machine = build_tool_machine(terms)

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments."""
        return self.parameters.describe()

    def wrap(self, options: CallOptions) -> Callable[..., Any]:
        """The function to be called in its place; async where it is."""
        if self.is_async:

            @functools.wraps(self.function)
            async def call_in_task(*args: Any, **named: Any) -> Any:
                return await self.call_async(options, args, named)

            return call_in_task

        @functools.wraps(self.function)
        def call_in_thread(*args: Any, **named: Any) -> Any:
            return self.call(options, args, named)

        return call_in_thread

    def call(self, options: CallOptions, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Make a call and wait for what comes of it in this thread."""
        made = _MadeCall(self, options, args, named)
        background = self.guard.background
        if background.is_here:
            raise Refused(f"`{self.name}` is not async, and waiting for it here would stop the journal: use a thread")
        pending, receive = make_thread_mailbox()
        begun = background.begin(made.order, pending)
        try:
            while True:
                message = receive()
                if isinstance(message, MakeCall):
                    if message.take():
                        made.make(message)
                else:
                    return made.conclude(message)
        except BaseException:
            begun.cancel()
            pending.leave()
            raise

    async def call_async(self, options: CallOptions, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Make a call and wait for what comes of it in this task."""
        made = _MadeCall(self, options, args, named)
        background = self.guard.opened  # opening a journal may take a moment
        if background is None:
            background = await asyncio.to_thread(lambda: self.guard.background)
        pending, receive = make_task_mailbox()
        begun = background.begin(made.order, pending)
        try:
            while True:
                message = await receive()
                if isinstance(message, MakeCall):
                    if message.take():
                        await made.make_async(message)
                else:
                    return made.conclude(message)
        except BaseException:
            begun.cancel()
            pending.leave()
            raise

    def write_order(self, options: CallOptions, given: dict[str, Any]) -> CallOrder:
        """The call as the journal gets it."""
        args = self.parameters.encode(given) if not options.run_id else {}
        told: dict[str, Any] = {"args": args}
        if self.terms.is_asked and not options.run_id:
            told["question"] = self._write_question(given, args)
        if self.terms.has_key and self._key is not None and not options.run_id:
            key = self._key(**given)
            if key is None or key == "":
                raise Refused(f"the key of `{self.name}` is empty for this call")
            told["key"] = key if isinstance(key, str) else to_json(key)
        return CallOrder(self.terms, self.machine, told, self._settle_s, options.session, options.call_id, options.by,
                         options.waiting == "block", options.run_id)  # fmt: skip

    def _write_question(self, given: dict[str, Any], args: dict[str, Any]) -> str:
        if callable(self._ask):
            return str(self._ask(**given))
        if self._ask is None:
            return f"May `{self.name}` do this?"
        try:
            return self._ask.format(**args)
        except (KeyError, IndexError, ValueError, AttributeError) as error:
            raise Refused(f"the question of `{self.name}` cannot be written: {error!r} in {self._ask!r}") from None

    def describe_exception(self, error: BaseException) -> Reply:
        """What an exception of the function says about the call."""
        if isinstance(error, EffectFailed | PartialFailure):
            name = "failed" if isinstance(error, EffectFailed) else "partial"
            return {name: {"type": error.type, "message": str(error), "result": _keep(error.result)}}
        said = f"{type(error).__name__}: {error}"[:MESSAGE_MAX]
        if isinstance(error, self._harmless) or self.terms.kind != "irreversible":
            return {"failed": {"type": "tool_failure.exception", "message": said}}
        return {"unknown": said}


class _MadeCall:
    """One call, from its arguments to its end."""

    def __init__(
        self, tool: GuardedFunction, options: CallOptions, args: tuple[Any, ...], named: dict[str, Any]
    ) -> None:
        self.tool, self.options = tool, options
        self.given = tool.parameters.bind(args, named) if not options.run_id else {}
        self.order = tool.write_order(options, self.given)
        self._contract_id = ""  # of the attempt that was made here
        self._result: Any = None
        self._error: BaseException | None = None

    def make(self, message: MakeCall) -> None:
        try:
            self._result = _refuse_promise(self._begin(message.contract))
        except BaseException as error:  # noqa: BLE001  # it is raised again, once the journal knows
            self._fail(error, message)
        else:
            message.reply({"result": {RETURNED: _keep(self._result)}})

    async def make_async(self, message: MakeCall) -> None:
        try:
            self._result = await self._begin(message.contract)
        except BaseException as error:
            self._fail(error, message)
            if isinstance(error, asyncio.CancelledError):
                raise
        else:
            message.reply({"result": {RETURNED: _keep(self._result)}})

    def _begin(self, contract: Contract) -> Any:
        self._contract_id, self._error = contract.id, None
        tool = self.tool
        try:
            args = tool.parameters.decode(contract.input, self.given, self.order.input["args"])
        except Refused as error:  # what a person made of the arguments
            raise EffectFailed(str(error), "validation_error") from None
        return tool.parameters.call(tool.function, args)

    def _fail(self, error: BaseException, message: MakeCall) -> None:
        self._error = error
        message.reply(self.tool.describe_exception(error))

    def conclude(self, message: Message) -> Any:
        """The result, or what stands in its place."""
        if not isinstance(message, CallSettled):
            assert not isinstance(message, MakeCall)  # noqa: S101 - the caller has made those
            raise message.error
        run = message.run
        if self._error is not None and not isinstance(self._error, Exception):
            raise self._error
        if run.ended is Status.COMPLETED:
            return self._result if self._contract_id and self._error is None else self._read_result(run.output)
        if run.ended is None:
            return self._conclude_waiting(run)
        raise self._describe_end(run) from self._error

    def _read_result(self, output: Any) -> Any:
        return self.tool.parameters.decode_result(_unwrap(output))

    def _conclude_waiting(self, run: Run) -> Any:
        contract = run.waiting[0] if run.waiting else None
        if contract is None or contract.question is None:
            raise CallNotDone(f"run {run.id} is paused", run_id=run.id, type="waiting")
        if self._error is not None:
            why = f"`{self.tool.name}` may have been done: {type(self._error).__name__}: {self._error}"
            said = f"{why}. Somebody has to say whether it was: detent show {run.id}"
            raise InDoubt(said, run_id=run.id, contract_id=contract.id, type="in_doubt") from self._error
        if self.options.waiting == "ticket":
            return Ticket(self.tool, run.id, contract.question.text)
        call: dict[str, object] = {"effect": contract.effect, "input": contract.input}
        is_doubt = contract.question.reason == "outcome_unknown"
        raise Waiting(contract.question.text, run_id=run.id, contract_id=contract.id, call=call, is_doubt=is_doubt)

    def _describe_end(self, run: Run) -> BaseException:
        failure, kept = run.error, run.results.get("call")
        kind, text = (failure.type, failure.message) if failure is not None else ("cancelled", "it was cancelled")
        if kind == "already_done":
            holder = failure.data.get("holder", {}) if failure is not None else {}
            result = kept.get("result") if isinstance(kept, dict) else None
            return AlreadyDone(f"`{self.tool.name}`: {text}", run_id=str(holder.get("run_id", run.id)),
                               result=self._read_result(result))  # fmt: skip
        if kind in ("tool_failure.unknown_outcome", "key_held"):
            return InDoubt(f"`{self.tool.name}`: {text}", run_id=run.id, type=kind)
        if run.ended is Status.REJECTED:
            return Rejected(f"`{self.tool.name}`: {text}", run_id=run.id, type=kind)
        if self._error is not None and run.ended is Status.FAILED:
            return self._error
        return CallNotDone(f"`{self.tool.name}`: {text}", run_id=run.id, type=kind)


class Ticket:
    """A call that waits for a person; whoever has its `run_id` can go on with it, in any process that has the tool."""

    def __init__(self, tool: GuardedFunction, run_id: str, question: str) -> None:
        self._tool, self.run_id, self.question = tool, run_id, question

    def __repr__(self) -> str:
        return f"Ticket({self._tool.name!r}, {self.run_id!r}, {self.question!r})"

    def result(self, waiting: WaitingMode = "block") -> Any:
        """What the call gave; it is made here if it was approved and nobody has made it."""
        if self._tool.is_async:
            raise Refused(f"`{self._tool.name}` is async: `await` the ticket")
        return self._tool.call(self._continue(waiting), (), {})

    def __await__(self) -> Any:
        """The same for an async function."""
        return self._wait().__await__()

    async def _wait(self) -> Any:
        if self._tool.is_async:
            return await self._tool.call_async(self._continue("block"), (), {})
        return await asyncio.to_thread(self.result)

    def _continue(self, waiting: WaitingMode) -> CallOptions:
        return CallOptions(waiting=waiting, run_id=self.run_id)


def _refuse_promise(result: Any) -> Any:
    """A result, unless it is work that has yet to be done."""
    if inspect.isawaitable(result) or inspect.isgenerator(result):
        if inspect.iscoroutine(result):
            result.close()
        raise TypeError("it gave back work that is yet to be done; guard an async function, or one that returns")
    return result


def _unwrap(output: Any) -> Any:
    """What a function returned, of what a run keeps of it; a person who looked may have said it in other words."""
    if not isinstance(output, dict):
        return output
    if RETURNED in output:
        return output[RETURNED]
    said = {name: value for name, value in output.items() if name != "success"}
    return said.get("value") if set(said) <= {"value"} else said


def _keep(value: Any) -> Any:
    """A result as the journal keeps it. One that cannot be is no failure of the call: it was done."""
    try:
        return plain(to_json(value), "result")
    except (TypeError, Refused) as error:
        return {"not_kept": str(error)}
