"""The command doctor: what detent stands on here, and whether it is sound.

`risk` is worth knowing but nothing is wrong; only a `problem` makes the exit code 1.
"""

import asyncio
import platform
import shutil
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import click

from detent.core.status import Status
from detent.define.problem import BrokenDefinition
from detent.effects.sandbox import abilities
from detent.errors import DetentError
from detent.host.address import find_address
from detent.host.opening import checkup, find_twins, forget_claims, forget_journal, is_held
from detent.host.people import RECORD_ID, difference_of
from detent.host.port import Reader
from detent.host.reading import Query, Summary
from detent.host.ssh_signature import find_keygen
from detent.kit.language import _
from detent.kit.people_file import PeopleFile, people_file
from detent.kit.policy_file import find_policy, policy_file
from detent.kit.safe_text import clock, process_name, silence, status_word, visible
from detent.kit.terminal.caller import Caller, emit
from detent.kit.terminal.option import verb
from detent.surfaces.cli.claim_report import difference
from detent.surfaces.cli.doctor_finding import Finding, check_permissions, find_existing
from detent.surfaces.cli.missing_extra import describe_missing
from detent.surfaces.cli.worker_command import describe_unserved

DISK_MIN = 64 * 1024 * 1024
DISK_LOW = 1024 * 1024 * 1024
RUNS_MAX = 1_000_000
MANY_RUNS = 10_000
COLOURS = {"ok": "green", "note": "dim", "risk": "yellow", "problem": "red"}


@verb("doctor")
@click.option("--deep", is_flag=True, help=_("Also replay every run and verify every hash."))
@click.option("--repair", "is_repair", is_flag=True, help=_("Rebuild claims that do not match the events."))
@click.option("--forget", "is_forget", is_flag=True, help=_("Forget the journal that was here, and go on without it."))
def doctor(caller: Caller, deep: bool, is_repair: bool, is_forget: bool) -> int:
    """Check everything and say what was found."""
    if is_repair:
        forget_claims(caller.home)  # that they are not what they were is about to be mended
    found = [_python(), _sqlite(sqlite3.sqlite_version_info), _git(), _keygen(), _kernel(), _model()]
    found.append(_disk(caller.home))
    found += [
        *(Finding(f"extra {name}", "note", text) for name, text in describe_missing()),
        *_plugins(),
        *_agents(),
        *_servers(),
        *(_forget(caller) if is_forget else ()),  # before whoever misses the journal
        *_policy(caller.home),
        *_people(caller),
        _sandbox(),
        *check_permissions(caller.home),
        *(() if find_address(caller.home) else (_lock(caller.home),)),  # in a database nobody writes alone
        *(Finding("workers", "risk", text) for text in describe_unserved(caller)),
        *_journal(caller, deep, is_repair),
    ]
    code = 1 if any(finding.level == "problem" for finding in found) else 0
    if caller.is_json:
        checks = [finding._asdict() for finding in found]
        emit({"ok": not code, "home": str(caller.home.absolute()), "checks": checks, "error": None})
        return code
    words = {"ok": _("ok"), "note": _("note"), "risk": _("low risk"), "problem": _("problem")}
    for finding in found:
        caller.say(f"{words[finding.level]}: {finding.name}: {finding.text}", COLOURS[finding.level])
    return code


def _python() -> Finding:
    is_known = sys.version_info >= (3, 11)
    return Finding(
        "python", "ok" if is_known else "problem", f"{platform.python_version()} ({visible(sys.executable)})"
    )


def has_wal_reset_bug(version: tuple[int, ...]) -> bool:
    """Whether this SQLite can lose pages when two connections write and checkpoint at the same instant.

    https://sqlite.org/wal.html#walresetbug: 3.7.0 to 3.51.2; also repaired in 3.44.6 and 3.50.7.
    """
    if not (3, 7, 0) <= version < (3, 51, 3):
        return False
    return not (version[:2] == (3, 44) and version >= (3, 44, 6)) and not (
        version[:2] == (3, 50) and version >= (3, 50, 7)
    )


