"""A notebook as one HTML page that needs nothing else: no script, no font, no picture from outside.

Everything in a notebook is foreign text. Markdown is rendered with its HTML switched off, HTML outputs pass an
allow-list, drawings are shown as pictures, and the page's own policy forbids the browser to run or fetch anything.
"""

import re
from collections.abc import Iterable
from functools import cache
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from detent.agents.notebook.cell import Cell, Notebook, Output
from detent.agents.notebook.cell_text import peek
from detent.agents.notebook.export.shared_format import (
    Shown,
    choose_part,
    has_bar,
    is_chinese,
    join_part,
    order_cells,
    thinking_of,
)
from detent.agents.notebook.export.table_column import align_columns
from detent.core.value import scrub

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
OPEN_LINES_MAX = 12  # longer code is folded
CODE_MAX = 60_000  # characters that are coloured
WORDS = {
    "contents": ("Contents", "目录"),
    "goal": ("Goal", "目标"),
    "met": ("Goal met", "目标已达到"),
    "missed": ("Goal not met", "目标未达到"),
    "code": ("code", "代码"),
    "lines": ("lines", "行"),
    "thinking": ("Thinking", "思考"),
    "cells": ("cells", "个单元"),
    "seconds": ("s of computing", "秒计算时间"),
    "repaired": ("Repaired", "已修复"),
    "made": ("Made by detent from the run's journal.", "由 detent 根据运行日志生成。"),
}
KINDS = {"Keyword": "k", "Literal.String": "s", "Literal.Number": "n", "Comment": "c", "Name.Function": "f"}


class Heading(NamedTuple):
    """An entry of the table of contents."""

    anchor: str
    level: int
    text: str


class _Page:
    """One page in the making."""

    def __init__(self, notebook: Notebook) -> None:
        self.notebook = notebook
        self.is_chinese = is_chinese(notebook)
        self.headings: list[Heading] = []

    def word(self, name: str) -> str:
        return WORDS[name][self.is_chinese]

    def cell(self, cell: Cell) -> str:
        if cell.type == "thinking":
            head, lines = thinking_of(cell)
            body = "".join(f"<p>{escape(text)}</p>" for text in lines)
            name = f"{self.word('thinking')} · {head}" if cell.agent_name else self.word("thinking")
            return f'<details class="thinking"><summary>{escape(name)}</summary>{body}</details>'
        if cell.type in ("code", "Hybrid"):
            return self._code(cell)
        extra = " error" if cell.type == "error" else ""
        return f'<section class="text{extra}">{self._text(cell)}</section>'

    def _text(self, cell: Cell) -> str:
        parser = _markdown()
        tokens = parser.parse(cell.content)
        for at, token in enumerate(tokens):
            if token.type == "heading_open":
                level = int(token.tag[1])
                anchor = cell.metadata.chapter_id if level == 2 else cell.metadata.section_id if level == 3 else None
                taken = {heading.anchor for heading in self.headings}
                if not anchor or anchor in taken:
                    anchor = f"heading-{len(self.headings) + 1}"
                token.attrSet("id", anchor)
                text = "".join(one.content for one in tokens[at + 1].children or [])
                self.headings.append(Heading(anchor, level, text))
        rendered: str = parser.renderer.render(tokens, parser.options, {})
        return rendered.replace("<table>", '<div class="tabled"><table>').replace("</table>", "</table></div>")

    def _code(self, cell: Cell) -> str:
        parts = []
        if cell.content.strip():
            lines = cell.content.strip("\n").split("\n")
            number = f"[{cell.execution_count}]" if cell.execution_count is not None else "[ ]"
            about = f"{len(lines)} {self.word('lines')}"
            is_open = " open" if len(lines) <= OPEN_LINES_MAX else ""
            parts.append(
                f'<details class="code"{is_open}><summary><span>{escape(number)}</span>'
                f'<span class="peek">{escape(peek(cell.content)[:100])}</span><span>{about}</span></summary>'
                f"<pre><code>{colour_code(cell.content, cell.language)}</code></pre></details>"
            )
        parts += [self._output(output) for output in cell.outputs]
        if cell.repairs:
            parts.append(f'<p class="note">{self.word("repaired")}: {escape("; ".join(cell.repairs))}</p>')
        if cell.note:
            parts.append(f'<p class="note">{escape(cell.note)}</p>')
        return f'<section class="cell">{"".join(parts)}</section>'

    def _output(self, output: Output) -> str:
        found = choose_part(output)
        if found is None:
            return ""
        if found.kind == "picture":
            alt = escape(output.content.strip("<>")[:100])
            return f'<div class="output picture"><img alt="{alt}" src="{escape(found.content)}"></div>'
        if found.kind == "html":
            from detent.kit.html_sanitiser import clean_html  # noqa: PLC0415  # needed for pages only

            if clean := clean_html(found.content):
                return f'<div class="output wide">{align_columns(clean)}</div>'
            found = Shown("text", join_part(output.data.get("text/plain")) or output.content)
        if found.kind == "markdown":
            return f'<div class="output text">{_markdown().render(found.content)}</div>'
        return f'<div class="output {found.kind}"><pre>{escape(found.content.strip(chr(10)))}</pre></div>'

    def header(self, cells: Iterable[Cell]) -> str:
        notebook, given = self.notebook, self.notebook.metadata
        listed = list(cells)
        facts = []
        if isinstance(given.get("achieved"), bool) and has_bar(given):
            name = "met" if given["achieved"] else "missed"
            facts.append(f'<li class="{name}">{self.word(name)}</li>')
        facts += [
            f"<li>{escape(str(given[name]))}</li>" for name in ("planner", "run_id", "saved_at") if given.get(name)
        ]
        facts.append(f"<li>{len(listed)} {self.word('cells')}</li>")
        spent = sum(cell.duration_s for cell in listed)
        if spent >= 0.1:
            facts.append(f"<li>{spent:,.1f} {self.word('seconds')}</li>")
        goal = str(given.get("goal") or "")
        said = (
            f'<p class="goal">{self.word("goal")}{"：" if self.is_chinese else ": "}{escape(goal)}</p>' if goal else ""
        )
        why = f'<p class="reason">{escape(str(given["reason"]))}</p>' if given.get("reason") else ""
        name, listing = escape(notebook.title or "Notebook"), "".join(facts)
        return f'<header><h1>{name}</h1>{said}<ul class="facts">{listing}</ul>{why}</header>'

    def contents(self) -> str:
        names = {1: "chapter", 2: "chapter", 3: "section"}
        rows = [
            f'<li class="{names[one.level]}"><a href="#{escape(one.anchor)}">{escape(one.text)}</a></li>'
            for one in self.headings
            if one.level in names
        ]
        if not rows:
            return "<nav></nav>"
        return f"<nav><h2>{self.word('contents')}</h2><ol>{''.join(rows)}</ol></nav>"


