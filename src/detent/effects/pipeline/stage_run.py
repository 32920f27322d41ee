"""The effect `pipeline`: stages that hand items on to each other.

    stages   [{name, words, options}], in order
    input    what the first stage gets: the items of a list, one value, or nothing
    env, cwd, shell   what `exec` runs with; `shell` is the program a line is handed to
    sandbox, paths, network   as those of `shell`
    timeout  seconds; then what `exec` has begun is killed
    is_failed_late   too late is a failure like an exit code, not a doubt

The result is `{stdout, json, all, success}`: what people read, the items (one stands for itself), and all of them.
Only `exec`, `state.set`, `diff.last` and `llm.invoke` touch anything; a pipeline without them is declared pure.
"""

import asyncio
import os
import re
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from detent.core.contract import Contract
from detent.core.effect_type import EffectFailed, Outcome, PartialFailure, effect
from detent.core.expression.step_filter import NOTHING, encode, parse, text
from detent.effects import process, sandbox
from detent.effects.arguments import Arguments, invalid
from detent.effects.call_fact import shell_facts
from detent.effects.pipeline.item_stage import PURE, RENDERED, StageInput
from detent.effects.shell import TIMEOUT_S, read_environment, sweep
from detent.effects.usage_metering import with_usage
from detent.whole_file import write_whole

KNOWN = "stages input env cwd shell timeout is_failed_late"
STDIN = ("raw", "json", "jsonl")
KEY_MAX = 100
VALUE_MAX = 16 * 1024 * 1024


@effect("pipeline", kind="irreversible", timeout_s=TIMEOUT_S, settle_s=0.0, reconcile=sweep, is_lenient=True,
        facts=shell_facts, is_local=True)  # fmt: skip
async def _pipeline(contract: Contract) -> Outcome:
    """Hand items through stages."""
    given = Arguments("pipeline", contract.input, f"{KNOWN} {sandbox.KNOWN}")
    if not contract.is_irreversible:
        await sweep(contract)
    timeout_s = given.seconds("timeout")
    try:
        async with asyncio.timeout(timeout_s) as limit:
            return await _Line(contract, given).run()
    except TimeoutError:
        if not limit.expired() or not given.flag("is_failed_late"):
            raise
        late = f"timed out after {(timeout_s or 0) * 1000:g}ms"
        raise PartialFailure(late, "timeout.action", {"success": False}) from None


pipeline = replace(_pipeline, declared=replace(_pipeline.declared, is_priced=True))


