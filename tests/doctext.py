"""Runs the code blocks of a document as its reader would, from top to bottom in one folder.

    python            run as a script
    console           lines after `$ ` go to one bash for the whole document; the lines below a command are
                      its output, where `…` (or `...`) stands for anything, inside a line or as a whole line;
                      `# exit N` is the expected exit status; a command shown without output may say anything
    yaml json toml    must parse         sh bash   must parse
    text mermaid …    are left alone

A comment on the line above a block changes that: `<!-- file: NAME -->` saves the block instead of running it,
`<!-- skip: REASON -->` leaves it alone. Wrong blocks raise AssertionError naming the document and line.
"""

import json
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml

NO_SANDBOX = "Warning: programs run without a sandbox"  # which is true of this machine, not of the document
COMMAND_LIMIT_S = 120.0
LEFT_ALONE = {"", "text", "mermaid", "nginx", "dot", "html", "css", "javascript", "diff", "http", "sql", "jinja"}

_FENCE = re.compile(r"(?P<indent> *)(?P<fence>`{3,}|~{3,}) *(?P<language>[\w+-]*)")
_COMMENT = re.compile(r"\s*<!-- (?P<key>\w+):\s*(?P<value>.*?)\s*-->\s*")
_EXIT = re.compile(r"# exit (\d+)")
_WILDCARD = re.compile(r"…|\.\.\.")
# bash tells of a killed background job whenever it notices; a terminal words it otherwise.
_JOB_NEWS = re.compile(r"(?m)^bash: line \d+: +\d+ (Killed|Terminated).*\n")


@dataclass(frozen=True)
class Block:
    """One fenced block, and the comment above it."""

    language: str
    text: str
    line: int
    file: str = ""
    skip: str = ""


@dataclass
class Command:
    """One command of a console block with what the document says about it."""

    line: int
    text: str
    output: list[str] = field(default_factory=list)
    exit: int = 0


def blocks(markdown: str) -> Iterator[Block]:
    """The fenced blocks of a document; a comment with a key that is not known is an error."""
    lines = markdown.splitlines()
    at = 0
    while at < len(lines):
        opening = _FENCE.match(lines[at])
        if not opening:
            at += 1
            continue
        first, fence, indent = at + 1, opening["fence"], len(opening["indent"])
        at = first
        while at < len(lines) and not re.fullmatch(rf" *{fence[0]}{{{len(fence)},}} *", lines[at]):
            at += 1
        text = "".join(line.removeprefix(" " * indent) + "\n" for line in lines[first:at])
        yield Block(opening["language"].lower(), text, first + 1, **comment_above(lines, first - 1))
        at += 1


def comment_above(lines: list[str], fence: int) -> dict[str, str]:
    """`{"file": …}` or `{"skip": …}` from the last line with text before a fence."""
    above = next((line for line in reversed(lines[:fence]) if line.strip()), "")
    comment = _COMMENT.fullmatch(above)
    if not comment or comment["key"] not in {"file", "skip"}:
        return {}
    assert comment["value"], f"line {fence + 1}: `{comment['key']}` needs a value"
    return {comment["key"]: comment["value"]}


def commands(block: Block) -> list[Command]:
    """The commands of a console block."""
    found: list[Command] = []
    for number, line in enumerate(block.text.splitlines(), start=block.line):
        if line.startswith("$ "):
            found.append(Command(number, line[2:]))
            continue
        assert found, f"line {number}: a console block begins with a command (`$ `)"
        last = found[-1]
        if not last.output and (last.text.endswith("\\") or ("<<" in last.text and line.startswith(">"))):
            last.text += "\n" + line.removeprefix(">").removeprefix(" ")
        elif status := _EXIT.fullmatch(line.strip()):
            last.exit = int(status[1])
        else:
            last.output.append(line)
    return found


def matches(expected: list[str], actual: list[str]) -> bool:
    """Does output fit what is shown, with wildcards inside lines and for whole lines?"""
    parts: list[list[re.Pattern[str]]] = [[]]
    for line in expected:
        if _WILDCARD.fullmatch(line.strip()):
            parts.append([])
        else:
            pieces = _WILDCARD.split(line.rstrip())
            parts[-1].append(re.compile(".*".join(map(re.escape, pieces))))

    def fits(part: list[re.Pattern[str]], at: int) -> bool:
        here = actual[at : at + len(part)]
        return len(here) == len(part) and all(p.fullmatch(x) for p, x in zip(part, here, strict=True))

    first, *middle = parts
    if not middle:
        return len(first) == len(actual) and fits(first, 0)
    *middle, last = middle
    at = len(first)
    if not fits(first, 0):
        return False
    # As with any glob, taking each part at its first possible place never loses a match.
    for part in middle:
        at = next((i for i in range(at, len(actual) + 1) if fits(part, i)), -1)
        if at < 0:
            return False
        at += len(part)
    end = len(actual) - len(last)
    return end >= at and fits(last, end)


