"""Seeing where the time went, in a real browser: bars, two runs side by side, figures."""

from pathlib import Path

from playwright.sync_api import expect

from tests.surfaces.server.workflows import SIGN, write_large, write_loop
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
    page.locator(".bar-row", has=row).locator(".track").click()  # the bar opens what its name opens
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


def test_two_hundred_states_are_found_in_their_groups(stage: Stage, look: Look) -> None:
    (stage.folder / "large.yaml").write_text(write_large([f"part{n}_step" for n in range(20)], 10, [(199, 0)]))
    page = look().go("#/definitions/large.yaml")
    boxes = page.locator("svg.machine .node")
    expect(boxes).to_have_count(21)  # twenty groups and the end
    page.get_by_label("Find a state").fill("part7_step3")
    page.get_by_label("Find a state").press("Enter")
    expect(page.locator("svg.machine .found")).to_have_attribute("data-state", "part7_step3")
    expect(page.locator("svg.machine .found")).to_be_in_viewport()
    expect(boxes).to_have_count(30)
    page.locator("summary").filter(has_text="20 groups of states, 1 unfolded").click()
    page.get_by_role("group", name="Groups of states").get_by_role("button", name="part7…").click()
    expect(boxes).to_have_count(21)
    page.get_by_role("button", name="Unfold all").click()
    expect(boxes).to_have_count(201)


def test_a_loop_has_a_lane_for_each_item(stage: Stage, look: Look) -> None:
    (stage.folder / "packing.yaml").write_text(write_loop(SIGN, concurrency=2))
    run_id = stage.start("packing.yaml", {"items": ["cups", "plates", "forks"]})
    page = look().go(f"#/runs/{run_id}")
    lanes = page.locator(".lane-rows .lane")
    expect(lanes).to_have_count(3)
    expect(lanes.nth(2)).to_contain_text("forks")
    expect(lanes.nth(2)).to_have_class("lane pending")
    for question in stage.ask(f"/api/runs/{run_id}")["waiting"][:1]:
        stage.ask(f"/api/runs/{run_id}/contracts/{question['contract_id']}/answer", {"approved": True})
    expect(lanes.nth(0)).to_have_class("lane completed")
    expect(lanes.nth(2)).to_have_class("lane waiting")
    expect(page.locator("svg.machine .lit .part.completed")).to_have_count(1)
    page.get_by_role("group", name="Show").get_by_role("button", name="waiting 2").click()
    expect(lanes).to_have_count(2)
