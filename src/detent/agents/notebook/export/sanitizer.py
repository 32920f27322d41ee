"""HTML that a cell has put out, made harmless: tables and text stay, everything that acts or loads goes.

An allow-list: an element that is not on it loses its tags and keeps its text, those of SILENT lose their text too.
Attributes are dropped but for the few that shape a table.
"""

from html import escape
from html.parser import HTMLParser

KEPT = frozenset({
    "table", "thead", "tbody", "tfoot", "tr", "th", "td", "caption", "colgroup", "col", "p", "div", "span",
    "br", "hr", "b", "strong", "i", "em", "u", "s", "small", "sub", "sup", "code", "pre", "kbd", "samp",
    "ul", "ol", "li", "dl", "dt", "dd", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "details",
    "summary", "mark",
})  # fmt: skip
SILENT = frozenset({
    "script", "style", "template", "noscript", "iframe", "object", "embed", "svg", "math", "head", "title",
    "textarea", "select",
})  # fmt: skip
VOID = frozenset({"br", "hr", "col"})
ATTRIBUTES = frozenset({"colspan", "rowspan", "scope", "open"})
DEPTH_MAX = 200
SIZE_MAX = 2_000_000  # characters


class _Cleaner(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.open: list[str] = []
        self.silent: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in SILENT:
            self.silent.append(tag)
        if self.silent or tag not in KEPT or len(self.open) >= DEPTH_MAX:
            return
        kept = "".join(f' {name}="{escape(value or "")}"' for name, value in attrs if _is_fit(name, value))
        self.parts.append(f"<{tag}{kept}>")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in VOID:
            self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if self.silent:
            if tag in self.silent:
                del self.silent[self.silent.index(tag) :]
            return
        if tag in self.open:
            while self.open:
                closed = self.open.pop()
                self.parts.append(f"</{closed}>")
                if closed == tag:
                    break

    def handle_data(self, data: str) -> None:
        if not self.silent:
            self.parts.append(escape(data, quote=False))


def _is_fit(name: str, value: str | None) -> bool:
    if name in ("colspan", "rowspan"):
        return (value or "").isascii() and (value or "").isdigit() and len(value or "") <= 3
    return name in ATTRIBUTES and (value or "").isascii() and (value or "x").isalnum()


def sanitized(html: str) -> str:
    """Harmless HTML, with every element that it opens closed."""
    cleaner = _Cleaner()
    cleaner.feed(html[:SIZE_MAX])
    cleaner.close()
    cleaner.parts += [f"</{tag}>" for tag in reversed(cleaner.open)]
    return "".join(cleaner.parts)
