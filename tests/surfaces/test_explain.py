"""A definition told in sentences, in both languages."""

from pathlib import Path

from tests.surfaces.command import Detent

FLOW = """
name: refund
group: {key: "{{ context.order }}"}
triggers: {night: {schedule: "0 2 * * *"}}
input: {order: integer, note: {type: string, default: none}}
states:
  ask:
    type: initial
    actions:
      - id: pay
        tool: http
        effect: irreversible
        approval: {question: "Pay it back?", approvers: [ann, bob], quorum: 2}
        key: "{{ context.order }}"
        params: {url: "https://pay.example", method: POST}
      - id: each
        for_each: "{{ context.files }}"
        concurrency: 3
        tolerate: 2
        actions: [{id: look, tool: shell, effect: pure, params: {argv: [./look, "{{ item }}"]}}]
  later: {type: wait, for: [paid], timeout: 2h}
  done: {type: final}
  gone: {type: error}
transitions:
  - {from: ask, to: later}
  - {from: ask, to: gone, on: error}
  - {from: later, to: done}
"""


def test_a_file_is_told_in_sentences(tmp_path: Path) -> None:
    detent = Detent(tmp_path)
    (tmp_path / "refund.yaml").write_text(FLOW)
    said = detent("explain", "refund.yaml").out
    for sentence in (
        "it starts by itself at 0 2 * * *",
        "It must be given order.",
        "It may be given note.",
        "at most 1 go on at the same time",
        "It begins in `ask`.",
        "If it fails, it goes to gone.",
        "it calls http: POST https://pay.example",
        "once for each {{ context.order }}",
        "for every item of {{ context.files }}: (at most 3 at the same time; 2 may fail)",
        "it calls shell: ./look {{ item }}",
        "this cannot be taken back; only after somebody has said yes; asked are ann, bob; 2 of them must agree",
        "it waits for paid; at most 2 h",
        "`gone` is an end: it has failed.",
        "What cannot be taken back: pay.",
    ):
        assert sentence in said, said
    chinese = detent("explain", "refund.yaml", DETENT_LANG="zh").out
    assert "无法撤回的有：pay。" in chinese
    assert " is " not in chinese
    assert len(detent("explain", "refund.yaml", "--json").json["sentences"]) == len(
        [line for line in said.split("\n") if line]
    )


TOOLS = """
tools:
  book: {shell: [./book, "{{ params.what }}"], effect: irreversible, key: "{{ params.what }}"}
  score: {python: "scoring:score", effect: pure}
states:
  a:
    type: initial
    actions:
      - {id: rate, tool: score}
      - {id: hotel, tool: book, params: {what: hotel}, undo: {tool: unbook, effect: irreversible}}
      - {id: tell, tool: book, params: {what: all}}
  z: {type: final}
transitions: [{from: a, to: z}]
"""


def test_tools_of_the_file_have_their_names_and_what_takes_them_back(tmp_path: Path) -> None:
    detent = Detent(tmp_path)
    (tmp_path / "trip.yaml").write_text(TOOLS)
    said = detent("explain", "trip.yaml").out
    for sentence in (
        "`rate`: it calls score: scoring:score\n",
        "`hotel`: it calls book: ./book hotel (`undo_hotel` takes it back if the run ends otherwise than well",
        "`tell`: it calls book: ./book all (this cannot be taken back",
        "What cannot be taken back: tell, undo_hotel.",
        "Nobody is asked before hotel, tell, undo_hotel",
    ):
        assert sentence in said, said
    calls = "{book: 2, score: 1, unbook: null, shell: null}"
    (tmp_path / "trip.test.yaml").write_text(f"- {{id: c, workflow: trip.yaml, expect: {{calls: {calls}}}}}")
    assert "1 passed" in detent("test", "trip.test.yaml").out


def test_the_last_run_is_none_of_the_programs_own(tmp_path: Path) -> None:
    """A trigger, a group and a secret that is missing: nothing of anybody's has begun."""
    detent = Detent(tmp_path)
    (tmp_path / "refund.yaml").write_text(FLOW.replace("order: integer", "token: secret"))
    detent("trigger", "add", "refund.yaml")
    assert "the secret `token` is missing" in detent("trigger", "fire", "night", code=None).err
    assert "there are no runs yet" in detent("show", "last", code=2).err


ASKS = """
name: asks
states:
  a: {type: initial, actions: [{id: ok, tool: ask, approval: {question: "How many?", form: {n: integer}, expires: 2d}}]}
  z: {type: final}
transitions: [{from: a, to: z}]
"""


def test_a_question_is_told_with_its_form_and_how_long_it_stands(tmp_path: Path) -> None:
    detent = Detent(tmp_path)
    (tmp_path / "asks.yaml").write_text(ASKS)
    assert "it asks: How many? (the answer brings n; the question stands for 2 d)" in detent("explain", "asks.yaml").out
    assert "回答须填写 n; 提问有效期 2 天" in detent("explain", "asks.yaml", LANG="zh_CN.UTF-8").out
