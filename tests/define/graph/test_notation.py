"""Mermaid and Graphviz: exact texts of small machines, and names that try to become syntax."""

import re
from textwrap import dedent

import pytest

from detent.define.graph import dot, mermaid, picture
from tests.define.graph.hostile import hostile
from tests.define.graph.machines import DOOR, EVERY, MAIL, RELEASE


def test_mermaid_of_the_door() -> None:
    assert mermaid(picture(DOOR)) == dedent("""\
        stateDiagram-v2
            direction TB
            state "closed" as s0
            state "open" as s1
            [*] --> s0
            s0 --> s1 : OPEN
            s1 --> s0 : CLOSE
    """)


def test_mermaid_of_the_mail() -> None:
    assert mermaid(picture(MAIL)) == dedent("""\
        stateDiagram-v2
            direction TB
            state "writing" as s0
            state "sending (asks)" as s1
            state "discarded (cancelled)" as s2
            state "sent (completed)" as s3
            state "failed" as s4
            [*] --> s0
            s0 --> s1 : SEND
            s0 --> s2 : DISCARD
            s1 --> s3
            s1 --> s0 : !approval_rejected
            s1 --> s4 : !tool_failure | !timeout
            s2 --> [*]
            s3 --> [*]
            s4 --> [*]
            classDef askState fill:#f6f3ff,stroke:#7c3aed,color:#111827
            class s1 askState
            classDef cancelledState fill:#f5f5f4,stroke:#57534e,color:#111827
            class s2 cancelledState
            classDef completedState fill:#effcf3,stroke:#15803d,color:#111827
            class s3 completedState
            classDef failedState fill:#fef3f2,stroke:#b91c1c,color:#111827
            class s4 failedState
    """)


def test_mermaid_shows_the_lanes_of_a_parallel_state() -> None:
    assert dedent("""\
        state "checks (parallel)" as s2 {
            state "unit#58; shell" as s2_0
            --
            state "lint#58; shell" as s2_1
    """) in dedent(mermaid(picture(RELEASE))).replace("\n    ", "\n")


def test_dot_of_the_door() -> None:
    assert dot(picture(DOOR)) == dedent("""\
        digraph "door" {
            graph [rankdir=TB, fontname="Helvetica"]
            node [shape=box, style="rounded,filled", fillcolor="#f8fafc", color="#7b8794", fontname="Helvetica"]
            edge [color="#6b7280", fontname="Helvetica", fontsize=11]
            s0 [label="closed"]
            s1 [label="open"]
            begin [shape=circle, style=filled, fillcolor="#111827", label="", width=0.15]
            begin -> s0
            s0 -> s1 [label="OPEN"]
            s1 -> s0 [label="CLOSE"]
        }
    """)


def test_dot_marks_ends_and_errors() -> None:
    text = dot(picture(MAIL))
    assert '    s3 [label="sent (completed)", fillcolor="#effcf3", color="#15803d", peripheries="2"]\n' in text
    assert '    s1 -> s4 [label="!tool_failure\\n!timeout", style="dashed", color="#b91c1c", ' in text


# What a line of each format may look like, with all quoted or escaped text cut out.
MERMAID_LINES = re.compile(
    r"""stateDiagram-v2 | \ +direction\ TB | \ +state\ "" \ as\ s\d+(_\d+)?(\ \{)? | \ +\} | \ +--
    | \ +(s\d+|\[\*\])\ -->\ (s\d+|\[\*\])(\ :\ [^\n:;\[\]{}<>"%\\`]*)?
    | \ +classDef\ \w+\ [\w:#,-]+ | \ +class\ [s\d,]+\ \w+""",
    re.VERBOSE,
)
DOT_LINES = re.compile(
    r"""digraph\ ""\ \{ | \} | \ +(graph|node|edge|s\d+|begin)\ \[[\w=,\ ".\#]*\]
    | \ +(s\d+|begin)\ ->\ s\d+(\ \[[\w=,\ ".\#]*\])?""",
    re.VERBOSE,
)


@pytest.mark.parametrize("name", [*EVERY, "hostile"])
def test_no_name_becomes_syntax(name: str) -> None:
    shown = hostile() if name == "hostile" else picture(EVERY[name])
    for line in mermaid(shown).splitlines():
        bare = re.sub(r'"[^"\n]*"', '""', re.sub(r"#\d+;", "", line))
        assert MERMAID_LINES.fullmatch(bare), line
    for line in dot(shown).splitlines():
        bare = re.sub(r'"(?:[^"\\\n]|\\.)*"', '""', line)
        assert DOT_LINES.fullmatch(bare), line
