"""The command explain: a definition in sentences."""

from collections import ChainMap
from functools import partial
from typing import cast

import click

from detent.core.effect_type import Effect
from detent.define import load
from detent.define.irreversible_call import is_irreversible
from detent.effects import Known
from detent.kit.explanation import explain
from detent.kit.terminal.caller import Caller, emit
from detent.kit.terminal.option import verb


@verb("explain")
@click.argument("file", metavar="FILE[:NAME]")
def explain_file(caller: Caller, file: str) -> int:
    """Tell what a definition does, in the reader's language."""
    definition = load(file, warn=False)
    known = ChainMap(dict(definition.effects), cast("dict[str, Effect]", Known()))
    lines = list(explain(definition, partial(is_irreversible, effects=known)))
    if caller.is_json:
        emit(
            {
                "ok": True,
                "machine": definition.machine.name,
                "sentences": [line for line in lines if line],
                "error": None,
            }
        )
        return 0
    for line in lines:
        caller.say(line)
    return 0


COMMANDS = {"explain": explain_file}
