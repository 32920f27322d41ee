"""The SVG: well-formed, alone in the world, safe, readable, and the same every time."""

import os
import re
import subprocess
import sys
from itertools import product
from xml.etree import ElementTree

import pytest

from detent.core import Run, Signalled, Started, trace
from detent.define.graph import Picture, picture, svg
from detent.define.graph.palette import DARK, LIGHT, Palette, Theme, Tone
from tests.define.graph.hostile import TEXT, hostile
from tests.define.graph.machines import EVERY, MAIL, RELEASE

SPACE = "{http://www.w3.org/2000/svg}"
THEMES: tuple[Theme, ...] = ("light", "dark", "auto")


def parsed(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text)  # noqa: S314 - our own text


def waiting() -> Picture:
    return picture(MAIL, None, trace(MAIL, Run(id="r"), [Started(machine=MAIL.digest), Signalled("SEND")]))


def group(root: ElementTree.Element, state: str) -> ElementTree.Element:
    return next(one for one in root.iter(f"{SPACE}g") if one.get("data-state") == state)


@pytest.mark.parametrize("name", EVERY)
def test_it_is_a_complete_document(name: str) -> None:
    shown = picture(EVERY[name])
    root = parsed(svg(shown))
    assert root.tag == f"{SPACE}svg"
    assert root.get("role") == "img"
    assert root.get("viewBox") == f"0 0 {root.get('width')} {root.get('height')}"
    assert [child.tag for child in root][:2] == [f"{SPACE}title", f"{SPACE}desc"]
    assert root[0].text == (shown.title or shown.name)
    assert len([one for one in root.iter(f"{SPACE}g") if one.get("data-state")]) == len(shown.nodes)


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("shown", [picture(RELEASE), hostile()], ids=["release", "hostile"])
def test_it_needs_nothing_from_outside_and_runs_nothing(shown: Picture, theme: Theme) -> None:
    text = svg(shown, theme=theme)
    root = parsed(text)
    allowed = {"svg", "title", "desc", "style", "g", "rect", "circle", "path", "text"}
    assert {one.tag.removeprefix(SPACE) for one in root.iter()} <= allowed
    names = {name for one in root.iter() for name in one.attrib}
    assert not [name for name in names if "href" in name or name.startswith("on") or name in ("style", "src")]
    sheet = next(root.iter(f"{SPACE}style")).text or ""
    assert "url(" not in sheet
    assert "@import" not in sheet
    assert re.findall(r"https?://[^\s\"]*", text) == ["http://www.w3.org/2000/svg"]


def test_a_hostile_text_stays_text() -> None:
    root = parsed(svg(hostile()))
    said = "".join(root.itertext())
    assert "<script>alert(1)</script>" in said
    assert "\x1b" not in said
    assert "\u202e" not in said
    assert any(one.get("data-state", "").startswith(TEXT[:12]) for one in root.iter(f"{SPACE}g"))


def test_the_current_state_is_lit_and_the_way_is_marked() -> None:
    root = parsed(svg(waiting()))
    assert "current" in (group(root, "sending").get("class") or "").split()
    assert len([one for one in root.iter(f"{SPACE}rect") if one.get("class") == "halo"]) == 1
    edges = [one for one in root.iter(f"{SPACE}g") if (one.get("class") or "").startswith("edge")]
    lit = [one for one in edges if "visited" in (one.get("class") or "").split()]
    assert [(one.get("data-source"), one.get("data-target")) for one in lit] == [("writing", "sending")]
    assert "The run is waiting in sending." in (root[1].text or "")


def test_each_kind_of_state_is_recognisable_without_colour() -> None:
    root = parsed(svg(picture(RELEASE)))
    parts = {
        state: [one.get("class") for one in group(root, state)]
        for state in ("build", "review", "soak", "checks", "live")
    }
    assert "glyph" not in parts["build"]
    assert "glyph" in parts["review"]
    assert "glyph" in parts["soak"]
    assert parts["checks"].count("bar") == 2
    assert "inner" in parts["live"]
    glyphs = [group(root, state).find(f"{SPACE}path[@class='glyph']") for state in ("review", "soak", "checks", "live")]
    assert len({one.get("d") for one in glyphs if one is not None}) == 4


def test_auto_follows_the_reader_and_the_others_do_not() -> None:
    shown = picture(MAIL)
    assert "@media (prefers-color-scheme:dark)" in svg(shown)
    assert "@media" not in svg(shown, theme="light")
    assert LIGHT.paper not in svg(shown, theme="dark")


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_the_contrast_is_enough_to_read(palette: Palette) -> None:
    tones = [value for value in palette if isinstance(value, Tone)]
    grounds = [palette.paper, *(tone.fill for tone in tones)]
    for text, ground in product((palette.ink, palette.muted), grounds):
        assert contrast(text, ground) >= 4.5, (text, ground)
    for text in (palette.error, palette.visited):
        assert contrast(text, palette.paper) >= 4.5, text
    assert contrast(palette.wire, palette.paper) >= 3
    for tone in tones:
        assert contrast(tone.line, palette.paper) >= 3, tone
        assert contrast(tone.line, tone.fill) >= 3, tone
    for tone in (palette.ask, palette.wait, palette.parallel):  # a glyph keeps its colour on a lit ground
        assert contrast(tone.line, palette.current.fill) >= 3, tone
        assert contrast(tone.line, palette.seen.fill) >= 3, tone


@pytest.mark.parametrize("seed", ["0", "1", "4711"])
def test_the_same_machine_gives_the_same_bytes_in_every_process(seed: str) -> None:
    code = (
        "from tests.define.graph.machines import RELEASE, notebook\n"
        "from detent.define.graph import *\n"
        "import sys\n"
        "for machine in (RELEASE, notebook()):\n"
        "    shown = picture(machine)\n"
        "    sys.stdout.buffer.write((svg(shown) + ascii(shown, width=300) + mermaid(shown) + dot(shown)).encode())\n"
    )
    paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
    fresh = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": paths}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, env=fresh)
    here = picture(RELEASE)
    assert done.stdout.startswith(svg(here).encode())
    assert done.stdout == expected()


def expected() -> bytes:
    from detent.define.graph import ascii, dot, mermaid
    from tests.define.graph.machines import notebook

    shown = [picture(RELEASE), picture(notebook())]
    return "".join(svg(one) + ascii(one, width=300) + mermaid(one) + dot(one) for one in shown).encode()


def test_the_empty_picture_is_a_document_too() -> None:
    assert parsed(svg(Picture("none", (), ()))).tag.endswith("svg")
