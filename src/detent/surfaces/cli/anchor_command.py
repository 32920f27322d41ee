"""The command anchor, and the proof that a journal still holds what was anchored."""

from pathlib import Path

import click
import msgspec

from detent.errors import Refused
from detent.host.reading import AnchorLine
from detent.kit.anchor_store import find_author, publish, read_lines, sign_line
from detent.kit.language import _
from detent.kit.safe_text import clock, visible
from detent.kit.terminal.caller import Caller, emit
from detent.kit.terminal.option import by_option, verb


@verb("anchor")
@click.option("--to", "target", required=True, metavar="FILE|URL|git[:FOLDER]", help=_("Where the anchor is kept."))
@click.option(
    "--key", type=click.Path(path_type=Path), default=None, metavar="FILE", help=_("Sign it with this SSH key.")
)
@by_option
async def anchor(caller: Caller, target: str, key: Path | None, by: str) -> int:
    """Publish one digest over all runs, claims and people."""
    if not caller.has_journal():
        raise Refused(f"there is no journal in {caller.home} yet, so there is nothing to anchor")
    async with caller.host() as host:
        line = msgspec.convert(await host.anchor(by=by), AnchorLine)
    line = sign_line(line, key) if key is not None else line
    place = publish(line, target)
    if caller.is_json:
        emit({"ok": True, "anchor": msgspec.to_builtins(line), "kept": place, "error": None})
    else:
        known = {"head": line.head[:16], "runs": line.runs, "claims": line.claims, "place": visible(place)}
        caller.say(_("{head}: {runs} runs and {claims} claims, kept in {place}", **known), "green")
    return 0


def say_head(caller: Caller) -> int:
    """One digest over everything, now."""
    found = caller.reader.head()
    if caller.is_json:
        emit({"ok": True, **found._asdict(), "error": None})
        return 0
    caller.say(found.head)
    known = {"journal": found.journal[:8], "epoch": found.epoch, "runs": found.runs, "events": found.events}
    counts = _("journal {journal}, epoch {epoch}: {runs} runs, {events} events", **known)
    caller.note(f"{counts}, {_('{count} claims', count=found.claims)}", "dim")
    return 0


def prove(caller: Caller, source: str, signers: Path | None) -> int:
    """Whether the journal still has everything that the anchors of a file say it had."""
    lines = list(read_lines(source))
    if not lines:
        raise Refused(f"there are no anchors in {source}")
    return max([_prove_line(caller, line, signers) for line in lines])


def _prove_line(caller: Caller, line: AnchorLine, signers: Path | None) -> int:
    author, problems = "", []
    try:
        author = find_author(line, signers)
    except Refused as error:
        problems.append(str(error))
    proof = caller.reader.check_anchor(line)
    problems += proof.problems
    if caller.is_json:
        failure = {"type": "replay_error", "message": problems[0]} if problems else None
        found = {"at": line.at, "runs": proof.runs, "pruned": list(proof.pruned), "signed_by": author}
        emit({"ok": not problems, "anchor": line.head, **found, "problems": problems, "error": failure})
        return 1 if problems else 0
    when = clock(line.at)
    for problem in problems:
        caller.say(_("anchor of {clock}: {problem}", clock=when, problem=visible(problem)), "red")
    if not problems:
        about = _("anchor of {clock}: all {count} runs are as they were, or have grown", clock=when, count=proof.runs)
        more = _("; {count} were pruned since, on record", count=len(proof.pruned)) if proof.pruned else ""
        by = _("; signed by {name}", name=visible(author)) if author else ""
        caller.say(about + more + by, "green")
    return 1 if problems else 0


COMMANDS = {"anchor": anchor}
