"""`detent.guard`: a program's own functions, each call of which is a run of the journal."""

import asyncio
import atexit
import concurrent.futures.thread  # noqa: F401  # see the end of `_close_all`
import os
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Literal, ParamSpec, Self, TypeVar, cast

from detent.core.call_budget import CallBudget, parse_budget
from detent.core.effect_type import Kind, Scope
from detent.core.identity import By
from detent.core.machine_check import is_effect_name
from detent.errors import CallNotDone, DefinitionError, DetentError, Refused
from detent.guarding.agent_call import AgentTool, write_reply
from detent.guarding.call_permission import ACTING, WAIT_S, CallPermission
from detent.guarding.guarded_function import CallOptions, GuardedFunction, Ticket, WaitingMode
from detent.guarding.host_thread import Background, OpenDesk, open_journal_desk
from detent.guarding.tool_machine import Repeat, ToolTerms
from detent.home import resolve_home
from detent.kit.people_file import TOKEN_VARIABLE

P = ParamSpec("P")
R = TypeVar("R")
SETTLE_S = 10.0
EXIT_S = 5.0  # so long may a call go on when the program ends
_MARK = "__detent_tool__"


class FunctionGuard:
    """Puts functions under contracts: `detent.guard()` makes one, and `@guard.tool("bank.pay")` guards a function."""

    def __init__(self, open_desk: OpenDesk, options: CallOptions) -> None:
        self._open_desk, self._options = open_desk, options
        self._background: Background | None = None
        self._lock = threading.Lock()
        self.tools: dict[str, GuardedFunction] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def background(self) -> Background:
        """The journal's side in this process, begun when it is first wanted; a forked process has one of its own."""
        with self._lock:
            if self._background is None or self._background.pid != os.getpid():
                background = Background(self._open_desk)
                background.open_in_thread()
                self._background = background
                _OPEN.add(self)
            return self._background

    @property
    def opened(self) -> Background | None:
        """The journal's side, if it is there already."""
        background = self._background
        return background if background is not None and background.pid == os.getpid() else None

    @asynccontextmanager
    async def open_in_loop(self) -> AsyncIterator[Self]:
        """Keep the journal in the event loop that is running, for a program that is nothing but one.

        Without it the journal has a thread of its own, and each message of a call passes between the two. In such a
        program functions that are not async are called from other threads.
        """
        background = Background(self._open_desk)
        async with background.open_in_loop():
            with self._lock:
                self._background = background
            try:
                yield self
            finally:
                with self._lock:
                    self._background = None

    def close(self, grace_s: float | None = None) -> None:
        """Let go of the journal. Calls under way finish first, or have `grace_s` seconds; the next one opens it."""
        with self._lock:
            background, self._background = self._background, None
        if background is not None and background.pid == os.getpid():
            background.close(grace_s)

    def tool(  # noqa: PLR0913  # each has the right default
        self,
        name: str,
        *,
        effect: Kind = "irreversible",
        ask: str | bool | Callable[..., str] | None = None,
        key: Callable[..., Any] | None = None,
        repeat: Repeat = "refuse",
        scope: Scope = "global",
        approvers: tuple[str, ...] | list[str] = (),
        quorum: int = 1,
        expires_s: float = 0.0,
        timeout_s: float = 0.0,
        settle_s: float = SETTLE_S,
        harmless: tuple[type[BaseException], ...] = (),
        leave_out: tuple[str, ...] = (),
        budget: Mapping[str, Any] | CallBudget | None = None,
    ) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """FunctionGuard a function: each of its calls becomes a run, with policy, approval, once-only and audit.

        Args:
            name: What policies, questions and the journal call it, such as `bank.pay`.
            effect: What a call does to the world: `pure`, `idempotent`, or `irreversible`, the careful default.
            ask: The question before a call: a text with the arguments in braces, a function of them, or True. False:
                only the policy asks. By default an irreversible call asks.
            key: A function of the arguments that says which calls are the same deed. By default all arguments say so.
            repeat: What a call gets that was made before: `refuse` (AlreadyDone, with the result), `reuse` (the
                result), `ask` (a person decides) or `allow`. A policy may say otherwise.
            scope: Where a deed is done once: `global` (this journal), `session` or `run`.
            approvers: Who may answer; by default anybody.
            quorum: How many of them must say yes.
            expires_s: How long the question stands; 0: for ever.
            timeout_s: After so long a call is in doubt although its function goes on; 0: never.
            settle_s: How long a request may still be in flight after the program that made it has died.
            harmless: Exceptions that mean that nothing happened. After any other, an irreversible call is in doubt.
            leave_out: Parameters that are no part of the call: a connection, a context. They must be given again.
            budget: How much may be done in a time, over all programs of the home:
                `{"calls": 20, "per": "1d", "total": {"amount": 1000}}`. A call beyond it raises `CallNotDone`.

        Returns:
            A decorator. The guarded function has the same signature, and is async if the function is.
        """
        _check_name(name, self.tools)
        if effect not in ("pure", "idempotent", "irreversible"):
            raise DefinitionError(f"effect `{effect}` is not one of pure, idempotent, irreversible", f"tool `{name}`")
        is_asked = bool(ask) if ask is not None else effect == "irreversible"
        limit = budget if budget is None or isinstance(budget, CallBudget) else parse_budget(budget)
        terms = ToolTerms(name, effect, is_asked, key is not None, repeat, scope, tuple(approvers), quorum, expires_s,
                          timeout_s, limit)  # fmt: skip
        text = None if isinstance(ask, bool) else ask

        def guard_function(function: Callable[P, R]) -> Callable[P, R]:
            made = GuardedFunction(self, function, terms, text, key, harmless, settle_s, frozenset(leave_out))
            self.tools[name] = made
            wrapped = made.wrap(self._options)
            setattr(wrapped, _MARK, made)
            return cast("Callable[P, R]", wrapped)

        return guard_function

    def options(
        self,
        function: Callable[P, R],
        *,
        waiting: WaitingMode | None = None,
        session: str | None = None,
        call_id: str = "",
        by: str | None = None,
    ) -> Callable[P, R]:
        """The same guarded function, called otherwise: `guard.options(pay, waiting="raise", call_id="c1")(…)`."""
        before = self._options
        options = CallOptions(
            _check_mode(before.waiting if waiting is None else waiting),
            before.session if session is None else session,
            call_id,
            before.by if by is None else by,
        )
        return cast("Callable[P, R]", find_tool(function).wrap(options))

    def ticket(self, function: Callable[..., Any], run_id: str) -> Ticket:
        """Go on with a call that waited, perhaps in another process: `guard.ticket(pay, run_id).result()`."""
        return Ticket(find_tool(function), run_id, "")

    def answer(self, asked: CallNotDone, answer: Mapping[str, Any], *, by: str = "") -> None:
        """Answer what a call waits for, as `detent answer` does: `guard.answer(asked, {"approved": True})`."""
        desk = self.background.desk
        self.background.submit(desk.answer(asked.run_id, asked.contract_id, answer, by)).result()

    async def answer_async(self, asked: CallNotDone, answer: Mapping[str, Any], *, by: By = "") -> None:
        """The same in an event loop."""
        background = self.background
        await background.run(background.desk.answer(asked.run_id, asked.contract_id, answer, by))

    def describe_tools(self, style: Literal["openai", "anthropic"]) -> list[dict[str, Any]]:
        """All guarded functions as the `tools` of a request to a model's API."""
        tools = [AgentTool(tool, "", "") for tool in self.tools.values()]
        if style == "anthropic":
            return [{"name": one.name, "description": one.about, "input_schema": one.schema} for one in tools]
        plain = [{"name": one.name, "description": one.about, "parameters": one.schema} for one in tools]
        return [{"type": "function", "function": one} for one in plain]

    def run_tool(self, name: str, arguments: str | Mapping[str, Any], *, call_id: str, session: str = "") -> str:
        """Make a call that a model wants, and write what the model is told: the result, or what stands in its place.

        `call_id` is the id that the model gave its call: in a loop that is begun again the same call is not made again.
        Where a person is asked, `Waiting` is raised; keep the messages, and go on with this call after the answer.
        """
        return asyncio.run(self.run_tool_async(name, arguments, call_id=call_id, session=session))

    async def run_tool_async(
        self, name: str, arguments: str | Mapping[str, Any], *, call_id: str, session: str = ""
    ) -> str:
        """The same in an event loop."""
        found = next(
            (one for one in (AgentTool(t, session, "") for t in self.tools.values()) if one.name == name), None
        )
        if found is None:
            return write_reply({"status": "failed", "message": f"there is no tool `{name}`"})
        try:
            return write_reply(await found.call(arguments, call_id))
        except DetentError:
            raise
        except Exception as error:  # noqa: BLE001  # of the function itself: the model may know a way
            return write_reply({"status": "failed", "message": f"{type(error).__name__}: {error}"})

    def to_langgraph(self, function: Callable[..., Any], *, session: str = "", approve_by: str = "") -> Any:
        """The guarded function as a tool of LangGraph (`detent[langgraph]`); a question interrupts the graph.

        `Command(resume={"approved": True, "by": "ann"})` answers it, and so does `detent approve`; the graph is then
        resumed with anything. `approve_by`: in whose name a plain `resume=True` counts.
        """
        from detent.guarding.frameworks.langgraph_tool import make_langgraph_tool

        return make_langgraph_tool(AgentTool(find_tool(function), session, approve_by))

    def to_openai_agents(self, function: Callable[..., Any], *, session: str = "", approve_by: str = "") -> Any:
        """The guarded function as a tool of the OpenAI Agents SDK (`detent[openai-agents]`); it asks for tool approval.

        `session` names the conversation, so that ids of calls are told apart. `approve_by`: in whose name an approval
        given to the SDK counts; without it, somebody answers in detent before the run is resumed.
        """
        from detent.guarding.frameworks.openai_agents_tool import make_openai_agents_tool

        return make_openai_agents_tool(AgentTool(find_tool(function), session, approve_by))

    def to_pydantic_ai(self, function: Callable[..., Any], *, session: str = "", approve_by: str = "") -> Any:
        """The guarded function as a tool of Pydantic AI (`detent[pydantic-ai]`); a question defers the call.

        `session` and `approve_by` are as for `to_openai_agents`.
        """
        from detent.guarding.frameworks.pydantic_ai_tool import make_pydantic_ai_tool

        return make_pydantic_ai_tool(AgentTool(find_tool(function), session, approve_by))

    def to_claude_agent(self, function: Callable[..., Any], *, session: str = "") -> Any:
        """The guarded function as a tool of the Claude Agent SDK (`detent[claude-agent]`), for `create_sdk_mcp_server`.

        A question is told to the model as an error of the tool; the same call made after the answer gives its result.
        `session` names the conversation: in another one the same call is a repetition.
        """
        from detent.guarding.frameworks.claude_agent_tool import make_claude_agent_tool

        return make_claude_agent_tool(AgentTool(find_tool(function), session, ""))

    def to_claude_hooks(self, *, matcher: str = ACTING, wait_s: float = WAIT_S) -> Any:
        """Hooks for `ClaudeAgentOptions(hooks=…)`: Claude's own tools that act, behind the policy and the inbox.

        A call is permitted by a rule (`tool: claude.Bash`) or by a person, for whom it waits `wait_s` seconds. Guarded
        functions among its tools are left out: they ask by themselves.
        """
        from detent.guarding.frameworks.claude_agent_tool import AGENT, make_claude_hooks

        guarded = frozenset(AgentTool(tool, "", "").name for tool in self.tools.values())
        return make_claude_hooks(CallPermission(self, AGENT), guarded, matcher, wait_s)


