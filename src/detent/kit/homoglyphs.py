"""Words that are not what they seem: letters that pose as others in what somebody is asked to approve.

A word wholly in letters that have Latin twins is suspected, unless its neighbours plainly belong to the same script:
`сахар` is sugar in a Russian sentence, and nothing anybody wrote on purpose between English words.
"""

import re
import unicodedata
from collections.abc import Iterator
from typing import Any, NamedTuple

from detent.kit.language import _
from detent.kit.safe_text import visible

FOUND_MAX = 20
TWINS = {
    "CYRILLIC": "аеорсухкіјѕһԁԛԝѵӏѡАВЕКМНОРСТУХІЈЅҮӀԚԜѴ",
    "GREEK": "αορνυικτγχηωϲϳΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹϿ",
    "ARMENIAN": "օոսհցզյՕՍՏ",
    "CHEROKEE": "ᎠᎡᎢᎥᎪᎫᎬᎳᎷᎻᎽᏀᏃᏆᏒᏎᏔᏙᏚᏢᏦᏟᏞᏴᏏ",
    "COPTIC": "ⲟⲣⲥⲓⲕⲞⲢⲤⲔⲘⲚⲦⲨⲬⲎⲒⲂ",
    "LISU": "ꓐꓑꓓꓔꓖꓗꓙꓚꓜꓝꓟꓠꓡꓢꓣꓦꓧꓪꓫꓬꓮꓰꓲꓳꓴ",
}
LATIN_TWINS = frozenset("\u0251\u0261\u0237\u01c0\u01c3\u0269\u028f")  # Latin themselves, and not what they seem
DOTLESS = "\u0131"  # a letter of Turkish, and a trap in an address
# Signs that stand for `.`, `/`, `:` and `-` between plain letters: an address is not where it seems to be.
_SIGNS = "\u2024\u3002\uff0e\uff61\u2044\u2215\u29f8\uff0f\ua789\u2236\uff1a\u2010\u2011\u2012\u2212"
_FALSE_SIGN = re.compile(rf"[A-Za-z0-9]+([{_SIGNS}])[A-Za-z0-9]+")
_TOKEN = re.compile(r"[\w@.-]+")
_LETTERS = re.compile(r"[^\W\d_]+")
_ADDRESS = re.compile(r"@|\w\.\w")


class Word(NamedTuple):
    """A run of letters in a token: what stands between blanks, with dots, hyphens and at-signs."""

    text: str
    token: str
    scripts: frozenset[str]  # of its letters, those that matter here
    mask: str  # the script of all its letters, if each of them has a Latin twin
    home: str  # the script it plainly belongs to


def _word(text: str, token: str) -> Word:
    if text.isascii():
        return Word(text, token, frozenset(("LATIN",)), "", "LATIN")
    scripts = frozenset(script for ch in text if (script := _script(ch)) in TWINS or script == "LATIN")
    first = _script(text[0])
    mask = first if all(ch in TWINS.get(first, "") for ch in text) else ""
    return Word(text, token, scripts, mask, "" if mask or len(scripts) != 1 else next(iter(scripts)))


def look_alikes(value: Any) -> list[str]:
    """Words that are not what they seem, one sentence each."""
    found: dict[str, None] = {}
    for told in (told for text in _strings(value) if not text.isascii() for told in _disguises(text)):
        found[told] = None
        if len(found) == FOUND_MAX:
            break
    return list(found)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield str(name)
            yield from _strings(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _strings(inner)
    elif isinstance(value, str):
        yield value


def _disguises(text: str) -> Iterator[str]:
    for match in _FALSE_SIGN.finditer(text):
        yield _describe_letter(match[0], match[1])
    words, homes = list[Word](), list[set[str]]()  # and, for each word, the scripts of its token
    for token in _TOKEN.findall(text):
        parts = [_word(letters, token) for letters in _LETTERS.findall(token)]
        words += parts
        homes += [{part.home for part in parts}] * len(parts)
    sides = zip(_nearest(words), reversed(_nearest(words[::-1])), strict=True)
    for word, inside, around in zip(words, homes, sides, strict=True):
        if word.mask and not _is_at_home(word, inside if _is_address(word.token) else set(around)):
            yield _describe_mask(word)
        elif not word.mask and not word.text.isascii():
            yield from (_describe_letter(word.token, ch) for ch in dict.fromkeys(word.text) if _is_strange(ch, word))


def _nearest(words: list[Word]) -> list[str]:
    """For each word, the script of the last one before it that is not wholly of letters with Latin twins."""
    found, last = [], ""
    for word in words:
        found.append(last)
        last = last if word.mask else word.home
    return found


def _is_at_home(word: Word, around: set[str]) -> bool:
    """Whether a word in letters with Latin twins stands among others of its script; one letter poses as no word."""
    return word.mask in around or (len(word.text) == 1 and word.token.isalpha())


def _is_address(token: str) -> bool:
    return _ADDRESS.search(token) is not None


def _describe_mask(word: Word) -> str:
    is_all = word.token.strip(".-") == word.text
    told = word.text if is_all else _("{word} in {token}", word=word.text, token=visible(word.token))
    script = word.mask.capitalize()
    return _("{word}: every letter is {script} and looks like a Latin one", word=told, script=script)


def _is_strange(ch: str, word: Word) -> bool:
    """Whether a letter poses as another in a word that is not wholly disguised."""
    is_mixed = len(word.scripts) > 1 and _script(ch) in TWINS
    is_trap = ch in LATIN_TWINS or (ch == DOTLESS and _is_address(word.token))
    is_wide = not ch.isascii() and unicodedata.normalize("NFKC", ch).isascii()
    return is_mixed or (is_trap and "LATIN" in word.scripts) or is_wide


def _describe_letter(token: str, ch: str) -> str:
    return f"{visible(token)}: {ch} = U+{ord(ch):04X} {unicodedata.name(ch, '?')}"


def _script(ch: str) -> str:
    return unicodedata.name(ch, "").partition(" ")[0]
