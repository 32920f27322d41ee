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
