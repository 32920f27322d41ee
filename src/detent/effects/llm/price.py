"""What tokens cost: a table as data, and the user's own on top of it.

`prices.json` holds US dollars for a million tokens by model, as public price lists gave them in the month it names. It
is a convenience, not a bill: prices change, and tiers, batches and long prompts have others. DETENT_PRICES names a file
`{MODEL: {input, output, cached_input}}` that adds to it or corrects it. A model that is in neither costs an unknown
amount: that call is counted in `unpriced_calls`, and the answer says so.
"""

import functools
import os
import re
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


class PriceTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The built-in prices, and the month they are of."""

    as_of: str
    prices: dict[str, Price]


def price_of(name: str, is_elsewhere: bool = False) -> tuple[Price, str] | None:
    """A model's price and where it is from; `is_elsewhere`: not sold by whom the built-in table is about."""
    own = os.environ.get(OWN_TABLE, "")
    if found := _find(_own(own), name):
        return found, own
    known = None if is_elsewhere else _find(_builtin().prices, name)
    return None if known is None else (known, _builtin().as_of)


def cost(name: str, reply: Reply, is_elsewhere: bool = False) -> float | None:
    """What an answer cost, or None when that is not known."""
    found = price_of(name, is_elsewhere)
    if found is None or reply.input_tokens is None or reply.output_tokens is None:
        return None
    price = found[0]
    cached = min(reply.cached_tokens, reply.input_tokens)
    cheap = price.input if price.cached_input is None else price.cached_input
    dollars = (reply.input_tokens - cached) * price.input + cached * cheap + reply.output_tokens * price.output
    return round(dollars / MILLION, 9)


def unkept(calls: int, bound_usd: float) -> str:
    """Why a bound in dollars cannot be kept, and the way out."""
    counted = "1 call" if calls == 1 else f"{calls} calls"
    return (
        f"the cost of {counted} to a model is not known, so {bound_usd:g} USD cannot be kept; "
        f"name its price in the table of {OWN_TABLE}, or use another bound"
    )


def _find(table: dict[str, Price], name: str) -> Price | None:
    """The price of a model or, for a dated version of one, of the model."""
    return table.get(name) or table.get(_DATED.sub("", name))


_DATED = re.compile(r"-(?:[0-9]{8}|[0-9]{4}-[0-9]{2}-[0-9]{2}|latest)$")


@functools.cache
def _builtin() -> PriceTable:
    return msgspec.json.decode(files(__package__).joinpath("prices.json").read_bytes(), type=PriceTable)


def _own(file: str) -> dict[str, Price]:
    if not file:
        return {}
    try:
        return msgspec.json.decode(Path(file).read_bytes(), type=dict[str, Price])
    except (OSError, msgspec.DecodeError) as error:
        example = '{"MODEL": {"input": 1.0, "output": 2.0}}'
        raise invalid(f"{OWN_TABLE}={file}: {error}; it is a JSON file like {example}") from error
