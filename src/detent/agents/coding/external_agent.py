"""External agents as workers: how each is called, what it prints, and what it leaves behind.

    claude    claude -p --output-format stream-json        plan role: --permission-mode plan
    codex     codex exec --json -s workspace-write         plan role: -s read-only
    gemini    gemini -o stream-json --approval-mode auto_edit          plan role: plan
    opencode  opencode run --format json --auto            plan role: --agent plan
    aider     aider --message-file … --yes-always          plan role: --chat-mode ask

`command` in the settings is another way to start the same program (`["npx", "claude"]`), `model` is handed on as it
is, and `options` are: `args`, more arguments; `tools` (claude), what it may use; `schema: false` for a version that
cannot be asked for a result in a given form. The prompt goes over standard input or a file, never the command line.
"""

import json
import shlex
import shutil
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from detent.agents.coding import agent_output, worker_process
from detent.agents.coding.port import Assignment, Hear, Word, WorkerReport
from detent.agents.coding.settings import WORKER_LITTER, WorkerSettings
from detent.effects.llm.model import Reply
from detent.effects.llm.price import cost
from detent.effects.sandbox import SandboxWish
from detent.errors import DefinitionError

SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["status", "summary", "question"],
    "properties": {
        "status": {"type": "string", "enum": ["done", "question", "blocked"]},
        "summary": {"type": "string"},
        "question": {"type": "string"},
    },
}
SCHEMA_FILE = "schema.json"
CLAUDE_TOOLS = "Read,Edit,Write,Glob,Grep"
SUMMARY_MAX = 4000
# A program that was started by the agent itself would take these for its own.
OWNED = ("CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED", "OPENCODE")

Call = Callable[[Assignment, WorkerSettings], list[str]]


class AgentKind(msgspec.Struct, frozen=True):
    """One kind of agent."""

    program: str
    install: str  # where it comes from, for people
    call: Call  # its arguments
    reader: agent_output.Reader
    options: tuple[str, ...] = ("args",)
    has_stdin: bool = True  # the prompt is on its standard input
    env: tuple[tuple[str, str], ...] = ()  # what it finds besides, unless the user says otherwise
    has_sandbox: bool = False  # it puts what it starts into a sandbox of its own, which cannot be made inside of ours


def _claude(assignment: Assignment, settings: WorkerSettings) -> list[str]:
    is_plan = assignment.role == "plan"
    argv = ["-p", "--output-format", "stream-json", "--verbose"]
    argv += ["--permission-mode", "plan" if is_plan else "acceptEdits"]
    if not is_plan:
        argv.append(f"--allowedTools={settings.options.get('tools', CLAUDE_TOOLS)}")
        if settings.options.get("schema", True):
            argv += ["--json-schema", json.dumps(SCHEMA)]
    if assignment.limits.cost_usd:
        argv += ["--max-budget-usd", f"{assignment.limits.cost_usd:g}"]
    argv += ["--resume", assignment.session] if assignment.session else ["--session-id", str(uuid.uuid4())]
    return argv + (["--model", settings.model] if settings.model else [])


def _codex(assignment: Assignment, settings: WorkerSettings) -> list[str]:
    is_plan = assignment.role == "plan"
    own = "read-only" if is_plan else "workspace-write"
    if assignment.sandbox.level not in ("", "off"):
        own = "danger-full-access"  # what it may do is said by our sandbox, which somebody asked for
    argv = ["exec", "--json", "--skip-git-repo-check", "-s", own]
    if not is_plan and settings.options.get("schema", True):
        argv += ["--output-schema", str(Path(assignment.folder, SCHEMA_FILE))]
    argv += ["-m", settings.model] if settings.model else []
    return argv + (["resume", assignment.session, "-"] if assignment.session else ["-"])


def _gemini(assignment: Assignment, settings: WorkerSettings) -> list[str]:
    mode = "plan" if assignment.role == "plan" else "auto_edit"
    argv = ["-p", "Do what is written above.", "-o", "stream-json", "--approval-mode", mode]
    argv += ["--resume", assignment.session] if assignment.session else []
    return argv + (["-m", settings.model] if settings.model else [])


