"""Guarded functions as tools of the Claude Agent SDK, and its own tools (shell, files, network) behind the policy.

Its tools get no id of the model's call: the same call is the same session, tool and arguments. A question is told to
the model as an error of the tool; made again after the answer, the call gives its result, once.
"""

from typing import Any

from claude_agent_sdk import HookMatcher, SdkMcpTool, tool  # type: ignore[import-not-found]

from detent.errors import CallNotDone, DetentError, Waiting
from detent.guarding.agent_call import AgentTool, describe_waiting, write_reply
from detent.guarding.call_permission import CallPermission

AGENT = "claude"
MARGIN_S = 30.0  # the SDK's limit on a hook must be longer than our wait


def make_claude_agent_tool(made: AgentTool) -> SdkMcpTool[Any]:
    """A guarded function as a tool for `create_sdk_mcp_server`."""

    @tool(made.name, made.about or made.name, made.schema)  # type: ignore[untyped-decorator]
    async def call(args: dict[str, Any]) -> dict[str, Any]:
        try:
            return _write_result(await made.call(args, ""))
        except Waiting as asked:
            return {**_write_result(describe_waiting(asked)), "is_error": True}

    return call


def _write_result(value: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": write_reply(value)}]}


def make_claude_hooks(
    permission: CallPermission, guarded: frozenset[str], matcher: str, wait_s: float
) -> dict[str, list[HookMatcher]]:
    """Hooks for `ClaudeAgentOptions`: each call of Claude's own tools is permitted by the policy, or by a person."""

    async def decide(asked: Any, _: str | None, __: Any) -> dict[str, Any]:
        name = str(asked["tool_name"])
        if name.startswith("mcp__") and name.rpartition("__")[2] in guarded:
            return {}  # its own call is a contract
        session = f"{AGENT}:{asked.get('session_id', '')}"
        try:
            await permission.ask(name, dict(asked.get("tool_input") or {}), session, wait_s)
        except Waiting as waiting:
            return _decide(f"It waits for a person: {waiting}. Make the same call again after the decision.")
        except (CallNotDone, DetentError) as error:
            return _decide(str(error))
        return _decide("")

    return {"PreToolUse": [HookMatcher(matcher=matcher, hooks=[decide], timeout=wait_s + MARGIN_S)]}


def _decide(why_not: str) -> dict[str, Any]:
    """Yes, or no and why; without this word its own rules would decide."""
    said = {"permissionDecision": "deny" if why_not else "allow"}
    reason = {"permissionDecisionReason": f"detent: {why_not}"} if why_not else {}
    return {"hookSpecificOutput": {"hookEventName": "PreToolUse", **said, **reason}}
