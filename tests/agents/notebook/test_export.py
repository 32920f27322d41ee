"""Files made from notebooks: valid for Jupyter, one harmless page for a browser, Markdown; for any content."""

import base64
import json
import re
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import nbformat
import pytest
from hypothesis import given
from playwright.sync_api import sync_playwright

from detent.agents.notebook.cell import Cell, Metadata, Notebook, Output
from detent.agents.notebook.export import FORMS, html, ipynb, markdown, render
from detent.agents.notebook.export.table_column import align_columns
from detent.agents.notebook.script_planner import read_script
from detent.errors import Refused
from detent.kit.html_sanitiser import clean_html
from tests.web.kit import CHROMIUM, missing

PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20)).decode()
SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><script>parent.document.title="owned"</script></svg>'
)
EVIL = (
    "<table><tr><td onclick=\"document.title='owned'\">cell</td></tr></table>"
    "<script>document.title='owned'</script><img src=http://127.0.0.1:9/a onerror=\"document.title='owned'\">"
    "<iframe src=http://127.0.0.1:9/b></iframe><style>body{background:url(http://127.0.0.1:9/c)}</style>"
)
NOTEBOOK = Notebook(
    notebook_id="0" * 32,
    title="A <b>title</b>",
    metadata={
        "goal": "RMSE < 3 & more",
        "achieved": False,
        "planner": "builtin:analysis",
        "run_id": "r1",
        "reason": "RMSE < 3: not met, measured 4",
    },
    cells=(
        Cell("c1", content="## Load", metadata=Metadata(is_chapter=True, chapter_id="chapter-1", chapter_number=1)),
        Cell("s1", content="### Read\n\nsee", metadata=Metadata(is_section=True, section_id="section-1")),
        Cell("t1", type="thinking", content="Hm, <i>why</i>?", agent_name="planner", text_array=("first", "second")),
        Cell(
            "k1",
            type="code",
            content="x = 1  # <one>\nprint('```')",
            execution_count=3,
            repeat="once",
            ran="ok",
            duration_s=1.5,
            repairs=("added the missing import: import json",),
            outputs=(
                Output("stream", text="\x1b[31mred\x1b[0m <out>\n", name="stdout"),
                Output("stream", text="careful\n", name="stderr"),
                Output("display_data", data={"image/png": PIXEL, "text/plain": "<Figure>"}),
                Output("display_data", data={"image/svg+xml": SVG, "text/plain": "svg"}),
                Output("display_data", data={"text/html": EVIL, "text/plain": "plain table"}),
                Output("execute_result", data={"text/plain": "42", "application/json": {"a": [1]}}, execution_count=3),
                Output("display_data", data={"text/markdown": "**bold** <script>1</script>"}),
                Output("error", ename="E", evalue="v", traceback=("\x1b[0;31mTraceback\x1b[0m", "E: v")),
            ),
        ),
        Cell(
            "m1",
            content="a [link](javascript:alert(1)) ![p](http://127.0.0.1:9/d.png) <script>x</script>",
        ),
        Cell("m2", content="| a |\n|---|\n| 1 |"),
        Cell("o1", type="outcome", content="an outcome"),
        Cell("e1", type="error", content="an error"),
        Cell("h1", type="Hybrid", content="mixed"),
    ),
)


def opened(text: str) -> Any:
    """A notebook as Jupyter's own library reads it, and finds it valid."""
    book = nbformat.reads(text, as_version=4)  # type: ignore[no-untyped-call]
    nbformat.validate(book)
    return book