def _opencode(assignment: Assignment, settings: WorkerSettings) -> list[str]:
    argv = ["run", "--format", "json", "--auto"]
    argv += ["--agent", "plan"] if assignment.role == "plan" else []
    argv += ["--session", assignment.session] if assignment.session else []
    return argv + (["--model", settings.model] if settings.model else [])


def _aider(assignment: Assignment, settings: WorkerSettings) -> list[str]:
    folder = Path(assignment.folder)
    history = assignment.session or str(folder / "aider.history.md")
    argv = [
        "--message-file", str(folder / worker_process.PROMPT), "--yes-always", "--no-auto-commits",
        "--no-dirty-commits", "--no-check-update", "--analytics-disable", "--no-gitignore", "--no-show-release-notes",
        "--no-pretty", "--no-stream", "--no-suggest-shell-commands", "--no-detect-urls", "--chat-history-file", history,
        "--input-history-file", str(folder / "aider.input.txt"),
    ]  # fmt: skip
    argv += ["--chat-mode", "ask"] if assignment.role == "plan" else []
    argv += ["--restore-chat-history"] if assignment.session else []
    return argv + (["--model", settings.model] if settings.model else [])


AGENTS = {
    "claude": AgentKind(
        "claude", "npm: @anthropic-ai/claude-code", _claude, agent_output.claude, options=("args", "tools", "schema")
    ),
    "codex": AgentKind(
        "codex", "npm: @openai/codex", _codex, agent_output.codex, options=("args", "schema"), has_sandbox=True
    ),
    "gemini": AgentKind(
        "gemini", "npm: @google/gemini-cli", _gemini, agent_output.gemini, env=(("GEMINI_CLI_TRUST_WORKSPACE", "true"),)
    ),  # without a terminal it cannot ask whether it may work here, and ends at once
    "opencode": AgentKind("opencode", "npm: opencode-ai", _opencode, agent_output.opencode),
    "aider": AgentKind("aider", "PyPI: aider-chat", _aider, agent_output.aider, has_stdin=False),
}
EXITS = {
    ("gemini", 41): "it is not signed in: set GEMINI_API_KEY, or start `gemini` once and choose how",
    ("gemini", 42): "it could not use what it was given",
    ("gemini", 53): "it reached its own limit of turns",
    ("gemini", 55): "it does not trust this folder",
}