class _Line:
    """The items on their way, and what has been written for people."""

    def __init__(self, contract: Contract, given: Arguments) -> None:
        self.contract, self.given = contract, given
        value = given.any("input", None)
        self.items: list[Any] = value if isinstance(value, list) else [] if value is None else [value]
        self.rendered = ""
        self.usage: dict[str, float] = {}

    async def run(self) -> Outcome:
        stages = self.given.any("stages")
        for stage in stages if isinstance(stages, list) else []:
            await self._stage(stage)
        said = self.rendered or _as_text(self.items)
        result: dict[str, Any] = {"stdout": said, "all": self.items, "success": True}
        if self.items:
            result["json"] = self.items[0] if len(self.items) == 1 else self.items
        outcome = with_usage(Outcome(result), self.items)
        total = {name: outcome.usage.get(name, 0) + self.usage.get(name, 0) for name in {*outcome.usage, *self.usage}}
        return replace(outcome, usage=total)

    async def _stage(self, stage: dict[str, Any]) -> None:
        given = StageInput(self.items, stage.get("words", []), stage.get("options", {}))
        name = stage["name"]
        if name in RENDERED:
            self.rendered += RENDERED[name](self.items)
            self.items = []
        elif name == "template" and given.option("file"):
            words = [_read_text(Path(given.option("file")))]
            self.items = PURE[name](given._replace(words=words, options={}))
        elif name in PURE:
            self.items = PURE[name](given)
        elif name == "exec":
            self.items = await self._exec(given)
        elif name == "llm.invoke":
            self.items = await self._ask_model(given)
        else:
            self.items = [_state(name, given)]

    async def _exec(self, given: StageInput) -> list[Any]:
        """The lines a program writes, or the items of its JSON."""
        shell = self.given.any("shell", ["sh", "-c"])
        line = given.option("shell")
        is_line = bool(line) or (len(given.words) == 1 and any(mark.isspace() for mark in given.words[0]))
        words = given.words
        if given.option("json"):  # `--json COMMAND` takes the command for its value
            words = [given.option("json"), *words]
            is_line = is_line or (len(words) == 1 and any(mark.isspace() for mark in words[0]))
        argv = [*shell, line or words[0]] if is_line and (line or words) else words
        if not argv:
            raise invalid("`exec` needs a command")
        stdin = _encode_stdin(given)
        env, cwd = read_environment(self.given), self.given.text("cwd", ".")
        box = await sandbox.enter(sandbox.read_wish(self.given), cwd)
        try:
            finished = await process.run(argv, env, cwd, stdin, self.contract.key, sandbox=box)
        except process.NotStarted as error:
            raise EffectFailed(f"`{argv[0]}` could not be started", type="tool_failure.not_found") from error
        result = {"exit": finished.exit, "stdout": finished.stdout, "stderr": finished.stderr, "success": False}
        if finished.exit:
            last = (finished.stderr.strip() or finished.stdout.strip()).rpartition("\n")[2][:300]
            raise PartialFailure(f"`exec` ended with exit code {finished.exit}: {last}", "tool_failure.exit", result)
        if not given.options.get("json"):
            return [one for one in re.split(r"\r?\n", finished.stdout) if one]
        value = parse(finished.stdout.strip() or "null")
        if value is NOTHING:
            raise PartialFailure("`exec --json`: what it wrote is no JSON", "tool_failure", result)
        return value if isinstance(value, list) else [value]

    async def _ask_model(self, given: StageInput) -> list[Any]:
        """One question to a model, with the items behind it."""
        from detent.effects.llm import llm  # noqa: PLC0415  # models are loaded by who asks one

        prompt = given.option("prompt") or " ".join(given.words)
        if not prompt:
            raise invalid("`llm.invoke` needs `--prompt`")
        content = "\n\n".join([prompt, *([encode(self.items)] if self.items else [])])
        asked: dict[str, Any] = {"messages": [{"role": "user", "content": content}]}
        if given.option("model"):
            asked["model"] = given.option("model")
        if given.option("schema"):
            asked["schema"] = parse(given.option("schema"))
        outcome = await llm.perform(replace(self.contract, input=asked))
        if not isinstance(outcome, Outcome):
            raise EffectFailed("the model gave no answer")
        for name, amount in outcome.usage.items():
            self.usage[name] = self.usage.get(name, 0) + amount
        answer = outcome.result
        return [answer["json"] if answer.get("json") is not None else answer.get("text", "")]


def _as_text(items: list[Any]) -> str:
    if items and all(isinstance(item, str) for item in items):
        return "\n".join(items)
    return "" if not items else text(items[0]) if len(items) == 1 else encode(items)


def _encode_stdin(given: StageInput) -> str | None:
    mode = given.option("stdin").lower()
    if not mode:
        return None
    if mode not in STDIN:
        raise invalid(f"`exec --stdin` must be one of {', '.join(STDIN)}")
    if mode == "json":
        return encode(given.items)
    if mode == "jsonl":
        return "".join(encode(item) + "\n" for item in given.items)
    return "\n".join(text(item) for item in given.items)


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise invalid(f"`template --file`: {path} cannot be read: {error}") from None


def _state(name: str, given: StageInput) -> Any:
    """Values that stay from one run to the next, one file for each key in the home."""
    key = given.option("key") or (given.words[0] if given.words else "")
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", key).strip("._")[:KEY_MAX]
    if not safe:
        raise invalid(f"`{name}` needs a key")
    path = Path(os.environ.get("DETENT_HOME", ".detent")) / "state" / f"{safe}.json"
    before = _load(path)
    if name == "state.get":
        return before
    value = given.items[0] if len(given.items) == 1 else given.items
    _store(path, value)
    if name == "state.set":
        return value
    is_changed = encode(before) != encode(value)
    return {"kind": "diff.last", "key": key, "changed": is_changed, "before": before, "after": value}


def _load(path: Path) -> Any:
    if not path.is_file():
        return None
    found = parse(_read_text(path))
    return None if found is NOTHING else found


def _store(path: Path, value: Any) -> None:
    """Write it whole or not at all."""
    made = encode(value)
    if len(made) > VALUE_MAX:
        raise invalid(f"a value of more than {VALUE_MAX:,} characters is not kept")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_whole(path, f"{made}\n".encode())
