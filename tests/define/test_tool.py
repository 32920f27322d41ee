"""Tools of a file: names for programs, functions, requests and MCP tools, resolved when the file is loaded."""

from pathlib import Path

import pytest

from detent.define.workflow import load_workflow, read_workflow
from detent.errors import DefinitionError

FLOW = """
tools:
  check:
    shell: [./check, "{{ params.data }}", "n={{ params.n }}"]
    effect: pure
    timeout: 20s
    input: {data: string, n: {type: integer, default: 3}}
  pay: {http: {method: POST, url: "https://pay/{{ params.order }}"}, effect: irreversible, key: "{{ context.order }}"}
  score: {python: "scoring:score", sandbox: strict}
  find: {mcp: docs.search}
states:
  a: {type: initial, actions: [CALLS]}
  z: {type: final}
transitions: [{from: a, to: z}]
"""


def calls(text: str) -> list[tuple[str, object]]:
    actions = read_workflow(FLOW.replace("CALLS", text)).machine.work["a"]
    return [(action.effect, action.input) for action in actions]


def test_a_name_is_the_call_it_stands_for() -> None:
    made = calls(
        '{id: c, tool: check, params: {data: "{{ context.x }}"}},'
        '{id: p, tool: pay, params: {order: "{{ context.order }}", sum: 7}},'
        "{id: s, tool: score, params: {n: 1}},"
        "{id: f, tool: find, params: {q: x}}"
    )
    assert made == [
        (
            "shell",
            {
                "argv": ["./check", "{{ context.x }}", "n=3"],
                "is_json": True,
                "stdin_json": {"data": "{{ context.x }}", "n": 3},
            },
        ),
        (
            "http",
            {
                "json": {"order": "{{ context.order }}", "sum": 7},
                "method": "POST",
                "url": "https://pay/{{ context.order }}",
            },
        ),
        ("python", {"args": {"n": 1}, "function": "scoring:score", "sandbox": "strict"}),
        ("docs.search", {"q": "x"}),
    ]


