"""What a file shows and does not say: text that turns its direction around, and names that look like others."""

import re
import unicodedata

from detent.define.compile_context import Page
from detent.define.machine_builder import MachinePlan

TURNING = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
SHOWN_MAX = 5
# Letters of other alphabets and the Latin ones that they look like.
TWINS = str.maketrans(
    "аеорсухкіјѕһԁԛԝѵӏАВЕКМНОРСТУХІЈЅαορνυικτχΑΒΕΖΗΙΚΜΝΟΡΤΥΧ",
    "aeopcyxkijshdqwvlABEKMHOPCTYXIJSaopvuiktxABEZHIKMNOPTYX",
)


def warn_of_disguises(page: Page, plans: list[MachinePlan]) -> None:
    """Warn of characters that turn text around, and of names that are not what they seem."""
    found = 0
    for number, line in enumerate(page.lines, 1):
        for turned in TURNING.finditer(line):
            found += 1
            if found <= SHOWN_MAX:
                code = f"U+{ord(turned[0]):04X}"
                message = f"the character {code} turns text around: this line is not what it seems"
                page.warn_at(number, turned.start() + 1, message)
    for plan in plans:
        seen: dict[str, str] = {}
        for name in plan.types:
            skeleton = unicodedata.normalize("NFKC", name).translate(TWINS)
            if (other := seen.setdefault(skeleton, name)) != name:
                message = f"the state `{name}` looks like `{other}` and is another one"
                page.warn(plan.path_of(name), message, "write one of them in other letters", at_key=True)
            elif skeleton != name and any("a" <= ch.lower() <= "z" for ch in name):
                message = f"the state `{name}` mixes letters that look alike and are not Latin"
                page.warn(plan.path_of(name), message, at_key=True)
