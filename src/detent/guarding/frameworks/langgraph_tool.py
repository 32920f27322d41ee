"""A guarded function as a tool of LangGraph: a question interrupts the graph, and resuming it goes on from there.

The thread is the session, and the id of the model's tool call the call's own: a node that runs again after an
interrupt or a crash makes the same call, and gets the same result. Outside of a graph it is a plain tool of LangChain:
the question is what the tool says, and the same call made after the answer gives the result.
"""

import asyncio
from contextvars import ContextVar
from typing import Any

from langchain_core.runnables import RunnableConfig  # type: ignore[import-not-found]
from langchain_core.tools import StructuredTool  # type: ignore[import-not-found]
from langgraph.types import interrupt  # type: ignore[import-not-found]

from detent.errors import Waiting
from detent.guarding.agent_call import AgentTool, describe_question, describe_waiting

NOT_IN_GRAPH = (KeyError, RuntimeError)  # of `interrupt` where nothing can be interrupted
_call: ContextVar[tuple[str, str]] = ContextVar("call", default=("", ""))


class LangGraphTool(StructuredTool):  # type: ignore[misc]  # the package is not here when types are checked
    """A structured tool that knows which call of which thread it carries out."""

    def run(
        self, *args: Any, tool_call_id: str | None = None, config: RunnableConfig | None = None, **named: Any
    ) -> Any:
        """Carry out a call."""
        token = _call.set((tool_call_id or "", _find_thread(config)))
        try:
            return super().run(*args, tool_call_id=tool_call_id, config=config, **named)
        finally:
            _call.reset(token)

    async def arun(
        self, *args: Any, tool_call_id: str | None = None, config: RunnableConfig | None = None, **named: Any
    ) -> Any:
        """Carry out a call."""
        token = _call.set((tool_call_id or "", _find_thread(config)))
        try:
            return await super().arun(*args, tool_call_id=tool_call_id, config=config, **named)
        finally:
            _call.reset(token)


def _find_thread(config: RunnableConfig | None) -> str:
    return str((config or {}).get("configurable", {}).get("thread_id", ""))


def make_langgraph_tool(tool: AgentTool) -> LangGraphTool:
    """A guarded function as a tool for `ToolNode` and agents."""

    async def call_async(**args: Any) -> Any:
        call_id, thread = _call.get()
        while True:
            try:
                return await tool.call(args, call_id, thread)
            except Waiting as asked:
                try:
                    answer = interrupt(describe_question(asked))
                except NOT_IN_GRAPH:
                    return describe_waiting(asked)
                await tool.pass_on(asked, answer)

    def call(**args: Any) -> Any:
        call_id, thread = _call.get()
        while True:
            try:
                return tool.call_in_thread(args, call_id, thread)
            except Waiting as asked:
                try:
                    answer = interrupt(describe_question(asked))
                except NOT_IN_GRAPH:
                    return describe_waiting(asked)
                asyncio.run(tool.pass_on(asked, answer))

    return LangGraphTool(
        name=tool.name, description=tool.about or tool.name, args_schema=tool.schema, func=call, coroutine=call_async
    )
