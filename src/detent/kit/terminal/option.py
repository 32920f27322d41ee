"""What commands share: the decorator that makes one, and the reading of values from words."""

import gc
import inspect
import json
import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from detent.kit.language import _
from detent.kit.people_file import has_people
from detent.kit.safe_text import visible
from detent.kit.terminal.caller import DRIVING, Caller, user
from detent.kit.terminal.command_summary import summaries


def verb(
    name: str, summary: str = "", *, is_reading_first: bool = False
) -> Callable[[Callable[..., Any]], click.Command]:
    """Make a command of a function that takes the caller and returns an exit code; adds `--home` and `--json`.

    A command of a group says itself what it is about. One that reads first calls `work_begins` when it has read.
    """

    def made(function: Callable[..., Any]) -> click.Command:
        params = [*reversed(getattr(function, "__click_params__", []))]
        params.append(click.Option(["--home"], metavar="FOLDER", help=_("Where the journal is.")))
        params.append(click.Option(["--json", "is_json"], is_flag=True, help=_("Answer in JSON.")))
        if name in DRIVING:
            about = _("The policy file; by default $DETENT_POLICY, or detent.policy.yaml beside the home.")
            params.append(click.Option(["--policy"], default="", metavar="FILE", help=about))

        def call(home: str | None, is_json: bool, policy: str = "", **given: Any) -> int:
            context = click.get_current_context()
            caller = Caller(home or context.find_root().params.get("home"), is_json, policy)
            caller.name = context.command_path
            if (
                "by" in given
                and context.get_parameter_source("by") is ParameterSource.DEFAULT
                and has_people(caller.home)
            ):
                given["by"] = ""  # whoever the system says it is
            if not is_reading_first:
                work_begins()
            try:
                if inspect.iscoroutinefunction(function):
                    from detent.kit.terminal import interrupt

                    return int(interrupt.run(function(caller, **given)))
                return int(function(caller, **given))
            except KeyboardInterrupt:
                from detent.kit.terminal import interrupt

                return interrupt.end(is_json)
            finally:
                caller.close()

        settings = {"help_option_names": ["-h", "--help"]}
        text = summary or summaries()[name]
        return click.Command(name, callback=call, params=params, help=text, context_settings=settings)

    return made


def work_begins() -> None:
    """Everything is imported: from here on there may be garbage, but not among what there is already."""
    if not gc.isenabled():
        gc.freeze()
        gc.set_threshold(10_000, 10, 10)  # what a run makes mostly goes away by itself
        gc.enable()


def complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """The ids of runs that begin like this."""
    caller = Caller(ctx.params.get("home"), is_json=True)
    try:
        return [summary.run_id for summary in caller.reader.find_all(incomplete)]
    except Exception:  # noqa: BLE001  # a Tab key must never print an error
        return []
    finally:
        caller.close()


run_argument = click.argument("run", metavar="RUN", shell_complete=complete)
contract_argument = click.argument("contract", metavar="[CONTRACT]", default="")
fragment_option = click.option(
    "--fragment", "is_fragment", is_flag=True, help=_("Accept a part of a workflow; it begins at its first state.")
)
by_option = click.option(
    "--by", default=user, metavar="NAME", help=_("Your name in the journal; by default your user name.")
)
NO_WAIT = "detent.no_wait"
no_wait_option = click.option(
    "--no-wait",
    is_flag=True,
    expose_value=False,
    callback=lambda ctx, _param, value: ctx.meta.__setitem__(NO_WAIT, value),
    help=_("Return as soon as it is journalled, instead of following the run."),
)
comment_option = click.option("--comment", default="", metavar="TEXT", help=_("The reason, for the journal."))


def is_left() -> bool:
    """Whether the caller does not stay with the run."""
    return bool(click.get_current_context().meta.get(NO_WAIT))


def parse_json(text: str, name: str) -> Any:
    """A JSON value given as text, as `@FILE`, or as `@-` for standard input."""
    if text.startswith("@"):
        try:
            text = sys.stdin.read() if text == "@-" else Path(text[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError, ValueError) as error:
            problem = getattr(error, "strerror", None) or str(error)
            told = _("cannot read {file}: {problem}", file=visible(text[1:]), problem=problem)
            raise click.UsageError(f"{name}: {told}") from None
    try:
        return json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        problem = str(error) if isinstance(error, ValueError) else "nested too deeply"
        raise click.UsageError(_("{name} is not JSON: {problem}", name=name, problem=problem)) from None


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no JSON number")


def parse_object(text: str, name: str) -> dict[str, Any]:
    """A JSON object; nothing when left out."""
    value = parse_json(text, name) if text else {}
    if not isinstance(value, dict):
        raise click.UsageError(_("{name} must be a JSON object, like {example}", name=name, example='{"key": "value"}'))
    return value


def assign_pairs(pairs: tuple[str, ...], into: dict[str, Any], texts: Collection[str] = ()) -> dict[str, Any]:
    """Apply `--set key=value`: dots go deeper, a value that is JSON is taken as such, else it is text.

    What is wanted as a text stays one: `version=1.0` is no number.
    """
    for pair in pairs:
        key, equals, text = pair.partition("=")
        path = key.split(".")
        if not equals or not all(part.isidentifier() for part in path):
            raise click.UsageError(_("--set takes key=value, not `{given}`", given=pair))
        try:
            value = json.loads(text, parse_constant=_no_number) if key not in texts or text[:1] == '"' else text
        except (ValueError, RecursionError):
            value = text
        here = into
        for part in path[:-1]:
            here = here.setdefault(part, {})
            if not isinstance(here, dict):
                raise click.UsageError(_("--set {key}: `{part}` is not an object", key=key, part=part))
        here[path[-1]] = value
    return into