def _sqlite(version: tuple[int, ...]) -> Finding:
    number = ".".join(map(str, version))
    if version < (3, 40):
        return Finding("sqlite", "problem", _("{number}; detent needs 3.40 or newer", number=number))
    if not has_wal_reset_bug(version):
        return Finding("sqlite", "ok", number)
    about = _(
        "{number} has the WAL-reset bug (3.7.0 to 3.51.2, repaired too in 3.44.6 and 3.50.7): if two "
        "connections write or checkpoint at the same instant, committed pages can be lost. detent has a single writing "
        "connection in a single process, so this should not occur; keep other programs from writing the journal, or "
        "use SQLite 3.51.3 or newer.",
        number=number,
    )
    return Finding("sqlite", "risk", about)


def _git() -> Finding:
    path = shutil.which("git")
    return Finding("git", "ok", path) if path else Finding("git", "note", _("not found; only coding runs need it"))


def _keygen() -> Finding:
    path = find_keygen()
    if path:
        return Finding("ssh-keygen", "ok", path)
    return Finding(
        "ssh-keygen", "note", _("is missing, so no answer can be signed or checked; install `openssh-client`")
    )


def _kernel() -> Finding:
    missing = [name for name in ("jupyter_client", "ipykernel") if find_spec(name) is None]
    if not missing:
        return Finding("kernel", "ok", _("a Jupyter kernel is installed"))
    about = _(
        "{names} not installed; only notebook runs need it: pip install 'detent[notebook]'", names=", ".join(missing)
    )
    return Finding("kernel", "note", about)


def _model() -> Finding:
    from detent.effects.llm import choose_model, price_of

    choice = choose_model()
    if choice.is_builtin and not choice.problem:
        about = _(
            "none configured, so `{name}` answers the examples; for a real one set DETENT_MODEL to openai:NAME or "
            "anthropic:NAME with OPENAI_API_KEY or ANTHROPIC_API_KEY, or DETENT_BASE_URL to any OpenAI-compatible "
            "server",
            name=choice.spec,
        )
        return Finding("model", "note", about)
    package = choice.provider
    if choice.problem:
        return Finding("model", "problem", f"{visible(choice.spec)}: {visible(choice.problem)}")
    if find_spec(package) is None:
        extra = "llm" if package == "openai" else package
        about = _("{name} needs a package: pip install 'detent[{extra}]'", name=visible(choice.spec), extra=extra)
        return Finding("model", "problem", about)
    where = visible(choice.place) or _("the provider's own server")
    found = price_of(choice.name, is_elsewhere=bool(choice.server))
    if found is None:
        price = _("its price is not known, so a limit in dollars cannot be kept; DETENT_PRICES names a table")
    else:
        rates = {"input": f"{found[0].input:g}", "output": f"{found[0].output:g}", "source": visible(found[1])}
        price = _("{input} and {output} USD for a million tokens in and out ({source})", **rates)
    return Finding("model", "ok", _("{name} at {where}; {price}", name=visible(choice.spec), where=where, price=price))


def _servers() -> Iterator[Finding]:
    from detent.kit.available_effects import configured_servers, server_file

    if server_file() is None:
        return
    try:
        servers = configured_servers()
    except DetentError as error:
        yield Finding("mcp", "problem", visible(str(error)))
        return
    if servers and find_spec("mcp") is None:
        yield Finding(
            "mcp", "problem", _("{name} needs a package: pip install 'detent[{extra}]'", name="mcp", extra="mcp")
        )
    for name, server in servers.items():
        is_there = bool(server.url) or "$" in server.command or shutil.which(server.command) is not None
        trust = _("trusted") if server.trusted else _("not trusted")
        text = f"{visible(name)}: {visible(server.place)} ({trust})"
        if not is_there:
            text = _("{name}: there is no program `{program}`", name=visible(name), program=visible(server.command))
        yield Finding("mcp", "ok" if is_there else "problem", text)


