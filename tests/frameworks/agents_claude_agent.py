"""An agent of the Claude Agent SDK that pays; its state is the conversation, as Claude Code keeps it in its home."""

import asyncio
from typing import Any

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    PermissionResultAllow,
    PermissionResultDeny,
    ResultMessage,
    create_sdk_mcp_server,
    tool,
)

SCHEMA = {
    "type": "object",
    "properties": {"to": {"type": "string"}, "amount": {"type": "integer"}},
    "required": ["to", "amount"],
}


def make_bare(pay: Any) -> Any:
    @tool("bank_pay", "Pay.", SCHEMA)
    async def bank_pay(args: dict[str, Any]) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": str(pay(**args))}]}

    return bank_pay


async def run_async(folder: Any, guard: Any, pay: Any, thread: str, is_resumed: bool, base_url: str) -> str:
    waiting: list[str] = []

    async def decide(name: str, given: Any, _: Any) -> Any:
        if is_resumed:
            return PermissionResultAllow()
        waiting.append(name)
        return PermissionResultDeny(message="ask later", interrupt=True)

    made = guard.to_claude_agent(pay, session=thread) if guard is not None else make_bare(pay)
    file = folder / f"{thread}.session"
    env = {
        "ANTHROPIC_BASE_URL": base_url.removesuffix("/v1"),
        "ANTHROPIC_API_KEY": "sk-ant-scripted-and-worthless",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "ENABLE_TOOL_SEARCH": "false",
        "HOME": str(folder),
    }
    options = ClaudeAgentOptions(
        mcp_servers={"bank": create_sdk_mcp_server("bank", tools=[made])},
        allowed_tools=["mcp__bank__bank_pay"] if guard is not None else [],
        can_use_tool=None if guard is not None else decide,
        env=env,
        cwd=folder,
        resume=file.read_text() if is_resumed and file.exists() else None,
        setting_sources=[],
    )
    said = ""
    async with ClaudeSDKClient(options) as client:
        await client.query("go on" if is_resumed else "pay")
        async for message in client.receive_response():
            if isinstance(message, ResultMessage):
                file.write_text(message.session_id)
                said = message.result or ""
    return "waiting" if waiting or "waiting" in said else said


def run(*given: Any) -> str:
    """What the agent says, or `waiting`."""
    return asyncio.run(run_async(*given))
