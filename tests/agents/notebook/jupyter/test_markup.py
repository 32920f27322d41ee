"""The HTML of cells is harmless when it leaves us, whatever a program has written; what it shows stays."""

import re
from html.parser import HTMLParser
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import example, given

from detent.kit import html_sanitiser
from detent.kit.html_sanitiser import clean_html, harmless
from tests.agents.notebook.jupyter.hostile import HOSTILE

PIECES = (
    "<b> </b> <td > <table> </table> <script> </script> <svg/onload=a> </svg> <math> <mtext> <!-- --> &lt;script&gt; "
    "text </ <style> </style> <![CDATA[ ]]> \0 <details\topen> <td\tcolspan=9> \tonload=x <p\tstyle=x> <a\thref=b> "
    "<template> </template> <noscript> </noscript> <img\tsrc=x\tonerror=y> <img\tsrc='data:image/png;base64,AA=='> "
    "<textarea> </textarea> <title> </title> <select> <option> <xmp> </xmp> <plaintext> <iframe> </iframe> \" ' > < / "
    "= ` <form> <input> <button\tformaction=javascript:a> <base\thref=//a> <link\trel=stylesheet\thref=a> "
    "<meta\thttp-equiv=refresh> &#x3c; &#0;"
)


class Seen(HTMLParser):
    """Every tag with its attributes, and whether each that is opened is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.inside: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in html_sanitiser.VOID:
            self.inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.inside.pop() == tag


def check(clean: str) -> None:
    """Nothing but what is on the list, with values that can do nothing, and everything closed."""
    seen = Seen(clean)
    assert seen.inside == []
    for tag, attributes in seen.tags:
        assert tag in html_sanitiser.KEPT
        for name, value in attributes.items():
            assert name in html_sanitiser.ATTRIBUTES.get(tag, set()), (tag, name)
            assert re.fullmatch(html_sanitiser.VALUES[name], value or ""), (tag, name, value)
    assert not re.search(r"<(?!/?[a-z])", clean), "a bare < is an entity"


@given(st.lists(st.sampled_from(PIECES.split(" ")), max_size=16).map("".join))
@example("<p><button><details open>")  # without the button between them, a browser closes the paragraph first
def test_nothing_that_acts_is_left_however_often_it_is_read_and_written(content: str) -> None:
    once = clean_html(content)
    twice = clean_html(once)
    check(once)
    check(twice)
    assert clean_html(twice) == twice, "what was read once more stays as it is"


@given(st.text(st.characters(), max_size=60))
def test_any_text_can_be_cleaned(content: str) -> None:
    check(clean_html(content))


@pytest.mark.parametrize("content", HOSTILE)
def test_known_tricks_come_to_nothing(content: str) -> None:
    clean = clean_html(content)
    check(clean)
    assert not re.search(r"<[^>]*(javascript:|http|//|\bon\w+=|style|srcset|expression)", clean, re.IGNORECASE), clean


def test_tables_text_and_pictures_stay() -> None:
    table = '<style scoped>x</style><table border="1" class="d"><tr><th colspan="2">a&amp;b</th></tr></table>'
    assert clean_html(table) == '<table><tbody><tr><th colspan="2">a&amp;b</th></tr></tbody></table>'
    picture = '<img src="data:image/png;base64,iVBORw0KGgo=" alt="a plot" width="20">'
    assert clean_html(picture) == picture
    assert clean_html('<p>a<img src="https://example.org/a.png" alt="far" width="9">b</p>') == "<p>ab</p>"
    text = "<h3>Head</h3><p>some <b>bold</b> and <code>code</code></p><ul><li>one</li></ul>"
    assert clean_html(text) == text
    assert clean_html("<details open><summary>s</summary>t") == '<details open=""><summary>s</summary>t</details>'
    assert clean_html('<a href="https://example.org">a link</a> <blink>x</blink>') == "a link x"


def test_a_large_table_is_shown_and_html_that_is_too_much_to_read_is_not() -> None:
    row = '<tr style="text-align: right;"><td>1</td><td>&lt;x&gt;</td><td>a<br/>b</td></tr>\n'
    table = f'<div>\n<style scoped>a > b {{}}</style>\n<table border="1">{row * 20_000}</table></div>'
    assert clean_html(table).count("<td>") == 60_000
    for nested in ("<div>", "<b><p>", "<table><tr><td>", "<div></x>", "<div><!--</div>-->", '<div a="</div>">'):
        assert clean_html(nested * 30_000) == ""
    assert clean_html("".join(f"<b x={n}>" for n in range(5_000))) == ""
    assert clean_html("<div>" * 300).count("</div>") == 300
    assert clean_html("x" * 3_000_000) == ""


def output(html: Any, **more: str) -> dict[str, Any]:
    return {"output_type": "display_data", "data": {"text/html": html, **more}}


def test_only_outputs_of_cells_are_cleaned_and_only_in_a_copy() -> None:
    evil = "<b onclick=x>hi</b><script>x</script>"
    given: dict[str, Any] = {
        "changes": {"cells": [{"outputs": [output(evil), output(["<i>", "a"])]}]},
        "text/html": evil,
    }
    clean = harmless(given)
    outputs = clean["changes"]["cells"][0]["outputs"]
    assert [one["data"]["text/html"] for one in outputs] == ["<b>hi</b>", "<i>a</i>"]
    assert clean["text/html"] == evil, "a field that happens to have that name is nobody's output"
    assert given["changes"]["cells"][0]["outputs"][0]["data"]["text/html"] == evil
    plain = {"a": [1, {"output_type": "stream", "text": evil}]}
    assert harmless(plain) is plain


def test_what_is_not_shown_leaves_the_plain_text_or_a_word() -> None:
    deep = "<div>" * 5_000
    assert harmless(output(deep, **{"text/plain": "Figure"}))["data"] == {"text/plain": "Figure"}
    assert harmless(output(deep))["data"] == {"text/plain": "HTML of 25,000 characters that is not shown here"}
