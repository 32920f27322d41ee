"""An agent of Pydantic AI that pays; its state is its messages, in a file."""

import asyncio
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ModelMessagesTypeAdapter, Tool
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


def make_bare(pay: Any) -> Any:
    def bank_pay(to: str, amount: int) -> dict[str, Any]:
        """Pay."""
        return pay(to, amount)

    return Tool(bank_pay, requires_approval=True)


async def run_async(folder: Any, guard: Any, pay: Any, thread: str, is_resumed: bool, base_url: str) -> str:
    made = guard.to_pydantic_ai(pay, session=thread) if guard is not None else make_bare(pay)
    model = OpenAIChatModel("m", provider=OpenAIProvider(base_url=base_url, api_key="none"))
    agent = Agent(model, tools=[made], output_type=[str, DeferredToolRequests])
    file = folder / f"{thread}.json"
    if is_resumed:
        before = ModelMessagesTypeAdapter.validate_json(file.read_bytes())
        results = DeferredToolResults(approvals={"call_1": True})
        result = await agent.run(message_history=before, deferred_tool_results=results)
    else:
        result = await agent.run("pay")
    if isinstance(result.output, DeferredToolRequests):
        file.write_bytes(result.all_messages_json())
        return "waiting"
    return str(result.output)


def run(*given: Any) -> str:
    """What the agent says, or `waiting`."""
    return asyncio.run(run_async(*given))
