"""The language of the surfaces: sentences are written in English and looked up in the reader's catalogue.

A sentence without an entry stays English; a test sees to it that there is none.
"""

import functools
import os


@functools.cache
def language() -> str:
    """`zh` for Simplified Chinese, else `en`: DETENT_LANG first, then what the system says.

    It is found out once: a process does not change its language, and this is asked for every line.
    """
    for name in ("DETENT_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        if found := os.environ.get(name):
            return "zh" if found.lower().startswith("zh") else "en"
    return "en"


def _(english: str, **values: object) -> str:
    """A sentence in the reader's language, with its values filled in."""
    text = translate(english)
    return text.format(**values) if values else text


def translate(english: str) -> str:
    """A sentence that stands somewhere else, in the reader's language."""
    return chinese().get(english, english) if language() == "zh" else english


@functools.cache
def chinese() -> dict[str, str]:
    """Every sentence there is, in Chinese."""
    import importlib
    import pkgutil

    from detent.kit import words
    from detent.kit.agent import load_all

    names = [found.name for found in pkgutil.iter_modules(words.__path__)]
    found = [importlib.import_module(f"{words.__name__}.{name}").CHINESE for name in names]
    found += load_all("words")
    return {english: text for catalogue in reversed(found) for english, text in catalogue.items()}  # the first counts
