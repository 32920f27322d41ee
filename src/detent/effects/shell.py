"""The effect `shell`: one program with its arguments, never a command line that a shell would take apart.

    argv     the program and its arguments, each passed on exactly as it is
    env      further environment variables; of a list of such mappings, later ones count, and null is nothing
    cwd      the folder to run in; the current one by default
    stdin    text to read; by default there is nothing to read
    stdin_json      a value to read as JSON instead
    is_json  what it writes is one JSON object, whose keys join the result
    timeout  seconds; then the program and its whole process group are killed
    ok_exit  the exit codes that mean success; [0] by default
    sandbox  off, home (the default), folder or strict; see `sandbox`
    paths    what the stricter of them let through: a list of paths to write to, or `{read: […], write: […]}`
    network  true: a strict one has a network
    is_failed_late  too late is a failure like an exit code, not a doubt: the author has said that it may be killed
    is_metered      a JSON answer that says which `model` had how much `usage` is counted in dollars

The result is `{exit, stdout, stderr, success, truncated}`. Any other exit code is the error `tool_failure.exit`, with
that result: the program ran, and may have done something before it failed. One that was killed by a signal has not even
said that it failed. Of stdout and stderr 256 KiB each are kept, from both ends.

The program does not inherit our environment, where secrets live: only the variables in INHERITED, those of LC_*, what
`env` gives, and the marks by which recovery finds leftovers (see `process`).
"""

import asyncio
import codecs
import errno
import os
from collections.abc import Callable
from typing import Any

import msgspec

from detent.core.contract import Contract
from detent.core.effect_type import EffectFailed, Outcome, OutcomeUnknown, PartialFailure, effect
from detent.core.progress import voice
from detent.core.value import plain
from detent.effects import process, sandbox
from detent.effects.arguments import TEXT, Arguments, invalid
from detent.effects.call_fact import shell_facts
from detent.effects.process import kill_leftovers
from detent.effects.usage_metering import with_usage
from detent.errors import Refused

INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR")
KNOWN = f"argv! env cwd stdin stdin_json timeout ok_exit is_failed_late is_metered is_json {sandbox.KNOWN}"
TIMEOUT_S = 600.0
LAST_LINE_MAX = 300
SIGNALLED = 128


async def sweep(contract: Contract) -> None:
    """Kill what an interrupted attempt left running; how far it had come nobody can tell."""
    await asyncio.to_thread(kill_leftovers, contract.key)


@effect("shell", kind="irreversible", timeout_s=TIMEOUT_S, settle_s=0.0, reconcile=sweep, is_lenient=True,
        facts=shell_facts, is_local=True, takes=KNOWN)  # fmt: skip
async def shell(contract: Contract) -> Outcome:
    """Run a program with its arguments and wait for its end."""
    given = Arguments("shell", contract.input, KNOWN)
    argv, env, cwd, timeout_s = _argv(given), _environment(given), _folder(given), given.seconds("timeout")
    stdin, ok_exit = _stdin(given), given.numbers("ok_exit", (0,))
    box = await sandbox.enter(sandbox.read_wish(given), cwd)
    if not contract.is_irreversible:  # after a crash it is simply run again, beside what may be left of the first time
        await sweep(contract)
    try:
        async with asyncio.timeout(timeout_s) as limit:
            finished = await process.run(argv, env, cwd, stdin, contract.key, _listen(contract), sandbox=box)
    except TimeoutError as error:
        if not limit.expired():
            raise
        if given.flag("is_failed_late"):
            late = f"timed out after {(timeout_s or 0) * 1000:g}ms; it and its process group were killed"
            raise PartialFailure(late, "timeout.action", {"success": False}) from error
        message = f"`{argv[0]}` had not ended after {timeout_s:g} s; it and its process group were killed"
        raise TimeoutError(message) from error
    except process.NotStarted as error:
        raise _not_started(argv[0], error.__cause__) from error
    outcome = _outcome(contract, argv[0], finished, ok_exit)
    if given.flag("is_json"):
        outcome = _read_answer(argv[0], finished.stdout, outcome)
    return with_usage(outcome, finished.stdout) if given.flag("is_metered") else outcome


