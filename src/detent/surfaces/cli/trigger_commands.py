"""The commands trigger … and next: what starts runs when nobody does."""

import secrets
import time
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from detent.core.status import Status
from detent.define import load
from detent.define.schedule import parse_moment, show_moment
from detent.define.trigger import Trigger
from detent.errors import Refused
from detent.kit.error_translation import translate_error
from detent.kit.language import _
from detent.kit.safe_text import columns, status_word, visible
from detent.kit.terminal.caller import Caller, emit
from detent.kit.terminal.option import by_option, parse_object, verb
from detent.kit.terminal.run_view import CODES
from detent.kit.trigger import armed_trigger
from detent.kit.trigger.armed_trigger import ARMED, REMOVED, ArmedTrigger, arm, find_triggers, list_triggers
from detent.kit.trigger.driver_lock import is_driven
from detent.kit.trigger.firing import Firing, Occasion, fire, foresee, mark_of_event, mark_of_time
from detent.kit.trigger.trigger_driver import TriggerDriver, deliver
from detent.kit.trigger.trigger_view import ShownTrigger, find_upcoming, show_trigger, upcoming_as_data

BACKFILL_MAX = 100_000
# How runs end that must not go unseen where nobody looks at a terminal. One that waits for a person is in the inbox.
BAD = {status: CODES[status] for status in (Status.FAILED, Status.REJECTED, Status.CANCELLED)}
name_argument = click.argument("name", metavar="NAME")


@verb("add", _("Arm the triggers of a file as it is now."))
@click.argument("file", metavar="FILE[:NAME]")
@by_option
async def add(caller: Caller, file: str, by: str) -> int:
    """Arm every trigger of a file; those it no longer has are removed."""
    async with caller.host() as host:
        definition = load(file, host.effects)
        armed = sorted(await arm(host, definition, time.time(), by), key=lambda one: one.name)
        shown = [show_trigger(host.reader, one, time.time()) for one in armed]
    if caller.is_json:
        emit({"ok": True, "triggers": msgspec.to_builtins(shown), "driven": is_driven(caller.home), "error": None})
        return 0
    _say_triggers(caller, shown)
    _say_undriven(caller)
    return 0


@verb("list", _("List the triggers, with their last and next times."))
def list_armed(caller: Caller) -> int:
    """List everything that is armed or paused."""
    shown = [show_trigger(caller.reader, one, time.time()) for one in _present(caller)]
    if caller.is_json:
        emit({"ok": True, "triggers": msgspec.to_builtins(shown), "driven": is_driven(caller.home), "error": None})
        return 0
    if not shown:
        caller.say(_("No trigger is armed here. Begin with: {command}", command="detent trigger add FILE"))
        return 0
    _say_triggers(caller, shown)
    _say_undriven(caller)
    return 0


@verb("remove", _("Disarm the triggers of a file, or one by its name."))
@click.argument("name", metavar="FILE|NAME")
@by_option
async def remove(caller: Caller, name: str, by: str) -> int:
    """Disarm; what was started goes on."""
    source = str(Path(name).resolve())
    of_file = [one for one in _present(caller) if one.file.partition(":")[0] == source or one.file == name]
    chosen = of_file or find_triggers(_present(caller), name)
    async with caller.host() as host:
        for one in chosen:
            await armed_trigger.remove(host, one, by)
    return _say_done(caller, chosen, _("removed"))


@verb("pause", _("Pause a trigger: it starts nothing until it is resumed."))
@name_argument
@by_option
async def pause(caller: Caller, name: str, by: str) -> int:
    """Pause the triggers of that name."""
    chosen = find_triggers(_present(caller), name)
    async with caller.host() as host:
        for one in chosen:
            if one.state == ARMED:
                await armed_trigger.pause(host, one, by)
    return _say_done(caller, chosen, _("paused"))


@verb("resume", _("Resume a trigger; what was planned in the meantime is not started."))
@name_argument
@by_option
async def resume(caller: Caller, name: str, by: str) -> int:
    """Resume the triggers of that name."""
    chosen = find_triggers(_present(caller), name)
    async with caller.host() as host:
        for one in chosen:
            if one.state != ARMED:
                await armed_trigger.resume(host, one, time.time(), by)
    return _say_done(caller, chosen, _("armed"))


