"""A guarded function as a tool of Pydantic AI: a question defers the call (`DeferredToolRequests`).

A yes in `DeferredToolResults` is passed on to the journal in the name that the program gives (`approve_by`); without
one only an answer in detent counts, and a call that still waits is deferred again.
"""

from typing import Any

from pydantic_ai import ApprovalRequired, RunContext, Tool  # type: ignore[import-not-found]

from detent.errors import Waiting
from detent.guarding.agent_call import AgentTool, describe_question


def make_pydantic_ai_tool(tool: AgentTool) -> Tool[Any]:
    """A guarded function as a tool for an `Agent`; its `output_type` has to name `DeferredToolRequests` too."""

    async def call(context: RunContext[Any], **args: Any) -> Any:
        call_id = context.tool_call_id or ""
        try:
            return await tool.call(args, call_id)
        except Waiting as asked:
            is_passed_on = context.tool_call_approved and await tool.pass_on(asked, True)
            if not is_passed_on:
                raise ApprovalRequired(metadata=describe_question(asked)) from None
        try:
            return await tool.call(args, call_id)
        except Waiting as asked:
            raise ApprovalRequired(metadata=describe_question(asked)) from None

    return Tool.from_schema(call, tool.name, tool.about, tool.schema, takes_ctx=True)
