"""The plain worker: any command line, run in the work tree.

The prompt is on its standard input and in $DETENT_PROMPT_FILE. Into $DETENT_RESULT_FILE it may write
`{"status": "done" | "question" | "blocked", "summary": "…", "question": "…"}`. In the command line `{prompt_file}`,
`{failures_file}`, `{result_file}`, `{task}`, `{attempt}` and `{root}` are filled in, each as a part of one argument.
"""

import os
import shlex
import shutil
from collections.abc import Sequence

from detent.agents.coding import worker_process
from detent.agents.coding.port import Assignment, Hear, WorkerReport
from detent.agents.coding.settings import FILE, WorkerSettings
from detent.errors import DefinitionError

PLACES = {
    "{prompt_file}": "DETENT_PROMPT_FILE",
    "{failures_file}": "DETENT_FAILURES_FILE",
    "{result_file}": "DETENT_RESULT_FILE",
    "{task}": "DETENT_TASK",
    "{attempt}": "DETENT_ATTEMPT",
}


class CommandWorker:
    """A worker that is a program and its arguments; no shell takes them apart."""

    def __init__(self, command: str | Sequence[str], *, name: str = "shell", litter: Sequence[str] = ()) -> None:
        try:
            self._argv = shlex.split(command) if isinstance(command, str) else list(command)
        except ValueError as error:
            raise DefinitionError(f"`{command}` is not a command line: {error}", "worker") from None
        if not self._argv:
            raise DefinitionError("the command of a worker is empty", "worker")
        self._name, self._litter = name, tuple(litter)

    @property
    def name(self) -> str:
        """How `detent.code.yaml` calls it."""
        return self._name

    @property
    def litter(self) -> tuple[str, ...]:
        """Globs of files it leaves behind that are no part of its work."""
        return self._litter

    @property
    def missing(self) -> str:
        """What must be there before it can work."""
        return self.missing_in("")

    def missing_in(self, root: str) -> str:
        """The same, for a work tree: that is where a path of the program begins; without one it is not looked for."""
        program = self._argv[0]
        if "/" in program:
            place = os.path.join(root, program)
            is_unknown = not root or any(name in program for name in (*PLACES, "{root}"))
            if is_unknown or (os.path.isfile(place) and os.access(place, os.X_OK)):
                return ""
            return f"there is no program `{program}` that can be run; a path begins at {root}"
        if shutil.which(program):
            return ""
        return f"there is no program `{program}` on this machine, and no worker of that name"

    async def work(self, assignment: Assignment, hear: Hear) -> WorkerReport:
        """Do one attempt; when this returns, or is cancelled, no process of it is left."""
        given = worker_process.prepare(assignment)
        filled = {place: given[name] for place, name in PLACES.items()} | {"{root}": assignment.root}
        argv = [_fill(argument, filled) for argument in assignment.place.locate(self._argv)]
        report = await worker_process.hold(argv, worker_process.environment(given), assignment, hear, assignment.prompt)
        return worker_process.result_of(assignment.folder, report)


def _fill(argument: str, given: dict[str, str]) -> str:
    for place, value in given.items():
        argument = argument.replace(place, value)
    return argument


def hire(settings: WorkerSettings) -> CommandWorker:
    """The worker that `use: shell` means."""
    if not settings.command:
        line = 'worker: {use: shell, command: ["my-agent", "--prompt", "{prompt_file}"]}'
        way_out = f"write it into {FILE}: `{line}`; or name it for one job: `--worker COMMAND`"
        raise DefinitionError(f"the worker `shell` has no command; {way_out}", "worker.command")
    return CommandWorker(settings.command, litter=settings.litter)