def test_the_ipynb_is_valid_and_says_everything() -> None:
    book = opened(ipynb(NOTEBOOK))
    kinds = [(cell.id, cell.cell_type) for cell in book.cells]
    assert kinds[:4] == [("title", "markdown"), ("c1", "markdown"), ("s1", "markdown"), ("t1", "markdown")]
    code = book.cells[4]
    assert (code.execution_count, code.metadata.tags, code.metadata.detent.repeat) == (3, ["once"], "once")
    assert [one.output_type for one in code.outputs].count("display_data") == 4
    assert code.outputs[5].data["application/json"] == {"a": [1]}
    assert book.metadata.detent.goal == "RMSE < 3 & more"
    assert book.metadata.kernelspec.name == "python3"
    hidden = opened(render(NOTEBOOK, "ipynb", thinking=False))
    assert "t1" not in {cell.id for cell in hidden.cells}
    assert book.cells[3].metadata.tags == ["thinking"]


def test_an_exported_notebook_is_a_script_again(tmp_path: Path) -> None:
    path = tmp_path / "again.ipynb"
    path.write_text(ipynb(NOTEBOOK), encoding="utf-8")
    actions = read_script(path)["stages"][0]["steps"][0]["actions"]
    (cell,) = [action for action in actions if action.get("store_id") == "k1"]
    assert (cell["content"], cell["repeat"]) == (NOTEBOOK.cells[3].content, "once")


TEXTS = st.text(st.characters(), max_size=30)  # lone surrogates too
OUTPUTS = st.builds(
    Output,
    output_type=st.sampled_from(["stream", "display_data", "execute_result", "error", "strange"]),
    content=TEXTS,
    text=TEXTS,
    name=st.sampled_from(["stdout", "stderr", "", "other"]),
    data=st.dictionaries(
        st.sampled_from(["text/plain", "text/html", "image/png", "image/svg+xml", "application/json", "text/markdown"]),
        st.one_of(TEXTS, st.lists(TEXTS, max_size=2), st.integers(), st.just({"a": 1})),
        max_size=3,
    ),
    ename=TEXTS,
    evalue=TEXTS,
    traceback=st.lists(TEXTS, max_size=2).map(tuple),
    execution_count=st.none() | st.integers(0, 9),
)
CELLS = st.builds(
    Cell,
    id=st.text(st.characters(), min_size=0, max_size=70),
    type=st.sampled_from(["markdown", "code", "thinking", "Hybrid", "outcome", "error"]),
    content=TEXTS,
    outputs=st.lists(OUTPUTS, max_size=3).map(tuple),
    language=st.sampled_from(["python", "no such language", ""]),
    repairs=st.lists(TEXTS, max_size=1).map(tuple),
    note=TEXTS,
)


@given(st.builds(Notebook, title=TEXTS, cells=st.lists(CELLS, max_size=4).map(tuple)), st.booleans())
def test_any_notebook_makes_valid_files(notebook: Notebook, thinking: bool) -> None:
    opened(ipynb(notebook, thinking=thinking))
    for form in FORMS:
        render(notebook, form, thinking=thinking).encode("utf-8")
    assert "<script" not in html(notebook)