class Shell:
    """One bash that lives as long as a document: directories, variables and background jobs carry over."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._mark = f"--- done {os.urandom(8).hex()} "
        self._pending = b""
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.killpg(self._bash.pid, signal.SIGKILL)  # with every job a document left in the background
        self._bash.communicate()

    def run(self, command: str) -> tuple[str, int]:
        """The output and exit status of one command; a command that reads finds an empty input."""
        assert self._bash.stdin
        # `eval` keeps a syntax error to the one command; the new line before the mark ends an open line.
        script = f"eval {shlex.quote(command)} </dev/null\nprintf '\\n{self._mark}%s\\n' \"$?\"\n"
        self._bash.stdin.write(script.encode())
        self._bash.stdin.flush()
        output, status = self._read_to_mark(command)
        return _JOB_NEWS.sub("", output), status

    def _read_to_mark(self, command: str) -> tuple[str, int]:
        assert self._bash.stdout
        mark = re.compile(rb"\n" + self._mark.encode() + rb"(\d+)\n")
        deadline = time.monotonic() + COMMAND_LIMIT_S
        while not (done := mark.search(self._pending)):
            ready, _, _ = select.select([self._bash.stdout], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"`{command}` is not done after {COMMAND_LIMIT_S:g} s"
            more = os.read(self._bash.stdout.fileno(), 65536)
            assert more, f"`{command}` ended the shell"
            self._pending += more
        output, self._pending = self._pending[: done.start()], self._pending[done.end() :]
        return output.decode(errors="replace"), int(done[1])


def reader_environment(home: Path) -> dict[str, str]:
    """What a reader's shell would have: these programs first, no settings of the machine's owner."""
    dropped = ("DETENT_", "GIT_", "PYTEST_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    if (Path(sys.prefix) / "made-from").exists():
        # `./run` made this environment: a `./run` in a document takes it too.
        kept["DETENT_VENV"] = sys.prefix
    return kept | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "HOME": str(home),
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_AUTHOR_NAME": "Reader",
        "GIT_AUTHOR_EMAIL": "reader@example.org",
        "GIT_COMMITTER_NAME": "Reader",
        "GIT_COMMITTER_EMAIL": "reader@example.org",
    }


def check(document: Path, folder: Path) -> None:
    """Run every block of a document in a folder; the first that is wrong raises."""
    with tempfile.TemporaryDirectory() as home:
        environment = reader_environment(Path(home))
        with Shell(folder, environment) as shell:
            for block in blocks(document.read_text(encoding="utf-8")):
                if block.skip:
                    continue
                where = f"{document.name}:{block.line}"
                if block.file:
                    save(block, folder)
                elif block.language == "console":
                    check_console(block, shell, document.name)
                elif block.language == "python":
                    check_script(block, folder, environment, where)
                else:
                    check_text(block, where)


def save(block: Block, folder: Path) -> None:
    path = folder / block.file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(block.text, encoding="utf-8")


def check_console(block: Block, shell: Shell, document: str) -> None:
    for command in commands(block):
        output, status = shell.run(command.text)
        where = f"{document}:{command.line}: $ {command.text}"
        wrong = f"exit status {status}, not {command.exit}; it said:"
        assert status == command.exit, f"{where}\n{wrong}\n{output}"
        expected = [line.rstrip() for line in "\n".join(command.output).strip("\n").splitlines()]
        actual = [line.rstrip() for line in output.strip("\n").splitlines() if not line.startswith(NO_SANDBOX)]
        shown = "\n".join(["shown in the document:", *expected, "", "the program said:", *actual])
        assert not expected or matches(expected, actual), f"{where}\n{shown}"


def check_script(block: Block, folder: Path, environment: dict[str, str], where: str) -> None:
    script = folder / ".block.py"
    script.write_text(block.text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, script.name],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=COMMAND_LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, f"{where}\n{done.stdout}{done.stderr}"


def check_text(block: Block, where: str) -> None:
    try:
        match block.language:
            case "json":
                json.loads(block.text)
            case "toml":
                tomllib.loads(block.text)
            case "yaml":
                list(yaml.safe_load_all(block.text))
            case "sh" | "bash":
                subprocess.run(["bash", "-n"], input=block.text, text=True, check=True, capture_output=True)
            case language:
                known = ", ".join(sorted(LEFT_ALONE - {""}))
                assert language in LEFT_ALONE, f"{where}: nobody checks `{language}`; left alone are: {known}"
    except (ValueError, yaml.YAMLError, subprocess.CalledProcessError) as error:
        reason = getattr(error, "stderr", None) or error
        raise AssertionError(f"{where}: not {block.language}: {reason}") from error