def _plugins() -> Iterator[Finding]:
    """Effects that other packages bring: one that cannot be loaded keeps every run from a tool that is not ours."""
    from detent.effects import plugins

    for title, names, problem in plugins():
        text = f"{visible(title)}: {visible(problem or ', '.join(names))}"
        yield Finding("plugin", "problem" if problem else "ok", text)


def _agents() -> Iterator[Finding]:
    """Agents of other packages that cannot be used."""
    from detent.kit.agent import broken_agents

    for name, problem in broken_agents().items():
        yield Finding("agent", "problem", f"{visible(name)}: {visible(problem)}")


def _policy(home: Path) -> Iterator[Finding]:
    path = policy_file(home)
    if path is None:
        return
    try:
        policy = find_policy(home)
    except BrokenDefinition as error:
        for problem in error.problems:
            yield Finding("policy", "problem", visible(str(problem)))
        return
    except DetentError as error:
        yield Finding("policy", "problem", visible(str(error)))
        return
    count = len(policy.rules) if policy is not None else 0
    yield Finding("policy", "ok", _("{path}, {count} rules", path=visible(str(path)), count=count))


def _people(caller: Caller) -> Iterator[Finding]:
    """Whether the people's file can be read, and is what the journal says of it."""
    try:
        people = PeopleFile(caller.home).current()
        has_record = caller.has_journal() and caller.reader.summary(RECORD_ID) is not None
        record = caller.reader.standing(RECORD_ID).run if has_record else None
    except DetentError as error:
        for problem in error.problems if isinstance(error, BrokenDefinition) else (error,):
            yield Finding("people", "problem", visible(str(problem)))
        return
    if difference := difference_of(people, record):
        yield Finding("people", "problem", difference)
    elif people is not None:
        place = visible(str(people_file(caller.home)))
        yield Finding("people", "ok", _("{path}, {count} people", path=place, count=len(people.persons)))


