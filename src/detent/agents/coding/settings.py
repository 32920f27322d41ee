"""`detent.code.yaml`: how a project is checked, who works on it, and within which bounds.

The file belongs to the user; it is read when a job starts and frozen with the plan, so editing it later changes the
next job and not the one that runs.
"""

import shlex
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import yaml

from detent.core.machine import did_you_mean
from detent.core.value import digest
from detent.define.document import read_document, read_file
from detent.effects.sandbox import SandboxWish
from detent.errors import DefinitionError

FILE = "detent.code.yaml"
LITTER = (
    "**/__pycache__/**", "**/*.pyc", ".pytest_cache/**", ".ruff_cache/**", ".mypy_cache/**", ".hypothesis/**",
    ".coverage", "**/.DS_Store", "**/node_modules/.cache/**", "target/**", ".dart_tool/**",
)  # fmt: skip
# What known agents leave in the work tree.
WORKER_LITTER = {
    "aider": (".aider*", ".aider*/**"),
    "claude": (".claude/settings.local.json",),
    "gemini": (".gemini/tmp/**",),
}
PROTECTED = (FILE, ".git/**", ".gitmodules")
DEPENDENCIES = (".venv", "venv", "node_modules", ".tox", ".nox", ".yarn", ".dart_tool", "vendor", ".bundle")

Positive = Annotated[float, msgspec.Meta(ge=0)]
Count = Annotated[int, msgspec.Meta(ge=0)]
Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]{0,60}$")]
Parse = Literal["junit", "tap", "go-json", "flutter-machine", "none"]


