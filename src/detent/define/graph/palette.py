"""The colours and the style sheet of the SVG.

Text keeps a contrast of 4.5 to its ground, lines and borders one of 3: the AA of WCAG, in both themes.
"""

from typing import Literal, NamedTuple

Theme = Literal["light", "dark", "auto"]

FONT = (
    'ui-sans-serif,system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,"Noto Sans",'
    '"PingFang SC","Microsoft YaHei","Noto Sans CJK SC",sans-serif'
)


class Tone(NamedTuple):
    """A line colour and the ground it stands on."""

    line: str
    fill: str


class Palette(NamedTuple):
    """All colours of one theme."""

    paper: str
    ink: str
    muted: str
    wire: str
    error: str
    visited: str  # the way of a run
    halo: str
    normal: Tone
    seen: Tone  # a state the run has been in
    current: Tone
    ask: Tone
    wait: Tone
    parallel: Tone
    completed: Tone
    failed: Tone
    rejected: Tone
    cancelled: Tone


LIGHT = Palette(
    paper="#ffffff",
    ink="#111827",
    muted="#4b5563",
    wire="#6b7280",
    error="#b91c1c",
    visited="#1d4ed8",
    halo="#93b4fb",
    normal=Tone("#7b8794", "#f8fafc"),
    seen=Tone("#1d4ed8", "#eff5ff"),
    current=Tone("#1d4ed8", "#dbe8ff"),
    ask=Tone("#7c3aed", "#f6f3ff"),
    wait=Tone("#0e7490", "#ecfbff"),
    parallel=Tone("#4a5a70", "#f1f5f9"),
    completed=Tone("#15803d", "#effcf3"),
    failed=Tone("#b91c1c", "#fef3f2"),
    rejected=Tone("#b45309", "#fff9eb"),
    cancelled=Tone("#57534e", "#f5f5f4"),
)

DARK = Palette(
    paper="#0f1319",
    ink="#e8edf3",
    muted="#a3afbd",
    wire="#8793a2",
    error="#ff8f85",
    visited="#74b0ff",
    halo="#2f5f9f",
    normal=Tone("#7a8796", "#1a2029"),
    seen=Tone("#74b0ff", "#16263c"),
    current=Tone("#74b0ff", "#1c3a60"),
    ask=Tone("#bfa2ff", "#221b36"),
    wait=Tone("#5fcfe3", "#0f262d"),
    parallel=Tone("#a3b1c4", "#1b232e"),
    completed=Tone("#62d28c", "#12271b"),
    failed=Tone("#ff8f85", "#2d1818"),
    rejected=Tone("#f2b353", "#2b2110"),
    cancelled=Tone("#b8b2ac", "#21201f"),
)

_KINDS = ("normal", "ask", "wait", "parallel", "completed", "failed", "rejected", "cancelled")

_FORM = """
.S text{font-family:F;dominant-baseline:auto}
.S .name{font-size:14px;font-weight:600;text-anchor:middle}
.S .name.beside{text-anchor:start}
.S .detail,.S .lane{font-size:12px;text-anchor:middle}
.S .label{font-size:12px;text-anchor:middle}
.S .box{stroke-width:1.5}
.S .inner{fill:none;stroke-width:1.5}
.S .any .box{stroke-dasharray:5 4}
.S .glyph{fill:none;stroke-width:1.6;stroke-linecap:round;stroke-linejoin:round}
.S .wire{fill:none;stroke-width:1.5;stroke-linejoin:round}
.S .edge.error .wire{stroke-dasharray:6 4}
.S .edge.visited .wire{stroke-width:3}
.S .edge.error.visited .wire{stroke-dasharray:9 4}
.S .label.visited{font-weight:600}
.S .node.visited .box{stroke-width:2}
.S .node.current .box{stroke-width:3}
"""


def style(theme: Theme) -> str:
    """The style sheet; `auto` follows the reader's colour scheme, and is light where there is none."""
    form = _FORM.replace(".S", f".{scope(theme)}").replace("F;", f"{FONT};")
    if theme != "auto":
        return form + _colours(DARK if theme == "dark" else LIGHT, theme)
    return f"{form}{_colours(LIGHT, theme)}@media (prefers-color-scheme:dark){{\n{_colours(DARK, theme)}}}\n"


def scope(theme: Theme) -> str:
    """The class all rules stand under, so that pictures of several themes can share a page."""
    return f"detent-{theme}"


def _colours(palette: Palette, theme: Theme) -> str:
    rules = [
        (".paper", f"fill:{palette.paper}"),
        (".name", f"fill:{palette.ink}"),
        (".detail,.lane", f"fill:{palette.muted}"),
        (".dot", f"fill:{palette.ink}"),
        (".halo", f"fill:{palette.halo}"),
        (".ground", f"fill:{palette.paper}"),
        (".wire", f"stroke:{palette.wire}"),
        (".tip", f"fill:{palette.wire}"),
        (".label", f"fill:{palette.ink}"),
        (".label.settled,.label.retry", f"fill:{palette.muted}"),
        (".error .wire", f"stroke:{palette.error}"),
        (".error .tip,.label.error", f"fill:{palette.error}"),
        (".visited .wire", f"stroke:{palette.visited}"),
        (".visited .tip,.label.visited", f"fill:{palette.visited}"),
    ]
    for kind in ("any", *_KINDS):
        tone: Tone = getattr(palette, "normal" if kind == "any" else kind)
        rules += [
            (f".{kind} .box", f"fill:{tone.fill};stroke:{tone.line}"),
            (f".{kind} .inner,.{kind} .glyph,.{kind} .rule", f"stroke:{tone.line}"),
            (f".{kind} .bar", f"fill:{tone.line}"),
        ]
    for kind in ("normal", "any", "ask", "wait", "parallel"):
        rules.append((f".{kind}.visited .box", f"fill:{palette.seen.fill};stroke:{palette.seen.line}"))
        rules.append((f".{kind}.current .box", f"fill:{palette.current.fill};stroke:{palette.current.line}"))
    lines = []
    for selectors, body in rules:
        scoped = ",".join(f".{scope(theme)} {selector}" for selector in selectors.split(","))
        lines.append(f"{scoped}{{{body}}}\n")
    return "".join(lines)
