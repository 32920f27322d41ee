"""How a message feels: counted words of nine lexicons (`emotions.json`, Chinese and English), never a guess.

One hit gives a confidence of 0.3, two 0.5, three or more 0.7; none is neutral with 0.5.
"""

import functools
import re
from importlib.resources import files
from typing import Any

import msgspec

TEXT_MAX = 4000
CONFIDENCE = {1: 0.3, 2: 0.5}
SURE, NEUTRAL_CONFIDENCE, THRESHOLD = 0.7, 0.5, 0.5
VALENCE = {"positive": 0.5, "negative": -0.5}


class Lexicon(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One emotion: its category, how to answer to it, and the words that give it away; without words no lexicon."""

    category: str
    instruction: str
    english: tuple[str, ...] = ()
    chinese: tuple[str, ...] = ()


@functools.cache
def emotions() -> dict[str, Lexicon]:
    """The twelve emotions; nine of them have words."""
    text = files(__package__).joinpath("emotions.json").read_bytes()
    return msgspec.json.decode(text, type=dict[str, Lexicon])


@functools.cache
def _pattern(name: str) -> re.Pattern[str]:
    lexicon = emotions()[name]
    words = [rf"\b{re.escape(word)}\b" for word in lexicon.english]
    return re.compile("|".join([*words, *(re.escape(word) for word in lexicon.chinese)]), re.IGNORECASE)


def detect_emotion(text: str) -> dict[str, Any]:
    """The emotion of a text: primary, category, confidence and the words that say so."""
    best, hits = "neutral", list[str]()
    for name, lexicon in emotions().items():
        if lexicon.english or lexicon.chinese:
            seen = [match.group().lower() for match in _pattern(name).finditer(text[:TEXT_MAX])]
            if len(seen) > len(hits):
                best, hits = name, seen
    confidence = CONFIDENCE.get(len(hits), SURE) if hits else NEUTRAL_CONFIDENCE
    indicators = list(dict.fromkeys(hits))
    return {"primary": best, "category": emotions()[best].category, "confidence": confidence, "indicators": indicators}


def context(emotion: dict[str, Any]) -> dict[str, Any]:
    """The same as reasoning reads it: valence, arousal, and how to answer."""
    known = emotions().get(str(emotion.get("primary")), emotions()["neutral"])
    return {
        "current_emotion": emotion.get("primary", "neutral"),
        "valence": VALENCE.get(known.category, 0.0),
        "arousal": emotion.get("confidence", NEUTRAL_CONFIDENCE),
        "modulation_instruction": known.instruction,
    }


def trust_emotion(
    said: dict[str, Any] | None, otherwise: dict[str, Any], threshold: float = THRESHOLD
) -> dict[str, Any]:
    """The emotion a model claims to see; one it is not sure of becomes neutral, and says what it was."""
    if not said or said.get("primary") not in emotions():
        return otherwise
    name, confidence = str(said["primary"]), float(said.get("confidence") or 0.0)
    indicators = [str(word) for word in said.get("indicators") or ()][:20]
    if confidence < threshold and name != "neutral":
        return {"primary": "neutral", "category": "neutral", "confidence": confidence,
                "indicators": [*indicators, f"degraded_from_{name}"]}  # fmt: skip
    category = emotions()[name].category
    return {"primary": name, "category": category, "confidence": confidence, "indicators": indicators}
