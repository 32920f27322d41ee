"""The command hook: coding agents of others ask here before they run a command, change a file or reach the network.

Each call is a run: the policy decides it, or a person does. A hook that cannot decide says no: exit code 2, which every
one of these programs takes as a block, with the reason on stderr.
"""

import asyncio
import json
import shutil
import sys
from typing import Any, NamedTuple

import click

from detent.errors import CallNotDone, DetentError, Waiting
from detent.kit.language import _
from detent.kit.safe_text import visible
from detent.kit.terminal.caller import Caller
from detent.kit.terminal.option import verb

BLOCK = 2
WAIT_S = 540.0
LIMIT_S = 600  # the program's own limit on its hooks must be longer than our wait


class CodingAgent(NamedTuple):
    """How a program calls its hooks."""

    event: str
    matcher: str  # its tools that act: shell, files, network, and those of MCP servers
    limit: int  # in its own unit
    file: str


AGENTS = {
    "claude": CodingAgent(
        "PreToolUse",
        "Bash|Edit|MultiEdit|Write|NotebookEdit|WebFetch|WebSearch|mcp__.*",  # as `guarding.call_permission` has it
        LIMIT_S,
        ".claude/settings.json",
    ),
    "codex": CodingAgent("PreToolUse", ".*", LIMIT_S, ".codex/hooks.json"),
    "gemini": CodingAgent(
        "BeforeTool",
        "run_shell_command|write_file|replace|web_fetch|google_web_search|mcp_.*",
        LIMIT_S * 1000,
        ".gemini/settings.json",
    ),
}


@verb("hook")
@click.argument("agent", type=click.Choice(list(AGENTS)), metavar="claude|codex|gemini")
@click.option("--decide", "is_deciding", is_flag=True, help=_("Decide on the call that standard input describes."))
@click.option(
    "--wait", "wait_s", type=click.FloatRange(0), default=WAIT_S, help=_("How many seconds to wait for a person.")
)
async def hook(caller: Caller, agent: str, is_deciding: bool, wait_s: float) -> int:
    """Print the configuration, or decide a call."""
    if is_deciding:
        return await _decide(caller, agent, wait_s)
    made = AGENTS[agent]
    program = [shutil.which("detent") or sys.argv[0], "hook", agent, "--decide", "--home", str(caller.home.absolute())]
    one = {"type": "command", "command": " ".join(_quote(word) for word in program), "timeout": made.limit}
    sys.stdout.write(json.dumps({"hooks": {made.event: [{"matcher": made.matcher, "hooks": [one]}]}}, indent=2) + "\n")
    caller.note(_("This goes into {file}.", file=made.file))
    if agent == "codex":
        caller.note(
            _("Codex runs a hook only once you have trusted it (/hooks); until then its calls are not asked about.")
        )
    return 0


def _quote(word: str) -> str:
    import shlex

    return shlex.quote(word)


async def _decide(caller: Caller, agent: str, wait_s: float) -> int:
    try:
        asked = json.loads(sys.stdin.read())
        tool, given = str(asked["tool_name"]), dict(asked.get("tool_input") or {})
        session = f"{agent}:{asked.get('session_id', '')}"
    except (ValueError, KeyError, TypeError) as error:
        return _say_no(_("the call cannot be read: {problem}", problem=repr(error)))
    try:
        await _ask(caller, agent, tool, given, session, wait_s)
    except Waiting as waiting:
        told = _("It waits for a person: {question}", question=visible(str(waiting)))
        return _say_no(f"{told} " + _("Make the same call again after the decision."))
    except (CallNotDone, DetentError) as error:
        return _say_no(visible(str(error)))
    sys.stdout.write(json.dumps(_say_yes(agent)) + "\n")
    return 0


async def _ask(caller: Caller, agent: str, tool: str, given: dict[str, Any], session: str, wait_s: float) -> None:
    """Return when the call may be made; raise when it may not, or not yet."""
    from detent.guarding import guard as make_guard
    from detent.guarding.call_permission import CallPermission

    guard = make_guard(caller.home, policy=caller.policy(), waiting="raise", by=f"agent:{agent}")
    try:
        await CallPermission(guard, agent).ask(tool, given, session, wait_s)
    finally:
        await asyncio.to_thread(guard.close)


def _say_yes(agent: str) -> dict[str, Any]:
    if agent == "claude":  # without this word it would ask its own user once more
        return {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "allow"}}
    return {"decision": "allow"} if agent == "gemini" else {}


def _say_no(why: str) -> int:
    sys.stderr.write(f"detent: {why}\n")
    return BLOCK


COMMANDS = {"hook": hook}