_OPEN: "weakref.WeakSet[FunctionGuard]" = weakref.WeakSet()


def _close_all() -> None:
    for one in list(_OPEN):
        one.close(EXIT_S)


# A plain atexit function comes too late: by then no thread can be begun, and a host closes with one. These are called
# in reverse, so the module of the thread pools must have registered its own before.
getattr(threading, "_register_atexit", atexit.register)(_close_all)


def guard(
    home: "str | os.PathLike[str] | None" = None,
    *,
    policy: Any = None,
    waiting: WaitingMode = "block",
    session: str = "",
    by: str = "",
    token: str = "",
) -> FunctionGuard:
    """Put the functions of your own program under contracts: `guard = detent.guard()`, then `@guard.tool("bank.pay")`.

    The functions run in your process, wherever the journal is held: a running `detent serve` or another program may
    hold it, and without one this process does. What a process leaves at work when it dies is a doubt, and a person is
    asked.

    Args:
        home: The folder of the journal, as for `detent.open`; or the address of a running `detent serve`, such as
            `http://127.0.0.1:8484`. The functions run here all the same.
        policy: A `Policy` or a policy file, as for `detent.open`.
        waiting: What a call does while a person is asked: `block`, `raise` (`Waiting`; make the call again later), or
            `ticket` (it returns a `Ticket`).
        session: Groups calls. The same call in the same session joins the one that is still open.
        by: Who makes the calls, for the journal; by default the user.
        token: What a server wants to see: a person's token, or the server's own; by default `$DETENT_TOKEN`.

    Returns:
        A guard. The journal is opened when the first call is made.
    """
    options = CallOptions(_check_mode(waiting), session, "", by)
    if isinstance(home, str) and home.startswith(("http://", "https://")):
        if policy is not None:
            raise Refused("the policy is the server's: leave `policy` out")
        from detent.guarding.remote_call_journal import open_server_desk

        said = token or os.environ.get(TOKEN_VARIABLE, "")
        return FunctionGuard(partial(open_server_desk, home.rstrip("/"), said), options)
    if token:
        raise Refused("`token` is for a server's address; in a home of this machine DETENT_TOKEN says who you are")
    return FunctionGuard(partial(open_journal_desk, resolve_home(home).absolute(), policy), options)


def find_tool(function: Callable[..., Any]) -> GuardedFunction:
    """What a guard knows of a function that it guards."""
    found = getattr(function, _MARK, None)
    if not isinstance(found, GuardedFunction):
        called = getattr(function, "__name__", repr(function))
        raise Refused(f"{called} is not guarded; decorate it with @guard.tool(…)")
    return found


def _check_mode(waiting: str) -> WaitingMode:
    if waiting not in ("block", "raise", "ticket"):
        raise Refused(f"waiting is {waiting!r}; it must be 'block', 'raise' or 'ticket'")
    return cast("WaitingMode", waiting)


def _check_name(name: Any, taken: dict[str, GuardedFunction]) -> None:
    if not isinstance(name, str) or not is_effect_name(name):
        raise DefinitionError(f"{name!r} cannot be the name of a tool; take one such as `bank.pay`")
    if name in taken:
        raise DefinitionError(f"two tools are called `{name}`")