def html(notebook: Notebook, *, thinking: bool = True) -> str:
    """The text of an .html file."""
    page = _Page(notebook)
    cells = [cell for cell in order_cells(notebook) if thinking or cell.type != "thinking"]
    first = cells[0] if cells else None
    is_doubled = first is not None and first.type == "markdown" and first.content.strip() == f"# {notebook.title}"
    body = "\n".join(page.cell(cell) for cell in (cells[1:] if is_doubled else cells))
    language = "zh-CN" if page.is_chinese else "en"
    text = (
        f'<!doctype html>\n<html lang="{language}">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{escape(notebook.title or 'Notebook')}</title>\n<style>\n{_style()}</style>\n</head>\n<body>\n"
        f'<div class="sheet">\n{page.header(cells)}\n{page.contents()}\n<main>\n{body}\n</main>\n'
        f"<footer>{page.word('made')}</footer>\n</div>\n</body>\n</html>\n"
    )
    return scrub(text)


@cache
def _style() -> str:
    return (files("detent.agents.notebook.export") / "page.css").read_text(encoding="utf-8")


@cache
def _markdown() -> "MarkdownIt":
    """CommonMark with tables; HTML in it is text, and a picture or a page from outside is only named."""
    from markdown_it import MarkdownIt  # noqa: PLC0415  # needed for pages only
    from markdown_it.token import Token  # noqa: PLC0415

    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])

    def picture(_renderer: Any, tokens: list[Token], at: int, _options: Any, _env: Any) -> str:
        token = tokens[at]
        source, name = str(token.attrGet("src") or ""), escape(token.content)
        if re.fullmatch(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=%]+", source):
            return f'<img alt="{name}" src="{escape(source)}">'
        return f"<code>{name or 'picture'}</code>"

    def link(_renderer: Any, tokens: list[Token], at: int, _options: Any, env: Any) -> str:
        address = str(tokens[at].attrGet("href") or "")
        is_inner = address.startswith("#")
        env.setdefault("addresses", []).append("" if is_inner else address)
        return f'<a href="{escape(address)}">' if is_inner else '<span class="link">'

    def link_end(_renderer: Any, tokens: list[Token], at: int, _options: Any, env: Any) -> str:
        address = env["addresses"].pop()
        if not address:
            return "</a>"
        is_told = at > 0 and tokens[at - 1].content == address
        return "</span>" if is_told else f"</span> <small>({escape(address)})</small>"

    parser.add_render_rule("image", picture)
    parser.add_render_rule("link_open", link)
    parser.add_render_rule("link_close", link_end)
    return parser


def colour_code(code: str, language: str) -> str:
    """Code as HTML with its kinds of words marked; plain where the language is not known."""
    from pygments import lex  # type: ignore[import-untyped] # noqa: PLC0415
    from pygments.lexers import get_lexer_by_name  # type: ignore[import-untyped] # noqa: PLC0415
    from pygments.util import ClassNotFound  # type: ignore[import-untyped] # noqa: PLC0415

    code = code.strip("\n")
    if len(code) > CODE_MAX:
        return escape(code)
    try:
        lexer = get_lexer_by_name(language or "python", stripnl=False, ensurenl=False)
    except ClassNotFound:
        return escape(code)
    parts = []
    for kind, text in lex(code, lexer):
        name = str(kind).removeprefix("Token.")
        mark = next((short for prefix, short in KINDS.items() if name.startswith(prefix)), "")
        parts.append(f'<span class="{mark}">{escape(text)}</span>' if mark and text.strip() else escape(text))
    return "".join(parts)
