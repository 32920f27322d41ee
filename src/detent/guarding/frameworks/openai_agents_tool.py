"""A guarded function as a tool of the OpenAI Agents SDK: a question is a tool approval, and interrupts the run.

An approval given to the SDK is passed on to the journal in the name that the program gives (`approve_by`); without
one only an answer in detent counts, and the run is resumed after it.
"""

from typing import Any

from agents import FunctionTool, RunContextWrapper  # type: ignore[import-not-found]
from agents.tool_context import ToolContext  # type: ignore[import-not-found]

from detent.errors import Waiting
from detent.guarding.agent_call import AgentTool, describe_question, write_reply


def make_openai_agents_tool(tool: AgentTool) -> FunctionTool:
    """A guarded function as a tool for an `Agent`."""

    async def invoke(context: ToolContext[Any], arguments: str) -> Any:
        call_id = context.tool_call_id
        try:
            return write_reply(await tool.call(arguments, call_id))
        except Waiting as asked:
            if not await tool.pass_on(asked, True):
                return write_reply({"status": "waiting", **describe_question(asked)})
        try:
            return write_reply(await tool.call(arguments, call_id))
        except Waiting as asked:
            return write_reply({"status": "waiting", **describe_question(asked)})

    async def needs_approval(_: RunContextWrapper[Any], args: dict[str, Any], call_id: str) -> bool:
        """Whether somebody is asked. A call about which nobody is asked is made now; `invoke` then tells its result."""
        try:
            await tool.call(args, call_id)
        except Waiting:
            return True
        return False

    return FunctionTool(
        name=tool.name,
        description=tool.about,
        params_json_schema=tool.schema,
        on_invoke_tool=invoke,
        strict_json_schema=False,
        needs_approval=needs_approval,
    )
