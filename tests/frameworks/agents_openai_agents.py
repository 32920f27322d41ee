"""An agent of the OpenAI Agents SDK that pays; its state is the SDK's own, in a file."""

import asyncio
from typing import Any

from agents import Agent, OpenAIChatCompletionsModel, Runner, RunState, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

set_tracing_disabled(True)


def make_bare(pay: Any) -> Any:
    @function_tool(needs_approval=True)
    def bank_pay(to: str, amount: int) -> dict[str, Any]:
        """Pay."""
        return pay(to, amount)

    return bank_pay


async def run_async(folder: Any, guard: Any, pay: Any, thread: str, is_resumed: bool, base_url: str) -> str:
    made = guard.to_openai_agents(pay, session=thread) if guard is not None else make_bare(pay)
    client = AsyncOpenAI(base_url=base_url, api_key="none")
    agent = Agent(name="payer", tools=[made], model=OpenAIChatCompletionsModel("m", openai_client=client))
    file = folder / f"{thread}.json"
    given: Any = "pay"
    if is_resumed:
        given = await RunState.from_string(agent, file.read_text())
        for item in given.get_interruptions():
            given.approve(item)
    result = await Runner.run(agent, given)
    if result.interruptions:
        file.write_text(result.to_state().to_string())
        return "waiting"
    return str(result.final_output)


def run(*given: Any) -> str:
    """What the agent says, or `waiting`."""
    said = asyncio.run(run_async(*given))
    return "waiting" if '"status": "waiting"' in said else said