@verb("fire", _("Start a run now, as the trigger would."))
@name_argument
@click.option("--event", "given", default="", metavar="JSON|@FILE", help=_("What its expressions read as `event`."))
@click.option("--at", default="", metavar="TIME", help=_("The planned time it stands for, like 2026-01-31T02:00."))
@by_option
async def fire_by_hand(caller: Caller, name: str, given: str, at: str, by: str) -> int:
    """Fire one trigger by hand."""
    armed = _only(find_triggers(_present(caller), name))
    when = parse_moment(at, _zone(armed.trigger)) if at else time.time()
    schedule = armed.trigger.schedule
    if at and schedule is not None and when not in (planned := schedule.next(when - 1e-3)):
        told = show_moment(planned[0], schedule.timezone) if planned else "none"
        raise Refused(f"`{armed.name}` has no planned time {at}; the next one is {told}")
    mark = mark_of_time(when) if at else f"hand-{mark_of_time(when)}"
    occasion = Occasion(mark, when, parse_object(given, "--event"), is_manual=True, by=by)
    async with caller.host() as host:
        done = await fire(host, armed, occasion)
        if done.why:
            raise Refused(f"`{armed.name}` starts nothing: {done.why}")
        await host.settled(done.run_id)
    return _say_runs(caller, [done])


@verb("backfill", _("Start the runs that are missing for planned times in the past."))
@name_argument
@click.option("--from", "since", required=True, metavar="TIME", help=_("The first moment, like 2026-01-31."))
@click.option("--to", "until", default="", metavar="TIME", help=_("The last moment; now by default."))
@click.option("--dry-run", "is_dry", is_flag=True, help=_("Only list them."))
@by_option
async def backfill(caller: Caller, name: str, since: str, until: str, is_dry: bool, by: str) -> int:
    """Fire for every planned time of a range, in order; each once, whoever asks for it again."""
    armed = _only(find_triggers(_present(caller), name))
    schedule = armed.trigger.schedule
    if schedule is None:
        raise Refused(f"`{armed.name}` has no schedule, so there is nothing to catch up with")
    begin = parse_moment(since, schedule.timezone)
    end = parse_moment(until, schedule.timezone) if until else time.time()
    times = []
    for at in schedule.times(begin - 1e-6, end):
        times.append(at)
        if len(times) > BACKFILL_MAX:
            raise Refused(f"these are more than {BACKFILL_MAX:,} runs; take a shorter range")
    occasions = [Occasion(mark_of_time(at), at, is_manual=True, by=by) for at in times]
    if is_dry:
        return _say_runs(caller, foresee(caller.reader, armed, occasions), is_dry=True)
    done = []
    async with caller.host() as host:
        for occasion in occasions:  # one after the other: a night may build upon the one before it
            done.append(await fire(host, armed, occasion))
            if done[-1].is_new:
                await host.settled(done[-1].run_id)
    return _say_runs(caller, done)


@verb("run-due", _("Start what is due now and wait for it: for cron or systemd, where no server runs."))
async def run_due(caller: Caller) -> int:
    """Drive the triggers once."""
    begun: list[str] = []
    if caller.has_journal():
        async with caller.host() as host:
            if host.is_holder:
                await host.recover()
            begun = await TriggerDriver(host, time.time, warn=caller.warn).run_due()
            for run_id in begun:
                await host.settled(run_id)
    return _say_runs(caller, [Firing(one, is_new=True) for one in begun])


@verb("send", _("Send a signal to the triggers that wait for it."))
@click.argument("signal", metavar="SIGNAL")
@click.option("--data", "given", default="", metavar="JSON|@FILE", help=_("Its data, a JSON object."))
@click.option("--id", "id", default="", metavar="ID", help=_("The same id twice counts once."))
@by_option
async def send(caller: Caller, signal: str, given: str, id: str, by: str) -> int:
    """Fire every trigger that waits for a signal of that name."""
    id = id or secrets.token_hex(8)
    who = caller.admit("signal", by)  # what it starts begins in the trigger's name, which may more than a viewer
    event = {"name": signal, "id": id, "data": parse_object(given, "--data"), "by": who.name}
    async with caller.host() as host:
        heard = await deliver(host, "signal", signal, Occasion(mark_of_event(signal, id), time.time(), event))
        if not heard:
            raise Refused(f"no armed trigger waits for the signal `{signal}`")
        for _armed, one in heard:
            if one.is_new:
                await host.settled(one.run_id)
    return _say_runs(caller, [one for _armed, one in heard])


