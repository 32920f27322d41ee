"""Permission for a call that another program makes itself: a coding agent's commands, edits and requests.

Only the permission is a contract: a rule of the policy gives it, or a person. The call is not made here, so that it is
made once, and what came of it, nobody can promise.
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from detent.errors import Waiting

if TYPE_CHECKING:
    from detent.guarding.function_guard import FunctionGuard

ACTING = "Bash|Edit|MultiEdit|Write|NotebookEdit|WebFetch|WebSearch|mcp__.*"  # tools of Claude Code that act
WAIT_S = 540.0
NAME_MAX = 100


class CallPermission:
    """Asks whether an agent may use its own tools; each is known as `AGENT.TOOL` to policies and the journal."""

    def __init__(self, guard: "FunctionGuard", agent: str) -> None:
        self._guard, self._agent = guard, agent
        self._asking: dict[str, Any] = {}  # by tool

    async def ask(self, tool: str, given: Mapping[str, Any], session: str, wait_s: float = WAIT_S) -> None:
        """Return when the call may be made; raise when it may not, or `Waiting` when nobody has said so for so long."""
        name = "".join(ch for ch in tool if ch.isalnum() or ch in "_-.")[:NAME_MAX] or "tool"
        permit = self._asking.get(name) or self._guard_tool(name)
        options = self._guard.options
        try:
            await options(permit, waiting="raise", session=session)(**given)
        except Waiting:
            if wait_s <= 0:
                raise
            try:
                await asyncio.wait_for(options(permit, waiting="block", session=session)(**given), wait_s)
            except TimeoutError:  # what it waits for is said again, if it still does
                await options(permit, waiting="raise", session=session)(**given)

    def _guard_tool(self, tool: str) -> Any:
        ask = f"May {self._agent} use {tool}?"

        @self._guard.tool(f"{self._agent}.{tool}", ask=lambda **_: ask, repeat="allow", scope="run", settle_s=0.0)
        async def permit(**arguments: Any) -> str:  # noqa: ARG001
            return "permitted"

        self._asking[tool] = permit
        return permit