def test_numbers_stand_to_the_right_and_words_to_the_left() -> None:
    head = "<tr><th></th><th>town</th><th>price</th><th>share</th><th>since</th></tr>"
    rows = (
        "<tr><th rowspan='2'>a</th><td>Oslo</td><td>1,200.5</td><td>12 %</td><td>2024-01-31</td></tr>"
        "<tr><td>Rome</td><td>-3e5</td><td>NaN</td><td>2025-02-01</td></tr>"
    )
    shown = align_columns(clean_html(f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>"))
    right = re.findall(r'<t[hd][^>]* class="number">([^<]*)<', shown)
    assert right == ["price", "share", "1,200.5", "12 %", "-3e5", "NaN"]
    long = "<table><tr><td>" + "1" * 100_000 + "x</td></tr></table>"
    assert align_columns(clean_html(long)).count("<td>") == 1


def test_html_that_is_too_much_to_read_gives_way_to_the_plain_text() -> None:
    output = Output("display_data", data={"text/html": "<div>" * 5000, "text/plain": "a figure"})
    assert "a figure" in html(Notebook(cells=(Cell("a", "code", "x", outputs=(output,)),)))


def test_markdown_shows_code_outputs_and_pictures() -> None:
    text = markdown(NOTEBOOK)
    assert text.startswith("# A <b>title</b>\n\n## Load")
    assert "````python\nx = 1  # <one>\nprint('```')\n````" in text
    assert "**Output:**" in text
    assert f"![output](data:image/png;base64,{PIXEL})" in text
    assert "```text\nred <out>\n```" in text
    assert "```text\nplain table\n```" in text
    assert "> Hm" in text
    assert "Hm" not in markdown(NOTEBOOK, thinking=False)


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(Refused, match="there is no form `pdf`; there are ipynb, html, markdown"):
        render(NOTEBOOK, "pdf")


@pytest.mark.skipif(bool(missing()), reason=missing())
def test_the_page_runs_nothing_loads_nothing_and_shows_everything(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(html(NOTEBOOK), encoding="utf-8")
    asked: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 390, "height": 800})
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        found: dict[str, Any] = page.evaluate(
            """() => ({
                title: document.title, text: document.body.innerText, wide: document.documentElement.scrollWidth,
                links: [...document.querySelectorAll('nav a')].map(a => [a.hash, a.textContent]),
                targets: [...document.querySelectorAll('nav a')].every(a => document.querySelector(a.hash)),
                scripts: document.querySelectorAll('script, iframe, object, link, [onclick], [onerror]').length,
                hrefs: [...document.querySelectorAll('a')].map(a => a.href).filter(h => h.startsWith('javascript')),
            })"""
        )
        browser.close()
    assert found["title"] == "A <b>title</b>"  # nobody changed it
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert (found["scripts"], found["hrefs"], found["targets"]) == (0, [], True)
    assert found["links"] == [["#chapter-1", "Load"], ["#section-1", "Read"]]
    assert found["wide"] == 390
    for shown in (
        "RMSE < 3 & more",
        "Goal not met",
        "cell",
        "42",
        "E: v",
        "careful",
        "Thinking · planner",
        "an outcome",
    ):
        assert shown in found["text"], shown
    assert "Hm" not in html(NOTEBOOK, thinking=False)


def test_the_page_is_the_same_every_time() -> None:
    assert html(NOTEBOOK) == html(NOTEBOOK)
    assert json.loads(ipynb(NOTEBOOK)) == json.loads(ipynb(NOTEBOOK))


def test_met_or_missed_is_said_only_where_there_was_something_to_meet() -> None:
    given: dict[str, Any] = {"achieved": True, "planner": "builtin:analysis"}
    for goal, is_said in (("predict y, R² > 0.5", True), ("give me an overview", False), ("", False)):
        page = html(Notebook(title="T", metadata={**given, "goal": goal}))
        assert ("Goal met" in page) is is_said, goal
    assert "Goal met" in html(Notebook(title="T", metadata={**given, "planner": "http", "goal": "do it"}))


def test_an_address_in_a_text_is_no_link_and_long_cells_of_ours_are_folded() -> None:
    text = "see [the page](https://example.org/a?b=1&c) or <https://example.org> or [below](#chapter-1)"
    page = html(Notebook(title="T", cells=(Cell("a", "markdown", text),)))
    assert re.findall(r"<a [^>]*>", page) == ['<a href="#chapter-1">']
    assert '<span class="link">the page</span> <small>(https://example.org/a?b=1&amp;c)</small>' in page
    assert '<span class="link">https://example.org</span> or' in page
    cells = (Cell("a", "code", "x = 1"), Cell("b", "code", "x = 1\n" * 40))
    for planner, folded in (("builtin:analysis", [False, True]), ("http", [False, False])):
        made = json.loads(ipynb(Notebook(title="T", cells=cells, metadata={"planner": planner})))
        found = [cell["metadata"].get("jupyter", {}).get("source_hidden", False) for cell in made["cells"][1:]]
        assert found == folded
