"""Seeing where the time went, in a real browser: bars, two runs side by side, figures."""

from pathlib import Path

from playwright.sync_api import expect

from tests.web.conftest import Look
from tests.web.kit import Stage, shown, until

JOB = """\
name: colours
input: {code: integer}
states:
  paint:
    type: initial
    actions:
      - id: paint
        tool: shell
        effect: pure
        params: {argv: [sh, -c, "printf '\\\\033[31mcrimson\\\\033[0m plain'; exit {{ context.code }}"]}
  sign:
    actions:
      - {id: sign, tool: ask, approval: {question: "Go on?"}}
  done: {type: final}
  broken: {type: error}
transitions:
  - {from: paint, to: sign, condition: "{{ result.paint.success }}"}
  - {from: paint, to: broken, condition: "{{ not result.paint.success }}"}
  - {from: sign, to: done}
"""


def test_the_time_of_a_run_is_seen(stage: Stage, look: Look) -> None:
    Path(stage.folder / "colours.yaml").write_text(JOB)
    good, bad = stage.start("colours.yaml", {"code": 0}), stage.start("colours.yaml", {"code": 3})
    looker = look()
    page = looker.go(f"#/runs/{good}")
    page.get_by_role("tab", name="Waterfall").click()
    row = shown(page.get_by_role("button", name="paint shell"))
    row.click()
    expect(page.locator(".printed .ink-red")).to_have_text("crimson")
    assert "bar=paint" in page.url
    page.get_by_role("group", name="Show").get_by_role("button", name="asked people").click()
    expect(page.get_by_role("button", name="paint shell")).to_have_count(0)
    page.get_by_role("tab", name="Compare").click()
    page.locator(".choices a").filter(has_text=bad[:10]).click()
    expect(shown(page.locator(".pair.first"))).to_contain_text("paint")
    asked = stage.ask(f"/api/runs/{good}")["waiting"][0]
    stage.ask(f"/api/runs/{good}/contracts/{asked['contract_id']}/answer", {"approved": True})
    until(lambda: stage.status(good) == "completed")
    page = looker.go("#/figures?days=1&machine=colours")
    expect(shown(page.locator(".sums-row"))).to_contain_text("Runs started2")
    expect(page.get_by_role("cell", name="sign").first).to_be_visible()