def test_the_care_of_a_tool_holds_unless_the_action_says_otherwise() -> None:
    text = FLOW.replace(
        "CALLS", "{id: c, tool: check, params: {data: x}}, {id: d, tool: check, timeout: 5s, params: {data: x}}"
    )
    first, second = read_workflow(text).machine.work["a"]
    assert (first.kind, first.timeout_s, second.timeout_s) == ("pure", 20.0, 5.0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{id: c, tool: check}", "needs `data`"),
        ("{id: c, tool: check, params: {data: 7}}", "params.data must be string"),
        ('{id: c, tool: check, params: "all {{ context.x }}"}', "must be a mapping"),
    ],
)
def test_a_call_that_does_not_fit_is_refused(text: str, said: str) -> None:
    with pytest.raises(DefinitionError, match=said):
        calls(text)


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ("{effect: pure}", "exactly one of"),
        ("{shell: echo}", "list"),
        ("{shell: [a], http: {url: x}}", "exactly one of"),
        ("{http: {method: GET}}", "`url`"),
        ("{python: scoring}", "write it as `module:name`"),
        ("{python: 'a:b', ok_exit: 1}", "is for `shell`"),
        ("{shell: [a], effekt: pure}", "did you mean `effect`?"),
        ("{shell: ['{{ params.n + 1 }}']}", "stands alone"),
    ],
)
def test_a_tool_that_is_none_is_refused(tool: str, said: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        read_workflow(
            f"tools: {{t: {tool}}}\n"
            "states: {a: {type: initial, actions: [{id: x, tool: t}]}, z: {type: final}}\n"
            "transitions: [{from: a, to: z}]"
        )
    assert said in str(caught.value)


def test_tools_of_the_folder_are_shared_and_the_files_own_come_first(tmp_path: Path) -> None:
    (tmp_path / "detent.tools.yaml").write_text("one: {shell: [shared]}\ntwo: {shell: [shared]}\n")
    flow = tmp_path / "flow.yaml"
    flow.write_text(
        "tools: {two: {shell: [own]}}\n"
        "states: {a: {type: initial, actions: [{id: x, tool: one}, {id: y, tool: two}]}, z: {type: final}}\n"
        "transitions: [{from: a, to: z}]\n"
    )
    actions = load_workflow(flow, known_effects=["shell"]).machine.work["a"]
    assert [action.input["argv"] for action in actions] == [["shared"], ["own"]]
    stubbed = load_workflow(flow, stubs=["one"]).machine.work["a"]
    assert [action.effect for action in stubbed] == ["one", "shell"]
    (tmp_path / "detent.tools.yaml").write_text("one: {shell: 7}\n")
    with pytest.raises(DefinitionError, match=r"detent.tools.yaml:1:14"):
        load_workflow(flow)


PAYING = """
tools:
  pay: {shell: [pay], effect: irreversible, key: "%s", approval: {question: "Pay {{ params.order }}?"}}
states:
  a: {type: initial, actions: [{id: p, tool: pay, params: {order: "{{ context.number }}"}}]}
  z: {type: final}
transitions: [{from: a, to: z}]
"""


def test_the_key_and_the_question_of_a_tool_read_what_a_call_of_it_is_given() -> None:
    (pay,) = read_workflow(PAYING % "{{ params.order }} of {{ context.day }}").machine.work["a"]
    assert pay.key == "pay {{ context.number }} of {{ context.day }}"
    assert pay.ask is not None
    assert pay.ask.text == "Pay {{ context.number }}?"
    assert read_workflow(PAYING % "{{ params.order }}").machine.work["a"][0].key == "pay {{ context.number }}"


@pytest.mark.parametrize("key", ["{{ params.day }}", "{{ params.order | lower }}", "{{ params }}"])
def test_a_key_that_reads_what_no_call_gives_is_a_problem(key: str) -> None:
    with pytest.raises(DefinitionError, match="params"):
        read_workflow(PAYING % key)


def test_a_program_that_prints_text_says_so() -> None:
    text = """
tools: {%s, have: {shell: [cat]}}
states: {a: {type: initial, actions: [{id: f, tool: find}, {id: h, tool: have}]}, z: {type: final}}
transitions: [{from: a, to: z}]
"""
    find, have = read_workflow(text % "find: {shell: [find], output: text}").machine.work["a"]
    assert ("is_json" in find.input, "is_json" in have.input) == (False, True)
    with pytest.raises(DefinitionError, match="`output` is for `shell`"):
        read_workflow(text % "find: {python: 'a:b', output: text}")


def test_the_key_of_a_tool_is_its_own() -> None:
    both = """
tools:
  charge: {shell: [charge], effect: irreversible, key: "{{ context.order }}"}
  ship: {shell: [ship], effect: irreversible, key: "{{ context.order }}"}
states:
  a: {type: initial, actions: [{id: c, tool: charge}, {id: s, tool: ship}, {id: x, tool: ship, key: other}]}
  z: {type: final}
transitions: [{from: a, to: z}]
"""
    keys = [action.key for action in read_workflow(both).machine.work["a"]]
    assert keys == ["charge {{ context.order }}", "ship {{ context.order }}", "ship other"]


def test_one_expression_may_give_all_params_of_a_tool() -> None:
    made = read_workflow(
        "tools:\n"
        "  cat: {shell: [cat, '{{ params.name }}'], key: 'k {{ params.name }}'}\n"
        "  score: {python: 'm:f'}\n"
        "  post: {http: {method: POST, url: 'http://x/{{ params.name }}'}}\n"
        "states:\n"
        "  a:\n"
        "    type: initial\n"
        "    actions:\n"
        "      - {id: one, tool: cat, params: '{{ context }}'}\n"
        "      - {id: two, tool: score, params: '{{ context.doc }}'}\n"
        "      - {id: three, tool: post, params: '{{ result.two }}'}\n"
        "  z: {type: final}\n"
        "transitions: [{from: a, to: z}]\n",
        "m",
    )
    one, two, three = made.machine.work["a"]
    assert one.input["stdin_json"] == "{{ context }}"
    assert one.input["argv"] == ["cat", "{{ (context).name }}"]
    assert one.key == "cat k {{ (context).name }}"
    assert two.input == {"function": "m:f", "args": "{{ context.doc }}"}
    assert (three.input["url"], three.input["json"]) == ("http://x/{{ (result.two).name }}", "{{ result.two }}")
