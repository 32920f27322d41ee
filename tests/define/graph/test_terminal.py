"""Pictures in a terminal: exact drawings of small machines, alignment, and what happens when there is no room."""

import unicodedata
from textwrap import dedent

import pytest

from detent.core import Event, Run, Signalled, Started, trace
from detent.define.graph import Picture, ascii, picture
from detent.define.graph.canvas import Canvas
from detent.define.graph.text_width import clean, columns, pixels, shorten
from tests.define.graph.hostile import hostile
from tests.define.graph.machines import CHINESE, DOOR, EVERY, MAIL, coding, notebook, web


def test_the_door() -> None:
    assert ascii(picture(DOOR)) == dedent("""\
             ●
             ▼
        ┌─────────┐
        │ closed  │◀─╮
        └────┬────┘  │
             │       │
           OPEN    CLOSE
             ▼       │
         ┌───────┐   │
         │ open  ├───╯
         └───────┘
    """)


def test_a_mail_that_waits_for_an_answer() -> None:
    started = Started(machine=MAIL.digest)
    entries = list(trace(MAIL, Run(id="r"), [started, Signalled("SEND")]))
    assert ascii(picture(MAIL, None, entries), width=80) == dedent("""\
                                ●
                                ▼
                           ┌─────────┐
                           │ writing │◀──────╮
                           └─┬──┬────┘       │
               ╭─────────────╯  ┃            │
            DISCARD           SEND  !approval_rejected
               │                ▼            │
               ▼          ┏━ asks ━━━━┓      │
        ╔═ cancelled ═╗   ┃ ▶ sending ┃      │
        ║  discarded  ║   ┃ mail.send ┠──────╯
        ╚═════════════╝   ┗━┯━━━┯━━━━━┛
                            │   │
                ╭───────────╯   │
          !tool_failure         │
            !timeout            │
                ▼               ▼
           ╔═════════╗   ╔═ completed ═╗
           ║ failed  ║   ║    sent     ║
           ╚═════════╝   ╚═════════════╝

        ▶ waiting in sending   ━ the way so far
    """)


def test_wide_characters_keep_the_borders_in_line() -> None:
    lines = ascii(picture(CHINESE)).splitlines()
    at = next(number for number, line in enumerate(lines) if "付款" in line)
    corner = columns(lines[at - 1][: lines[at - 1].index("┐")])
    assert columns(lines[at][: lines[at].rindex("│")]) == corner


def test_what_does_not_fit_is_told_as_a_list() -> None:
    text = ascii(picture(notebook()), width=80)
    assert text.startswith("notebook · 14 states\n\n● idle\n  ─ START_WORKFLOW ─▶ stage_running\n")
    assert "\n  workflow_completed  [completed]\n  ─ RESET ─▶ idle\n" in text


def test_a_list_of_a_run_says_where_it_is() -> None:
    machine = notebook()
    events: list[Event] = [Started(machine=machine.digest), Signalled("START_WORKFLOW")]
    text = ascii(picture(machine, None, trace(machine, Run(id="r"), events)), width=80)
    assert "\n▶ waiting in stage_running, • been there, ━ the way so far\n" in text
    assert "\n• idle\n  ━ START_WORKFLOW ━▶ stage_running\n" in text
    assert "\n▶ stage_running\n" in text


@pytest.mark.parametrize("width", [20, 60, 80, 120])
@pytest.mark.parametrize("name", EVERY)
def test_no_line_is_longer_than_asked_for(name: str, width: int) -> None:
    assert max(columns(line) for line in ascii(picture(EVERY[name]), width=width).splitlines()) <= width


def test_the_coding_table_fits_on_eighty_columns() -> None:
    assert "┌" in ascii(picture(coding()), width=80)


def test_a_machine_nobody_could_draw_is_told() -> None:
    text = ascii(picture(web()))
    assert text.startswith("web · 200 states\n")
    assert "┌" not in text


def test_a_hostile_text_moves_no_cursor() -> None:
    for width in (40, 10_000):
        text = ascii(hostile(), width=width)
        assert {unicodedata.category(ch) for ch in text.replace("\n", "")} & {"Cc", "Cf", "Cs", "Zl", "Zp"} == set()


def test_nothing_is_drawn_of_nothing() -> None:
    assert ascii(Picture("none", (), ())) == ""


def test_a_combining_mark_stays_with_its_letter() -> None:
    canvas = Canvas()
    canvas.write(0, 0, "e\u0301a")
    assert canvas.text() == "e\u0301a\n"


def test_the_width_of_a_text() -> None:
    assert columns("abc") == 3
    assert columns("付款") == 4
    assert columns("e\u0301") == 1
    assert pixels("付款", 10) == 20
    assert pixels("abc", 14, bold=True) > pixels("abc", 14)
    assert pixels("WWW", 14) > pixels("iii", 14)


def test_shortening_counts_columns() -> None:
    assert shorten("abcdef", 6) == "abcdef"
    assert shorten("abcdefg", 6) == "abcde…"
    assert shorten("付款付款", 6) == "付款…"
    assert columns(shorten("付款付款付款", 8)) <= 8


def test_a_clean_text_is_one_visible_line() -> None:
    assert clean("a\nb\tc") == "a b c"
    assert clean("a\x1b[31m\u202eb") == "a\ufffd[31m\ufffdb"