def _listen(contract: Contract) -> process.Ears:
    """Pass on what the program writes, as it comes and with its colours, to whoever looks on."""
    speak = voice(contract)

    def hear() -> Callable[[bytes], None]:
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode

        def take(chunk: bytes) -> None:
            if text := decode(chunk):  # half a letter waits for its other half
                speak({"text": text})

        return take

    return process.Ears(stdout=hear(), stderr=hear())


def _outcome(contract: Contract, program: str, finished: process.Finished, ok_exit: tuple[int, ...]) -> Outcome:
    code = finished.exit
    if code < 0 and SIGNALLED - code in ok_exit:  # a shell's way to say that a signal ended what it started
        code = SIGNALLED - code
    is_ok = code in ok_exit
    result = {
        "exit": code,
        "stdout": finished.stdout,
        "stderr": finished.stderr,
        "success": is_ok,
        "truncated": finished.is_cut,
    }
    if is_ok:
        return Outcome(result)
    last = (finished.stderr.strip() or finished.stdout.strip()).rpartition("\n")[2][:LAST_LINE_MAX]
    why = f": {last}" if last else ""
    if finished.exit < 0 and contract.is_irreversible:
        raise OutcomeUnknown(f"`{program}` was killed by signal {-finished.exit}{why}", result)
    raise PartialFailure(f"`{program}` ended with exit code {finished.exit}{why}", "tool_failure.exit", result)


def _stdin(given: Arguments) -> str | None:
    if "stdin_json" in given:
        if "stdin" in given:
            raise invalid("`shell` takes `stdin` or `stdin_json`, not both")
        return msgspec.json.encode(given.any("stdin_json")).decode()
    return given.text("stdin") if "stdin" in given else None


def _read_answer(program: str, stdout: str, outcome: Outcome) -> Outcome:
    """The result with what the program has answered; it did its work, so an answer that is none is a failure of it."""
    if not stdout.strip():
        return outcome
    try:
        answer = plain(msgspec.json.decode(stdout))
    except (msgspec.DecodeError, RecursionError, Refused) as error:
        said = f"`{program}` did not answer with JSON: {error} (a tool that prints text says `output: text`)"
        raise PartialFailure(said, "tool_failure", outcome.result) from None
    known = answer if isinstance(answer, dict) else {"json": answer}
    return Outcome({**outcome.result, **known})


def _argv(given: Arguments) -> list[str]:
    argv: Any = given.any("argv")
    if isinstance(argv, str):
        way_out = 'write a list, one item per argument, for example ["ls", "-l"]; for a pipeline: ["sh", "-c", "…"]'
        raise invalid(f"`argv` of `shell` is a text, and no shell takes it apart; {way_out}")
    if not isinstance(argv, list) or not argv or argv[0] == "":
        raise invalid('`argv` of `shell` must be a list that begins with a program, for example ["ls", "-l"]')
    for position, argument in enumerate(argv):
        if not isinstance(argument, str):
            raise given.refuse_type(f"argv[{position}]", argument, TEXT)
    return argv


def _environment(given: Arguments) -> dict[str, str]:
    return read_environment(given)


def read_environment(given: Arguments) -> dict[str, str]:
    """What a program gets: little of ours, and what it is given."""
    mine = {name: value for name, value in os.environ.items() if name in INHERITED or name.startswith("LC_")}
    said = given.any("env") if "env" in given else None
    if not isinstance(said, list):
        return mine | given.texts("env")
    for one in said:
        if not isinstance(one, dict) or not all(value is None or isinstance(value, str) for value in one.values()):
            raise invalid(f"`env` of `{given.effect}` must be mappings from names to texts")
        mine.update({name: value for name, value in one.items() if value is not None})
    return mine


def _folder(given: Arguments) -> str:
    cwd = given.text("cwd", ".")
    if "\0" in cwd or not os.path.isdir(cwd):
        raise invalid(f"`cwd` of `shell`: there is no folder {cwd!r}")
    return cwd


def _not_started(program: str, error: BaseException | None) -> EffectFailed:
    """Why the program could not even be started: evidence that nothing happened."""
    if isinstance(error, FileNotFoundError):
        return EffectFailed(f"there is no program `{program}`", type="tool_failure.not_found")
    if isinstance(error, OSError) and error.errno not in (errno.EACCES, errno.ENOEXEC, errno.E2BIG):
        return EffectFailed(f"`{program}` could not be started: {error.strerror}")
    problem = error.strerror if isinstance(error, OSError) else str(error)
    return invalid(f"`{program}` cannot be run: {problem}")
