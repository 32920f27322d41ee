"""Regular expressions of a planner, tried on texts in a process of their own.

A pattern can keep Python busy for ever, and nothing can interrupt it: `(a+)+$` is enough. A planner may be a model or a
stranger's server, so its patterns get a process and a bound on time; plain words are looked for right here.
"""

import asyncio
import contextlib
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

PATTERN_MAX = 500
WITHIN_S = 5.0
Matches = Mapping[str, "frozenset[str] | str"]  # by pattern: the texts it is found in, or why it was left out

_PROGRAM = """
import json, re, sys
given = json.load(sys.stdin)
for number, pattern in enumerate(given["patterns"]):
    try:
        compiled = re.compile(pattern)
        found = [at for at, text in enumerate(given["texts"]) if compiled.search(text)]
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
    print(json.dumps([number, found]), flush=True)
"""


async def search_patterns(patterns: Iterable[Any], texts: Sequence[str], within_s: float = WITHIN_S) -> Matches:
    """Where each pattern is found."""
    matches: dict[str, frozenset[str] | str] = {}
    hard = []
    for pattern in dict.fromkeys(map(str, patterns)):
        if len(pattern) > PATTERN_MAX:
            matches[pattern] = f"at most {PATTERN_MAX} characters"
        elif re.fullmatch(r"[\w\s:;,'\"!%&=<>@#/~-]*", pattern):
            matches[pattern] = frozenset(text for text in texts if pattern in text)
        else:
            hard.append(pattern)
    if hard:
        matches.update(dict.fromkeys(hard, f"it took more than {within_s:g} s"))
        async for number, found in _try_patterns(hard, texts, within_s):
            is_error = isinstance(found, str)
            matches[hard[number]] = found if is_error else frozenset(texts[at] for at in found)
    return matches


async def _try_patterns(patterns: list[str], texts: Sequence[str], within_s: float) -> Any:
    """Number and result of each pattern, as long as there is time."""
    given = msgspec.json.encode({"patterns": patterns, "texts": texts})
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-c", _PROGRAM, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    rows: list[Any] = []
    try:
        async with asyncio.timeout(within_s):
            if process.stdin is not None and process.stdout is not None:  # both were asked for
                process.stdin.write(given)
                process.stdin.close()
                async for line in process.stdout:
                    rows.append(msgspec.json.decode(line))
    except TimeoutError:
        pass
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
    for row in rows:
        yield row