class CheckStep(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One verification command; `{report}` in it is a file it may write its results to."""

    name: Name
    run: list[str] | str
    timeout: Positive = 600.0
    parse: Parse = "none"
    required: bool = True
    when: Literal["task", "final"] = "task"
    baseline: Literal["strict", "no_new_failures"] = "no_new_failures"

    @property
    def argv(self) -> list[str]:
        """The program and its arguments."""
        return shlex.split(self.run) if isinstance(self.run, str) else list(self.run)


class WorkerSettings(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Who works: the name of an adapter, its command or model, and further options of its own."""

    use: str = "shell"
    command: list[str] | str = ""
    model: str = ""
    options: dict[str, Any] = {}
    litter: list[str] = []


class PlannerSettings(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Who plans: the worker (read-only), a model, a file, or nobody: then the requirement is the only task."""

    use: Literal["worker", "model", "file", "single"] = "single"
    file: str = ""
    model: str = ""
    worker: WorkerSettings | None = None


class Fix(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """When to give up: failed repairs per task, equal failures on different trees (0: any), interrupted attempts."""

    attempts: Count = 3
    same_failure: Count = 0
    interruptions: Count = 3


class Budget(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What one job may use; 0 means no bound."""

    cost_usd: Positive = 0.0
    minutes: Positive = 0.0
    changed_lines: Count = 0


class Bounds(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What one attempt of a worker may use."""

    wall_s: Positive = 1200.0
    silence_s: Positive = 900.0
    output_bytes: Count = 64 * 1024 * 1024
    disk_bytes: Count = 10 * 1024**3  # how much the disk may lose; also the largest file
    free_bytes: Count = 512 * 1024**2  # what must be left on it


class SandboxSettings(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What workers and checks run in: a level, and what the stricter ones let through."""

    level: Literal["", "off", "home", "folder", "strict"] = ""
    read: list[str] = []
    write: list[str] = []
    network: bool = True

    @property
    def wish(self) -> SandboxWish:
        """The same, for what starts them."""
        return SandboxWish(self.level, tuple(self.read), tuple(self.write), self.network)


class WorkspaceSettings(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Where the worker works, what of the project's ignored files it is given, and how its work comes back."""

    use: Literal["own", "in_place"] = "own"
    include: list[str] = []  # globs of ignored files that are copied into it
    share: list[str] = []  # further folders of dependencies, which it can read
    land: Literal["tree", "staged", "branch"] = "tree"
    services: list[str] = []  # what of this machine checks may use: sockets and folders, names of variables
    only_here: Literal["ask", "tell"] = "ask"  # about tests that pass only in the user's own tree
    ask: Literal["auto", "always", "never"] = "auto"  # whether a person sees the difference before it lands

    @property
    def shared(self) -> tuple[str, ...]:
        """The names of folders of dependencies."""
        return (*DEPENDENCIES, *self.share)


class ForgeSettings(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Where issues come from and pull requests go to: a server that speaks like GitHub."""

    url: str = "https://api.github.com"
    token: str = "GITHUB_TOKEN"  # the name of the variable that holds it
    remote: str = "origin"  # where the branch is pushed to
    base: str = ""  # the branch to merge into; empty: the server's default
    draft: bool = True
    wait_minutes: Positive = 30.0  # for CI
    poll_s: Positive = 15.0


class Settings(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The whole file."""

    version: Literal[1] = 1
    worker: WorkerSettings = WorkerSettings()
    planner: PlannerSettings = PlannerSettings()
    verify: list[CheckStep] = []
    protect: list[str] = []
    litter: list[str] = []
    fix: Fix = Fix()
    budget: Budget = Budget()
    limits: Bounds = Bounds()
    allow_fewer_tests: Count = 0
    rerun_flaky: bool = False
    commit: Literal["none", "branch", "in_place"] = "none"
    sandbox: SandboxSettings = SandboxSettings()
    workspace: WorkspaceSettings = WorkspaceSettings()
    forge: ForgeSettings = ForgeSettings()
    parallel: Count = 3  # how many tasks marked [P] are worked on at once; 1: one after the other
    mutants: Count = 8  # small wrong changes of new lines that the tests should notice; 0: none are tried
    review: Literal["changes", "all", "none"] = "changes"  # of tests and check settings: what a person is asked about

    @property
    def all_litter(self) -> tuple[str, ...]:
        """Globs of files that are nobody's work."""
        return (*LITTER, *self.litter, *self.worker.litter, *WORKER_LITTER.get(self.worker.use, ()))

    @property
    def all_protected(self) -> tuple[str, ...]:
        """Globs of files that no task may change unless it lists them."""
        return (*PROTECTED, *self.protect)


def read(root: Path) -> Settings | None:
    """The settings of a project; None when it has no file of its own yet."""
    path = root / FILE
    if not path.exists():
        return None
    document = read_document(read_file(path), FILE)
    return settings(document.value if document.value is not None else {}, FILE)


LOCAL = Path(".detent", "code", "local.json")


class LocalAnswers(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a person said on this machine about tests that pass only in their own tree."""

    include: list[str] = []
    services: list[str] = []


def read_local(root: Path) -> LocalAnswers | None:
    """What was said; None: nobody was asked yet."""
    try:
        return msgspec.json.decode((root / LOCAL).read_bytes(), type=LocalAnswers)
    except (OSError, msgspec.MsgspecError):
        return None


def add_local(root: Path, found: Settings) -> Settings:
    """The settings with what was said on this machine."""
    said = read_local(root)
    if said is None:
        return found
    own = found.workspace
    include = list(dict.fromkeys([*own.include, *said.include]))
    services = list(dict.fromkeys([*own.services, *said.services]))
    workspace = msgspec.structs.replace(own, include=include, services=services, only_here="tell")
    return msgspec.structs.replace(found, workspace=workspace)


AGAIN = ("verify", "protect", "litter", "fix", "limits", "sandbox", "review", "rerun_flaky", "allow_fewer_tests")


def read_again(root: Path, frozen: Settings, worker: str) -> tuple[Settings, list[str]]:
    """The settings of a blocked job with what a person has changed in the file since, and the names of that.

    `worker` is the digest of the file's worker when the job began: one that was given on the command line stays.
    """
    try:
        found = read(root)
    except DefinitionError:
        return frozen, []
    if found is None:
        return frozen, []
    changed = {name: getattr(found, name) for name in AGAIN if getattr(found, name) != getattr(frozen, name)}
    if worker and digest_of_worker(found) != worker:
        changed["worker"] = found.worker
    return msgspec.structs.replace(frozen, **changed), sorted(changed)


def digest_of_worker(found: Settings) -> str:
    """Who works, as one word."""
    return digest(msgspec.to_builtins(found.worker))[:16]


def settings(value: Any, where: str) -> Settings:
    """Settings from plain data, or the first thing that is wrong with it."""
    try:
        found = msgspec.convert(value, Settings, strict=True)
    except msgspec.ValidationError as error:
        raise DefinitionError(_explain(str(error)), where) from None
    names = [step.name for step in found.verify]
    for step in found.verify:
        if names.count(step.name) > 1:
            raise DefinitionError(f"two verification steps are called `{step.name}`", where)
        try:
            argv = step.argv
        except ValueError as error:
            raise DefinitionError(f"`run` of `{step.name}` is not a command line: {error}", where) from None
        if not argv:
            raise DefinitionError(f"`run` of `{step.name}` is empty", where)
    return found


def _explain(problem: str) -> str:
    if "unknown field" in problem:
        name = problem.split("`")[1]
        fields = (
            Settings,
            CheckStep,
            WorkerSettings,
            PlannerSettings,
            Fix,
            Budget,
            Bounds,
            WorkspaceSettings,
            ForgeSettings,
        )
        known = {field for kind in fields for field in kind.__struct_fields__}
        return problem + did_you_mean(name, known)
    return problem


HEADER = """\
# How detent checks this project and who works on it. The file is yours: change it, commit it.
# verify: commands without a shell; parse: junit, tap, go-json, flutter-machine or none; {report} is a results file.
# when: task (after every task) or final (once, before archiving); baseline: no_new_failures or strict.
"""


def write_settings(found: Settings) -> str:
    """The file for these settings."""
    body = msgspec.to_builtins(found)
    body = {"version": 1, **body}
    return HEADER + yaml.safe_dump(body, sort_keys=False, allow_unicode=True, width=110)