class AgentWorker:
    """An agent of somebody else, called once for every attempt."""

    def __init__(self, name: str, settings: WorkerSettings) -> None:
        self._agent, self._settings, self._name = AGENTS[name], settings, name
        self._start = _split_command(settings.command, self._agent.program)
        unknown = sorted(set(settings.options) - set(self._agent.options))
        if unknown:
            known = ", ".join(self._agent.options)
            raise DefinitionError(f"the worker `{name}` has no option `{unknown[0]}`; it has {known}", "worker.options")
        more = settings.options.get("args", [])
        if not isinstance(more, list) or not all(isinstance(one, str) for one in more):
            raise DefinitionError(f"`args` of the worker `{name}` must be a list of texts", "worker.options")
        self._more: list[str] = more

    @property
    def name(self) -> str:
        """How `detent.code.yaml` calls it."""
        return self._name

    @property
    def litter(self) -> tuple[str, ...]:
        """Globs of files it leaves behind that are no part of its work."""
        return (*WORKER_LITTER.get(self._name, ()), *self._settings.litter)

    @property
    def missing(self) -> str:
        """What must be installed before it can work; empty: nothing."""
        if shutil.which(self._start[0]):
            return ""
        return (
            f"there is no program `{self._start[0]}` on this machine; install it ({self._agent.install}), say in "
            "`worker.command` where it is, or choose another worker"
        )

    def argv(self, assignment: Assignment) -> list[str]:
        """How it is called for an attempt."""
        return [*self._start, *self._more_first(self._agent.call(assignment, self._settings))]

    def _more_first(self, argv: list[str]) -> list[str]:
        """The user's own arguments, behind the subcommand and before what must come last."""
        at = 1 if argv and not argv[0].startswith("-") else 0
        return [*argv[:at], *self._more, *argv[at:]]

    async def work(self, assignment: Assignment, hear: Hear) -> WorkerReport:
        """Do one attempt; when this returns, or is cancelled, no process of it is left."""
        if self.missing:
            return WorkerReport(ended="not_started", error=self.missing, environment=True)
        if self._agent.has_sandbox and not assignment.sandbox.level:
            assignment = msgspec.structs.replace(assignment, sandbox=SandboxWish("off"))
        given = worker_process.prepare(assignment)
        Path(assignment.folder, SCHEMA_FILE).write_text(json.dumps(SCHEMA), encoding="utf-8")
        listener = _Listener(self._agent.reader, hear)
        stdin = assignment.prompt if self._agent.has_stdin else None
        report = await worker_process.hold(
            self.argv(assignment),
            _environment(given, self._agent),
            assignment,
            listener.hear,
            stdin,
            lambda: listener.said.cost_usd,
        )
        return worker_process.result_of(assignment.folder, self._read_stream(assignment, report, listener.said))

    def _read_stream(self, assignment: Assignment, report: WorkerReport, said: agent_output.Said) -> WorkerReport:
        """The report with what the agent's own stream says; that a stream is without errors is no success."""
        status: Word = "unknown"
        if report.ended == "exited" and said.data.get("status") in ("done", "question", "blocked"):
            status = said.data["status"]
        problem = said.error or EXITS.get((self._name, report.exit or 0), "")
        price = _price(self._settings.model, said.tokens)
        history = str(Path(assignment.folder, "aider.history.md")) if self._name == "aider" else ""
        return msgspec.structs.replace(
            report,
            status=status,
            summary=_word(said.data.get("summary")) or said.text[-SUMMARY_MAX:].strip(),
            question=_word(said.data.get("question")) if status == "question" else "",
            plan=said.text if assignment.role == "plan" else "",
            error=report.error or problem,
            cost_usd=said.cost_usd or price or 0.0,
            tokens=said.tokens,
            unpriced_calls=int(not said.cost_usd and price is None),
            session=said.session or assignment.session or history,
        )


class _Listener:
    """Lines of output on their way to the reader and, in the words of people, to whoever looks on."""

    def __init__(self, reader: agent_output.Reader, hear: Hear) -> None:
        self._reader, self._hear = reader, hear
        self.said = agent_output.Said()

    def hear(self, name: str, line: str) -> None:
        """One line."""
        shown = line
        if name == "stdout":
            self.said, shown = self._reader(self.said, line)
        for part in shown.splitlines():
            self._hear(name, part)


def _split_command(command: list[str] | str, program: str) -> list[str]:
    try:
        return (shlex.split(command) if isinstance(command, str) else list(command)) or [program]
    except ValueError as error:
        raise DefinitionError(f"`{command}` is not a command line: {error}", "worker.command") from None


def _environment(given: Mapping[str, str], agent: AgentKind) -> dict[str, str]:
    mine = {name: value for name, value in worker_process.environment(given).items() if name not in OWNED}
    return dict(agent.env) | mine


def _word(value: Any) -> str:
    return value[:SUMMARY_MAX].strip() if isinstance(value, str) else ""


def _price(model: str, tokens: int) -> float | None:
    """What tokens cost at most where only their number is known: all of them at the price of output."""
    name = model.partition("/")[2] or model.partition(":")[2] or model
    return cost(name, Reply(input_tokens=0, output_tokens=tokens)) if tokens else 0.0


def hire(settings: WorkerSettings) -> AgentWorker:
    """The worker that `use: claude` and the like mean."""
    return AgentWorker(settings.use, settings)