def _disk(home: Path) -> Finding:
    free = shutil.disk_usage(find_existing(home)).free
    text = _("{count} MB free for {path}", count=free // 1_000_000, path=visible(str(home.absolute())))
    return Finding("disk", "problem" if free < DISK_MIN else "risk" if free < DISK_LOW else "ok", text)


def _sandbox() -> Finding:
    """What this machine can keep from programs; without the first level the home is open to every step."""
    found = abilities()
    able = [level for level, problem in found.items() if not problem]
    said = [_("levels that can be had: {levels}", levels=", ".join(able))] if able else []
    for level, problem in found.items():
        if problem:
            said.append(_("{level} cannot be had: {problem}", level=level, problem=visible(problem)))
    return Finding("sandbox", "risk" if found["home"] else "ok", "; ".join(said))


def _lock(home: Path) -> Finding:
    found = checkup(home)
    if not found.is_held:
        return Finding("lock", "ok", _("nobody writes the journal now"))
    if found.is_answering:
        return Finding("lock", "ok", _("{process} writes the journal", process=process_name(*found.holder)))
    return Finding("lock", "problem", " ".join(silence(*found.holder)).rstrip())


def _forget(caller: Caller) -> Iterator[Finding]:
    """Take what is here as it is, though another journal was known: a person's word, never done by itself."""
    caller.admit("forget")
    if is_held(caller.home):
        yield Finding("marker", "problem", _("the journal is in use, so it is here and nothing is forgotten"))
    elif known := forget_journal(caller.home):
        yield Finding("marker", "note", _("forgotten: {journal}", journal=visible(known)))
    else:
        yield Finding("marker", "ok", _("nothing is known of an earlier journal"))


def _journal(caller: Caller, is_deep: bool, is_repair: bool) -> Iterator[Finding]:
    try:
        if not caller.has_journal():
            yield Finding("journal", "ok", _("no runs"))
            return
        reader = caller.reader
    except DetentError as error:
        yield Finding("journal", "problem", visible(str(error)))
        return
    for twin in find_twins(caller.home):
        yield Finding("journal", "problem", _("the same journal is also in {home}; use only one of them", home=twin))
    claims = partial(_claims, caller, is_repair)
    looks: list[Callable[[Reader], Iterator[Finding]]] = [_sound, _gap, _runs, claims, *([_chains] if is_deep else [])]
    for look in looks:
        try:
            yield from look(reader)
        except DetentError as error:
            yield Finding("journal", "problem", visible(str(error)))


def _sound(reader: Reader) -> Iterator[Finding]:
    found = reader.check()
    for problem in found.problems:
        yield Finding("journal", "problem", visible(problem))
    if not found.problems:
        size = {"version": found.schema, "count": found.size // 1000}
        yield Finding("journal", "ok", _("sound, schema {version}, {count} kB", **size))
    if found.swept:
        about = _("the sweep had to put {count} things right; that should not be", count=found.swept)
        yield Finding("sweep", "risk", about)
    elif found.swept == 0 and not found.problems:
        yield Finding("sweep", "ok", _("the sweep never had to put anything right"))


def _gap(reader: Reader) -> Iterator[Finding]:
    """Whether the journal was restored, and what that left open."""
    found = reader.gap()
    if found is not None:
        known = {"since": clock(found.since), "until": clock(found.until), "epoch": found.epoch}
        about = _(
            "restored (epoch {epoch}): what was done between {since} and {until} is not in it, and calls are asked "
            "about; `detent restore --close-gap` ends that",
            **known,
        )
        yield Finding("restored", "risk", about)


def _every(reader: Reader) -> list[Summary]:
    return reader.list(Query(limit=RUNS_MAX)).runs


def _runs(reader: Reader) -> Iterator[Finding]:
    runs = _every(reader)
    counts = Counter(summary.status for summary in runs)
    words = [f"{counts[status]} {status_word(status)}" for status in Status if counts[status]]
    yield Finding("runs", "ok", ", ".join(words) or _("no runs"))
    for summary in runs:
        for alarm in summary.alarms:
            yield Finding("alarm", "risk", _("run {run_id}: {problem}", run_id=summary.run_id, problem=visible(alarm)))


def _claims(caller: Caller, is_repair: bool, reader: Reader) -> Iterator[Finding]:
    """Whether every key of an irreversible deed is held by whom the events say; if not, it could be done twice."""
    if (count := len(_every(reader))) > MANY_RUNS:
        caller.note(_("comparing the claims with the events of {count} runs; this takes a while", count=count), "dim")
    found = reader.claim_differences()
    if found and is_repair:
        asyncio.run(_repair(caller))
        left = reader.claim_differences()
        for one in found:
            if one not in left:
                yield Finding("claims", "note", _("repaired: {problem}", problem=difference(one)))
        found = left
    for one in found:
        yield Finding("claims", "problem", difference(one))
    if found:
        command = caller.command("doctor", "--repair")
        yield Finding("claims", "note", _("rebuild them with: {command}", command=command))
    else:
        yield Finding("claims", "ok", _("they match the events"))


async def _repair(caller: Caller) -> None:
    async with caller.host() as host:
        await host.repair_claims()


def _chains(reader: Reader) -> Iterator[Finding]:
    is_whole, count = True, 0
    for summary in _every(reader):
        proof = reader.verify(summary.run_id)
        count += 1
        if proof.problem:
            is_whole = False
            about = _(
                "run {run_id}, after event {seq}: {problem}",
                run_id=proof.run_id,
                seq=proof.events,
                problem=proof.problem,
            )
            yield Finding("chain", "problem", visible(about))
    if is_whole:
        yield Finding("chain", "ok", _("{count} runs replay to what the journal says", count=count))


COMMANDS = {"doctor": doctor}
