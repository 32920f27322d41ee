"""A guarded function called by an agent's framework: arguments as JSON, and an answer that a model can read."""

import asyncio
import json
import re
from collections.abc import Mapping
from typing import Any

from detent.errors import CallNotDone, Refused, Waiting
from detent.guarding.function_schema import to_json
from detent.guarding.guarded_function import CallOptions, GuardedFunction

_NAME_MAX = 64


class AgentTool:
    """A guarded function as every framework sees it."""

    def __init__(self, tool: GuardedFunction, session: str, approve_by: str) -> None:
        self.tool, self._session, self._approve_by = tool, session, approve_by
        self.name = re.sub(r"[^A-Za-z0-9_-]", "_", tool.name)[:_NAME_MAX]
        self.about, self.schema = tool.about, tool.schema

    async def call(self, args: str | Mapping[str, Any], call_id: str, session: str = "") -> Any:
        """What the call gave, as JSON, or what stands in its place; `Waiting` where a person is asked."""
        options = CallOptions("raise", session or self._session, call_id)
        try:
            first, named = self.tool.parameters.split(self.tool.parameters.accept(_read_arguments(args)))
            if self.tool.is_async:
                return _describe_result(await self.tool.call_async(options, first, named))
            return _describe_result(await asyncio.to_thread(self.tool.call, options, first, named))
        except Waiting:
            raise
        except CallNotDone as error:
            return describe_end(error)
        except (Refused, TypeError, ValueError) as error:
            return {"status": "failed", "message": str(error)}

    def call_in_thread(self, args: Mapping[str, Any], call_id: str, session: str = "") -> Any:
        """The same for a caller that is not async."""
        return asyncio.run(self.call(args, call_id, session))

    async def pass_on(self, asked: Waiting, answer: Any) -> bool:
        """Give the journal an answer that a person gave to the framework; whether it was one.

        Only a mapping with `approved`, or a plain yes where the program says in whose name it counts.
        """
        if isinstance(answer, Mapping) and "approved" in answer:
            said = dict(answer)
        elif isinstance(answer, bool) and self._approve_by:
            said = {"approved": answer}
        else:
            return False
        by = str(said.pop("by", "") or self._approve_by)
        await asyncio.to_thread(self.tool.guard.answer, asked, said, by=by)
        return True


def _read_arguments(arguments: str | Mapping[str, Any]) -> Mapping[str, Any]:
    """Arguments as a model writes them; what is no object of JSON is refused with a sentence that it can mend."""
    if isinstance(arguments, Mapping):
        return arguments
    try:
        args = json.loads(arguments or "{}")
    except ValueError as error:
        raise Refused(f"the arguments are not JSON: {error}") from None
    if not isinstance(args, dict):
        raise Refused("the arguments are not a JSON object")
    return args


def _describe_result(result: Any) -> Any:
    """A result as JSON; one that is no JSON does not make a failure of what was done."""
    try:
        return to_json(result)
    except TypeError as error:
        return {"status": "done", "message": f"It was done. Its result cannot be shown: {error}."}


def write_reply(value: Any) -> str:
    """What a model is told, as text."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def describe_question(asked: Waiting) -> dict[str, Any]:
    """What a framework shows whoever must answer."""
    return {
        "question": asked.question,
        "call": asked.call,
        "run_id": asked.run_id,
        "contract_id": asked.contract_id,
        "answer": asked.command,
    }


def describe_waiting(asked: Waiting) -> dict[str, Any]:
    """What a model is told of a question where its framework cannot stop for one."""
    return {"status": "waiting", **describe_question(asked), "then": "make exactly the same call again"}


def describe_end(error: CallNotDone) -> dict[str, Any]:
    """What a model is told of a call that has no result."""
    said = {"status": error.type if error.type != "approval_rejected" else "rejected", "message": str(error)}
    result = getattr(error, "result", None)
    return {**said, "result": to_json(result)} if result is not None else said