@verb("next")
@click.option("--count", type=click.IntRange(1, 1000), default=10, show_default=True, help=_("How many to show."))
def show_next(caller: Caller, count: int) -> int:
    """What fires when."""
    coming = find_upcoming(_present(caller), time.time(), count)
    if caller.is_json:
        times = [upcoming_as_data(one) for one in coming]
        emit({"ok": True, "next": times, "driven": is_driven(caller.home), "error": None})
        return 0
    if not coming:
        caller.say(_("Nothing is planned: no armed trigger has a schedule."))
        return 0
    changes = {"moved": _("moved: the clock leaves its time out"), "once": _("once: the clock shows this time twice")}
    for line in columns([[one.text, visible(one.name), changes.get(one.change, "")] for one in coming]):
        caller.say(line)
    _say_undriven(caller)
    return 0


def _present(caller: Caller) -> list[ArmedTrigger]:
    found = list_triggers(caller.reader) if caller.has_journal() else []
    return [one for one in found if one.state != REMOVED]


def _only(found: Sequence[ArmedTrigger]) -> ArmedTrigger:
    if len(found) > 1:
        raise Refused(f"there are several: {', '.join(one.name for one in found)}; name one")
    return found[0]


def _zone(trigger: Trigger) -> str:
    return trigger.schedule.timezone if trigger.schedule is not None else "UTC"


def _say_triggers(caller: Caller, shown: Sequence[ShownTrigger]) -> None:
    files = {"same": "", "changed": _("the file has changed since: add it again"), "gone": _("the file is unreadable")}
    states = {"armed": _("armed"), "paused": _("paused")}
    rows = []
    for one in shown:
        next_one = _("next {time}", time=one.next_text) if one.next_text else ""
        last = _("last {run}", run=visible(one.last_run)) if one.last_run else ""
        rows.append([visible(one.name), states.get(one.state, one.state), visible(one.about), next_one, last])
    for line, one in zip(columns(rows), shown, strict=True):
        caller.say(line)
        for said in (files[one.file_state], visible(one.problem)):
            if said:
                caller.say(f"    {said}", "yellow")


def _say_undriven(caller: Caller) -> None:
    if not is_driven(caller.home):
        caller.say(
            _(
                "Nothing drives them now: start `{serve}`, or let cron call `{due}`.",
                serve=caller.command("serve"),
                due=caller.command("trigger", "run-due"),
            ),
            "yellow",
        )


def _say_done(caller: Caller, chosen: Sequence[ArmedTrigger], what: str) -> int:
    if caller.is_json:
        emit({"ok": True, "triggers": [one.name for one in chosen], "error": None})
    for one in chosen:
        caller.say(f"{visible(one.name)}  {what}")
    return 0


def _say_runs(caller: Caller, done: Sequence[Firing], *, is_dry: bool = False) -> int:
    """What was started and how it ended; cron and systemd are told by the exit code where that was not well."""
    started = [one.run_id for one in done if one.is_new]
    found = [] if is_dry else [one for one in map(caller.find_known, started) if one is not None]
    known = {summary.run_id: summary for summary in found}
    bad = [one for one in known.values() if one.status in BAD]
    code = min((BAD[one.status] for one in bad), default=0)
    if caller.is_json:
        there = [one.run_id for one in done if one.run_id and not one.is_new]
        skipped = [one.why for one in done if one.why]
        said = {"started": started, "known": there, "skipped": skipped, "failed": [one.run_id for one in bad]}
        emit({"ok": code == 0, "dry_run": is_dry, **said, "error": None})
        return code
    for run_id in started:
        now = known.get(run_id)
        caller.say(f"{visible(run_id)}  {'' if now is None else status_word(now.status, now.failed)}".rstrip())
    left = sum(1 for one in done if one.run_id and not one.is_new)
    for why in dict.fromkeys(one.why for one in done if one.why):
        caller.say(_("starts nothing: {why}", why=visible(translate_error(why))), "yellow")
    if not started and not any(one.why for one in done):
        caller.say(_("Nothing was due.") if not left else _("Nothing new: {count} were there already.", count=left))
    return code


trigger = click.Group(
    "trigger",
    help=_("Arm what starts runs by itself: schedules, hooks, files, other runs, signals."),
    commands={
        one.name: one
        for one in (add, list_armed, remove, pause, resume, fire_by_hand, backfill, run_due, send)
        if one.name is not None
    },
    context_settings={"help_option_names": ["-h", "--help"]},
)

COMMANDS = {"trigger": trigger, "next": show_next}
