"""What tokens cost: a table as data, and the user's own on top of it.

`prices.json` holds US dollars for a million tokens by model. DETENT_PRICES names a file of the same form that adds to
it or corrects it. A model that is in neither costs an unknown amount, and the answer says so.
"""

import functools
import os
from importlib.resources import files
from pathlib import Path

import msgspec

from detent.effects.arguments import invalid
from detent.effects.llm.model import Reply

MILLION = 1_000_000
OWN_TABLE = "DETENT_PRICES"


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """US dollars for a million tokens."""

    input: float
    output: float
    cached_input: float | None = None


def cost(name: str, reply: Reply, is_elsewhere: bool = False) -> float | None:
    """What an answer cost, or None; `is_elsewhere`: not sold by whom the built-in table is about."""
    tables = [_own(os.environ.get(OWN_TABLE, ""))] + ([] if is_elsewhere else [_builtin()])
    price = next((found for table in tables if (found := _find(table, name))), None)
    if price is None or reply.input_tokens is None or reply.output_tokens is None:
        return None
    cached = min(reply.cached_tokens, reply.input_tokens)
    cheap = price.input if price.cached_input is None else price.cached_input
    dollars = (reply.input_tokens - cached) * price.input + cached * cheap + reply.output_tokens * price.output
    return round(dollars / MILLION, 9)


def _find(table: dict[str, Price], name: str) -> Price | None:
    """The price of a model or, for a dated version of one, of the model."""
    while name:
        if name in table:
            return table[name]
        name = name.rpartition("-")[0] if name.rpartition("-")[2].isdigit() or name.endswith("-latest") else ""
    return None


@functools.cache
def _builtin() -> dict[str, Price]:
    return msgspec.json.decode(files(__package__).joinpath("prices.json").read_bytes(), type=dict[str, Price])


def _own(file: str) -> dict[str, Price]:
    if not file:
        return {}
    try:
        return msgspec.json.decode(Path(file).read_bytes(), type=dict[str, Price])
    except (OSError, msgspec.DecodeError) as error:
        example = '{"MODEL": {"input": 1.0, "output": 2.0}}'
        raise invalid(f"{OWN_TABLE}={file}: {error}; it is a JSON file like {example}") from error
