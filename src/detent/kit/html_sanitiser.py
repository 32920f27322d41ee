"""HTML that a cell has put out, made harmless by nh3: tables, text and pictures stay, what acts or loads goes.

To read HTML takes a time that can grow with the square of its tags when they are nested without end. So it is read
whatever its size only where each tag is plain and closed in its place, which is how programs write tables; other HTML
must be small. What is neither is not shown.
"""

import re
from copy import deepcopy
from typing import Any

import msgspec
import nh3

HTML = "text/html"
IN_JSON = msgspec.json.encode(HTML)
KEPT = {
    "table", "thead", "tbody", "tfoot", "tr", "th", "td", "caption", "colgroup", "col", "p", "div", "span",
    "br", "hr", "b", "strong", "i", "em", "u", "s", "small", "sub", "sup", "code", "pre", "kbd", "samp",
    "ul", "ol", "li", "dl", "dt", "dd", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "details",
    "summary", "mark", "img",
}  # fmt: skip
SILENT = {
    "script", "style", "template", "noscript", "iframe", "object", "embed", "svg", "math", "head", "title",
    "textarea", "select",
}  # fmt: skip
SPANS = {"colspan", "rowspan"}
ATTRIBUTES = {
    "td": {*SPANS, "align"},
    "th": {*SPANS, "align", "scope"},
    "details": {"open"},
    "img": {"src", "alt", "width", "height"},
}
VALUES = {
    "src": r"data:image/(?:png|jpeg|gif|webp|svg\+xml)[;,][\w+/=%;,.:-]*",  # a picture that is there already
    "alt": r"(?s:.*)",
    "align": r"(?i:left|right|center)",
    "scope": r"(?i:row|col|rowgroup|colgroup)",
    "open": r"(?i:open)?",
    **dict.fromkeys((*SPANS, "width", "height"), r"[0-9]{1,4}"),
}


def _fitting(_tag: str, name: str, value: str) -> str | None:
    """The value of an attribute if it is one that can do nothing."""
    return value if name in VALUES and re.fullmatch(VALUES[name], value) else None


CLEANER = nh3.Cleaner(
    tags=KEPT,
    clean_content_tags=SILENT,
    attributes=ATTRIBUTES,
    attribute_filter=_fitting,
    url_schemes={"data"},
    url_relative="deny",
    link_rel=None,
)
EMPTY_PICTURE = re.compile(r'<img(?: (?:alt|width|height)="[^"]*")*>')  # it would have been loaded from elsewhere

SIZE_MAX = 2_000_000  # characters
DEPTH_MAX = 100  # of plain tags
LOOSE_MAX = 20_000  # characters of what is not plain,
LOOSE_TAGS_MAX = 500  # and its tags
VOID = {"area", "br", "col", "hr", "img", "input", "link", "meta", "wbr"}
_PLAIN = re.compile(r'<(/?)([a-zA-Z][a-zA-Z0-9]*)(?:\s+[a-zA-Z][\w:.-]*(?:="[^"<>]*")?)*\s*/?>')


def clean_html(html: str) -> str:
    """Harmless HTML, with every element that it opens closed; nothing where it would take too long to read."""
    if len(html) > SIZE_MAX or not (_is_small(html) or _is_plain(html)):
        return ""
    return EMPTY_PICTURE.sub("", CLEANER.clean(html.encode("utf-8", "replace").decode()))


def harmless(value: Any) -> Any:
    """The value as a page may have it: a copy in which the HTML of every cell's output is clean, if there is any."""
    if IN_JSON not in msgspec.json.encode(value):
        return value
    copy = deepcopy(value)
    inside = [copy]
    while inside:
        one = inside.pop()
        if isinstance(one, list):
            inside += one
        elif isinstance(one, dict):
            inside += one.values()
            bundle = one.get("data")
            if "output_type" in one and isinstance(bundle, dict) and HTML in bundle:
                _clean_bundle(bundle)
    return copy


def _clean_bundle(bundle: dict[str, Any]) -> None:
    part = bundle.pop(HTML)
    html = "".join(map(str, part)) if isinstance(part, list) else str(part)
    clean = clean_html(html)
    if clean:
        bundle[HTML] = clean
    else:
        bundle.setdefault("text/plain", f"HTML of {len(html):,} characters that is not shown here")


def _is_small(html: str) -> bool:
    return len(html) <= LOOSE_MAX and html.count("<") <= LOOSE_TAGS_MAX


def _is_plain(html: str) -> bool:
    """Whether it has nothing but text and plain tags, each closed in its place and not deep."""
    inside: list[str] = []
    at = html.find("<")
    while at >= 0:
        tag = _PLAIN.match(html, at)
        if tag is None:
            return False
        closes, name = tag[1], tag[2].lower()
        if closes and (not inside or inside.pop() != name):
            return False
        if not closes and name not in VOID:
            inside.append(name)
        if len(inside) > DEPTH_MAX:
            return False
        at = html.find("<", tag.end())
    return not inside
