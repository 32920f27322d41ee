"""`steps:` files through the command line and in tool mode: what each sentence of the rules promises."""

import json
import os
import signal
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.surfaces.command import SCRIPT, Detent, Done

OBJECT = """echo '{"n": 9, "s": "10", "t": "abc", "o": {"x": 1, "y": [2]}, "e": [], "z": null}'"""
OTHER = """echo '{"o": {"y": [2], "x": 1}}'"""


@pytest.fixture
def detent(tmp_path: Path) -> Detent:
    return Detent(tmp_path)


def write(detent: Detent, value: Any, name: str = "flow.lobster") -> str:
    """A file of steps; YAML reads JSON as well."""
    (detent.folder / name).write_text(json.dumps(value if isinstance(value, dict) else {"steps": value}))
    return name


def start(detent: Detent, value: Any, *words: str, code: int | None = 0, **env: Any) -> dict[str, Any]:
    said = detent("run", write(detent, value), "--envelope", "lobster", *words, code=code, **env)
    return read(said)


def read(said: Done) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(said.out)
    assert found["protocolVersion"] == 1
    return found


def resume(detent: Detent, asked: dict[str, Any], *words: str, code: int | None = 0, **env: Any) -> dict[str, Any]:
    token = (asked["requiresApproval"] or asked["requiresInput"])["resumeToken"]
    return read(detent("resume", "--envelope", "lobster", "--token", token, *words, code=code, **env))


def step(id: str, run: str = "", **more: Any) -> dict[str, Any]:
    return {"id": id, **({"run": run} if run else {}), **more}


OUTPUTS: dict[str, tuple[Any, list[Any]]] = {
    "text is one raw string": ([step("a", "echo hi")], ["hi\n"]),
    "a JSON array is the list": ([step("a", "echo '[1, 2]'")], [1, 2]),
    "a JSON object is a list of one": ([step("a", """echo '{"a": 1}'""")], [{"a": 1}]),
    "null is JSON": ([step("a", "echo null")], [None]),
    "nothing is nothing": ([step("a", "true")], []),
    "the last step that ran": ([step("a", "echo 1"), step("b", "echo 2", when="$a.json > 5")], [1]),
    "`command` is `run`": ([{"id": "a", "command": "echo hi"}], ["hi\n"]),
    "a plain word loses its line end": ([step("a", "echo hi"), step("b", "echo got $a.stdout.")], ["got hi.\n"]),
    "in quotes it stays": ([step("a", "echo hi"), step("b", 'printf %s "$a.stdout"')], ["hi\n"]),
    "paths go into lists": ([step("a", OBJECT), step("b", "echo -n x$a.json.o.y.0")], ["x2"]),
    "what is not there is empty": ([step("a", OBJECT), step("b", 'echo "[$a.json.q.w]" $a.approved')], ["[] false\n"]),
    "a reference keeps its type": ([step("a", OBJECT), step("b", "cat", stdin="$a.json.o")], [{"x": 1, "y": [2]}]),
    "a part of a text does not": ([step("a", OBJECT), step("b", "cat", stdin="n=$a.json.n")], ["n=9"]),
    "a skipped step says so": (
        [step("a", "echo 1", when=False), step("b", 'echo "$a.skipped [$a.stdout]"')],
        ["true []\n"],
    ),
    "continue goes on": (
        [step("a", "exit 3", on_error="continue"), step("b", "echo x$a.error.")],
        ["xtrue.\n"],
    ),
    "a failed step gives nothing": ([step("z", "echo z"), step("a", "exit 3", on_error="continue")], ["z\n"]),
    "skip_rest ends well": (
        [step("z", "echo z"), step("a", "exit 3", on_error="skip_rest"), step("b", "echo b")],
        ["z\n"],
    ),
    "a time-out is an error": (
        [step("a", "sleep 9", timeout_ms=100, on_error="continue"), step("b", "echo x$a.error")],
        ["xtrue\n"],
    ),
    "retry tries again": (
        [step("a", "echo x >> n; test $(wc -l < n) -ge 3 && echo ok", retry={"max": 3, "delay_ms": 1})],
        ["ok\n"],
    ),
    "braces of others stay": ([step("a", "echo '{{.Names}} {% x %} {#'")], ["{{.Names}} {% x %} {#\n"]),
    "branches have their ids": (
        [
            step("p", parallel={"branches": [step("x", "echo 1"), step("y-z", OTHER), step("t", "echo text")]}),
            step("e", "echo $x.json $y-z.json.o.x $t.stdout"),
        ],
        ["1 1 text\n"],
    ),
    "a group gives what its branches gave": (
        [step("p", parallel={"branches": [step("x", "echo 1"), step("y-z", "echo 2"), step("t", "echo text")]})],
        [{"x": 1, "y-z": 2}],
    ),
    "any is the first success": (
        [step("p", parallel={"wait": "any", "branches": [step("x", "exit 1"), step("y", "sleep 0.1; echo 2")]})],
        [{"y": 2}],
    ),
    "any stops the others": (
        [step("p", parallel={"wait": "any", "branches": [step("x", "sleep 60"), step("y", "echo 2")]})],
        [{"y": 2}],
    ),
    "the time of a group is over": (
        [
            step("p", on_error="continue", parallel={"timeout_ms": 100, "branches": [step("x", "sleep 9")]}),
            step("e", "echo x$p.error"),
        ],
        ["xtrue\n"],
    ),
    "a loop keeps what every item gave": (
        [
            step("a", "echo '[\"x\", \"y\"]'"),
            step("l", for_each="$a.json", steps=[
                step("s", "echo $item.stdout$index.json"), step("u", "echo 5", when="$index.json > 0"),
            ]),
        ],
        [{"item": "x", "index": 0, "s": "x0\n"}, {"item": "y", "index": 1, "s": "y1\n", "u": 5}],
    ),
    "a loop has names of its own": (
        [
            step("a", "echo '[7]'"),
            step("l", for_each="$a.json", item_var="it", index_var="i", batch_size=1, pause_ms=1, steps=[
                step("s", "echo $it.json$i.json"),
            ]),
        ],
        [{"it": 7, "i": 0, "s": 70}],
    ),
    "an item that is null says so": (
        [step("a", "echo '[null]'"), step("l", for_each="$a.json", steps=[step("s", "printf %s '$item.stdout'")])],
        [{"item": None, "index": 0, "s": None}],
    ),
    "a loop over nothing": (
        [step("a", "echo '[]'"), step("l", for_each="$a.json", steps=[step("s", "echo 1")])],
        [],
    ),
    "steps of a loop fail as they say": (
        [
            step("a", "echo '[1, 2]'"),
            step("l", for_each="$a.json", steps=[
                step("s", "test $item.json = 2 && echo ok", on_error="skip_rest"), step("u", "echo $s.error"),
            ]),
            step("e", "echo $l.json.0.s.error $l.json.1.u"),
        ],
        [True],
    ),
    "a loop is tried again as a whole": (
        [
            step("a", "echo '[1, 2]'"),
            step("l", for_each="$a.json", retry={"max": 3, "delay_ms": 1}, steps=[
                step("s", "echo x >> n; test $(wc -l < n) -ge 3 && echo ok"),
            ]),
            step("e", "wc -l < n"),
        ],
        [4],
    ),
    "stages hand items on": (
        [
            step("a", """echo '[{"n": 3, "k": "a"}, {"n": 1, "k": "b"}, {"n": 2, "k": "a"}]'"""),
            {"id": "b", "stdin": "$a.json", "pipeline": "where n>1 | sort --key n | map m='{{n}}!' | pick n,m"},
        ],
        [{"n": 2, "m": "2!"}, {"n": 3, "m": "3!"}],
    ),
    "stages group and count": (
        [
            step("a", """echo '["x", "y", "x"]'"""),
            {"id": "b", "stdin": "$a.json", "pipeline": "map --wrap v | groupBy --key v | head --n 1"},
        ],
        [{"key": "x", "items": [{"v": "x"}, {"v": "x"}], "count": 2}],
    ),
    "exec in a pipeline": ([{"id": "a", "pipeline": "exec --json --shell 'echo [1,1,2]' | dedupe"}], [1, 2]),
}  # fmt: skip


@pytest.mark.parametrize("name", OUTPUTS)
def test_the_output_is_that_of_the_last_step_that_ran(name: str, detent: Detent) -> None:
    value, output = OUTPUTS[name]
    said = start(detent, value)
    assert said["status"] == "ok"
    assert said["output"] == output
    assert said["requiresApproval"] is None
    assert said["requiresInput"] is None


CONDITIONS = {
    "true": True, "false": False, "$a.json.s > $a.json.n": True, "$a.json.t < 5": False, "$a.json.e": True,
    "$a.json.s == 10": False, '$a.json.s == "10"': True, "$a.json.t == abc": True, "$a.json.t != 'abc'": False,
    "$a.json.o == $b.json.o": True, "!$a.json.q && $a.json.n >= 9": True, "$a.json.q || $a.json.n <= 8": False,
    "!($a.json.n == 9)": False, "$a.json.z == null": True, "$a.json.n == 9.0": True, "$a.json.n > -1": True,
    "$a.json.q == null": False, "$a.json.q != null": True, "$a.json.q.r == null": False, "null == $a.json.z": True,
    "$a.json.q == $b.json.q": True, "$a.json.z == $a.json.q": False, "$a.error == null": False,
    "$a.error == false": False, "$a.json.e == null": False, "!$a.error": True,
}  # fmt: skip


def test_conditions_compare_as_they_always_did(detent: Detent) -> None:
    steps = [step("a", OBJECT), step("b", OTHER)]
    steps += [step(f"c{at}", "echo yes", when=said) for at, said in enumerate(CONDITIONS)]
    steps.append(step("end", "echo " + " ".join(f"$c{at}.skipped" for at in range(len(CONDITIONS)))))
    words = start(detent, steps)["output"][0].split()
    assert dict(zip(CONDITIONS, [word == "false" for word in words], strict=True)) == CONDITIONS


def test_arguments_reach_the_shell_as_text_and_never_as_code(detent: Detent) -> None:
    hostile = "$(touch made) `touch made`; touch made \" ' \\ *"
    lines = ["printf '%s|' ${x} pre${x} \"${x}\" 'q ${x}' \"$(printf %s ${x})\" $LOBSTER_ARG_X_1"]
    flow = {"args": {"x": {"default": "d"}, "x-1": {"default": 5}}, "steps": [step("a", lines[0])]}
    said = start(detent, flow, "--args-json", json.dumps({"x": hostile}))
    assert said["output"] == [f"{hostile}|pre{hostile}|{hostile}|q {hostile}|{hostile}|5|"]
    assert not (detent.folder / "made").exists()
    nested = [step("a", "cat", stdin="${x}"), step("b", "echo $a.stdout | cat")]
    said = start(detent, {"args": flow["args"], "steps": nested}, "--args-json", json.dumps({"x": hostile}))
    assert said["output"] == [f"{hostile}\n"]
    assert not (detent.folder / "made").exists()


def test_a_file_may_ask_for_the_old_way_and_is_warned(detent: Detent) -> None:
    flow = {"unsafe_substitution": True, "args": {"x": {"default": "$(echo code)"}}, "steps": [step("a", "echo ${x}")]}
    assert start(detent, flow)["output"] == ["code\n"]
    said = detent("validate", "flow.lobster", "--json").json
    assert any("as code" in warning for warning in said["warnings"])


def test_a_name_that_is_no_argument_stays_the_shells(detent: Detent) -> None:
    flow = [step("a", "v='1 2'; printf '<%s>' ${v} \"${v}\" '${v}' ${given}")]
    said = start(detent, flow, "--args-json", '{"given": "3 4"}')
    assert said["output"] == ["<1><2><1 2><${v}><3 4>"]


def test_arguments_are_in_the_environment(detent: Detent) -> None:
    given = {"my-name": {"default": "ann"}, "a": {"default": 1}}
    flow = {"args": given, "env": {"A": "top ${my-name}", "B": "b"}, "steps": [
        step("a", 'echo "$LOBSTER_ARG_MY_NAME $LOBSTER_ARGS_JSON $A $B$C"', env={"B": "own", "C": None}),
    ]}  # fmt: skip
    assert start(detent, flow)["output"] == ['ann {"my-name":"ann","a":1} top ann own\n']


def test_a_gate_asks_and_its_token_counts_once(detent: Detent) -> None:
    flow = [step("a", "echo '[1, 2]'"), step("g", approval="Sure?", stdin="$a.json"), step("b", "echo $g.approved")]
    asked = start(detent, flow)
    request = asked["requiresApproval"]
    assert asked["status"] == "needs_approval"
    assert asked["output"] == []
    assert (request["type"], request["prompt"], request["items"]) == ("approval_request", "Sure?", [1, 2])
    assert request["resumeToken"] not in "".join(
        path.read_text() for path in (detent.folder / ".detent/gates").iterdir()
    )
    assert resume(detent, asked, code=2)["error"]["type"] == "parse_error"
    assert resume(detent, asked, "--approve", "yes", "--cancel", code=2)["error"]["type"] == "parse_error"
    for word in ("perhaps", "true"):
        assert resume(detent, asked, "--approve", word, code=2)["error"]["type"] == "parse_error"
    assert resume(detent, asked, "--response-json", "{}", code=2)["error"]["type"] == "parse_error"
    assert resume(detent, asked, "--approve", "yes")["output"] == [True]
    assert resume(detent, asked, "--approve", "yes", code=2)["error"]["type"] == "parse_error"


def test_an_approval_has_an_id_as_well(detent: Detent) -> None:
    asked = start(detent, [step("g", approval=True), step("b", "echo b")])
    id = asked["requiresApproval"]["approvalId"]
    assert read(detent("resume", "--envelope", "lobster", "--id", "nosuch", "--approve", "yes", code=2))["ok"] is False
    assert read(detent("resume", "--envelope", "lobster", "--id", id, "--approve", "yes"))["output"] == ["b\n"]


def test_a_question_is_shown_as_it_is_written_and_whoever_hopes_for_more_is_warned(detent: Detent) -> None:
    gate = {"prompt": "Send to ${who}?", "items": "$a.json"}
    asked = start(
        detent, {"args": {"who": {"default": "ann"}}, "steps": [step("a", "echo 1"), step("g", approval=gate)]}
    )
    assert (asked["requiresApproval"]["prompt"], asked["requiresApproval"]["items"]) == ("Send to ${who}?", [])
    told = "\n".join(detent("validate", "flow.lobster", "--json").json["warnings"])
    assert "`${who}` stays as it is in a question; give what it is about in `stdin`" in told
    assert "`items` is no list" in told


def test_a_token_that_was_made_by_hand_opens_nothing(detent: Detent) -> None:
    start(detent, [step("g", approval=True), step("b", "touch made")])
    for token in ("eyJwcm90b2NvbFZlcnNpb24iOjF9", "../gates", "", "\0"):
        if "\0" not in token:
            detent("resume", "--envelope", "lobster", "--token", token, "--approve", "yes", code=2)
    assert not (detent.folder / "made").exists()


@pytest.mark.parametrize("word", [("--approve", "no"), ("--cancel",)])
def test_a_no_cancels_the_run(word: tuple[str, ...], detent: Detent) -> None:
    asked = start(detent, [step("g", approval=True), step("b", "touch made")])
    assert resume(detent, asked, *word)["status"] == "cancelled"
    assert detent("show", "last", "--json", code=None).json["status"] == "cancelled"
    assert not (detent.folder / "made").exists()


def test_a_no_goes_where_on_error_says(detent: Detent) -> None:
    asked = start(detent, [step("g", approval=True, on_error="continue"), step("b", "echo no=$g.approved")])
    assert resume(detent, asked, "--approve", "no")["output"] == ["no=false\n"]


def test_a_step_that_does_something_is_asked_about_first(detent: Detent) -> None:
    asked = start(
        detent, [step("a", "touch made; echo done", approval={"prompt": "Do it?", "items": [1], "preview": "p"})]
    )
    assert not (detent.folder / "made").exists()
    request = asked["requiresApproval"]
    assert (request["prompt"], request["items"], request["preview"]) == ("Do it?", [1], "p")
    assert resume(detent, asked, "--approve", "yes")["output"] == ["done\n"]


def test_the_json_of_a_step_may_carry_the_request(detent: Detent) -> None:
    request = """echo '{"requiresApproval": {"prompt": "Send?", "items": [7]}}'"""
    asked = start(detent, [step("a", request), step("g", approval=True, stdin="$a.json"), step("b", "echo sent")])
    assert asked["requiresApproval"]["prompt"] == "Send?"
    assert asked["requiresApproval"]["items"] == [7]
    assert resume(detent, asked, "--approve", "yes")["output"] == ["sent\n"]


def test_what_is_said_to_the_request_of_an_approved_step_counts(detent: Detent) -> None:
    """The step was approved and has run; a no to what its output then asks is not overheard."""
    output = """echo '{"prompt": "Send '$item.json'?", "required_approver": "kim", "items": [7]}'"""
    steps = [
        step("plan", output, approval={"prompt": "Plan?", "required_approver": "bob"}, on_error="continue"),
        step("send", "echo sent by $plan.approvedBy", when="$plan.approved"),
        step("left", "echo left: $plan.errorMessage", when="$plan.error"),
    ]
    said = start(detent, [step("a", "echo '[1, 2]'"), step("l", for_each="$a.json", steps=steps)])
    asked = []
    for word in ("yes", "no", "yes", "yes"):
        request = said["requiresApproval"]
        asked.append((request["prompt"], request["items"], request["requiredApprover"]))
        said = resume(detent, said, "--approve", word, LOBSTER_APPROVAL_APPROVED_BY="bob")
    assert asked == [("Plan?", [], "bob"), ("Send 1?", [7], "bob"), ("Plan?", [], "bob"), ("Send 2?", [7], "bob")]
    first, second = said["output"]
    assert ("send" in first, first["left"]) == (False, "left: rejected\n")
    assert ("left" in second, second["send"]) == (False, "sent by bob\n")


def test_whom_the_output_of_a_step_names_is_asked_on_every_way(detent: Detent) -> None:
    """Not only in the envelope: the host itself knows who may answer."""
    output = """echo '{"requiresApproval": {"prompt": "Send?", "requiredApprover": "bob"}}'"""
    file = write(detent, [step("plan", output, approval="Plan?"), step("send", "echo sent by $plan.approvedBy")])
    detent("run", file, "--id", "r", "--by", "ann", code=3)
    assert detent("approve", "r", "--by", "kim", "--json", code=3).json["waiting"][0]["approvers"] == ["bob"]
    assert "may not answer" in detent("approve", "r", "--by", "kim", code=None).err
    assert detent("approve", "r", "--by", "bob", "--json").json["output"] == ["sent by bob\n"]


def test_only_who_may_approve_does_and_the_gate_stays_open(detent: Detent) -> None:
    policy = {"prompt": "P", "requiredApprover": "bob", "require_different_approver": True, "initiated_by": "ann"}
    asked = start(detent, [step("g", approval=policy), step("b", "echo $g.approvedBy")])
    assert asked["requiresApproval"]["requiredApprover"] == "bob"
    assert asked["requiresApproval"]["requireDifferentApprover"] is True
    assert resume(detent, asked, "--approve", "yes", code=2)["error"]["type"] == "parse_error"
    wrong = resume(detent, asked, "--approve", "yes", code=2, LOBSTER_APPROVAL_APPROVED_BY="ann")
    assert wrong["error"]["type"] == "parse_error"
    assert resume(detent, asked, "--approve", "yes", LOBSTER_APPROVAL_APPROVED_BY="bob")["output"] == ["bob\n"]


def test_data_is_asked_for_and_must_fit(detent: Detent) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}
    form = {"prompt": "What?", "responseSchema": schema, "defaults": {"x": "d"}}
    asked = start(detent, [step("a", OBJECT), step("i", input=form), step("b", "echo $i.response.x $i.subject.n")])
    request = asked["requiresInput"]
    assert asked["status"] == "needs_input"
    assert request["type"] == "input_request"
    assert (request["prompt"], request["defaults"], request["subject"]["n"]) == ("What?", {"x": "d"}, 9)
    assert request["responseSchema"] == schema
    assert resume(detent, asked, "--response-json", '{"y": 1}', code=2)["error"]["type"] == "parse_error"
    assert resume(detent, asked, "--response-json", "{", code=2)["error"]["type"] == "parse_error"
    assert resume(detent, asked, "--approve", "yes", code=2)["error"]["type"] == "parse_error"
    assert resume(detent, asked, "--response-json", '{"x": "yes"}')["output"] == ["yes 9\n"]


def test_gates_stand_inside_loops_branches_and_other_files(detent: Detent) -> None:
    write(detent, [step("g", approval="Child?"), step("k", "echo kid")], "child.yaml")
    flow = [
        step("a", "echo '[1, 2]'"),
        step("l", for_each="$a.json", steps=[step("g", approval="Item?"), step("s", "echo s$item.json")]),
        step("p", parallel={"branches": [step("x", approval="Branch?"), step("y", "echo 2")]}),
        step("c", workflow="child.yaml"),
        step("e", "echo $l.json.1.s $c.stdout"),
    ]
    said, prompts = start(detent, flow), []
    while said["status"] == "needs_approval":
        prompts.append(said["requiresApproval"]["prompt"])
        said = resume(detent, said, "--approve", "yes")
    assert prompts == ["Item?", "Item?", "Branch?", "Child?"]
    assert said["output"] == ["s2 kid\n"]


def test_a_no_inside_a_loop_or_another_file_cancels_as_well(detent: Detent) -> None:
    write(detent, [step("g", approval="Child?"), step("k", "echo kid")], "child.yaml")
    asked = start(detent, [step("c", workflow="child.yaml"), step("b", "touch made")])
    assert resume(detent, asked, "--approve", "no")["status"] == "cancelled"
    loop = step("l", for_each="$a.json", steps=[step("g", approval="Item?")])
    asked = start(detent, [step("a", "echo '[1, 2]'"), loop, step("b", "touch made")])
    assert resume(detent, asked, "--approve", "no")["status"] == "cancelled"
    assert not (detent.folder / "made").exists()


def test_another_file_is_given_arguments_and_gives_its_output(detent: Detent) -> None:
    child = {"args": {"v": {"default": 0}, "w": {"default": ""}}, "steps": [step("k", "cat", stdin="${v}")]}
    write(detent, child, "child.yaml")
    flow = [
        step("a", OBJECT),
        step("c", workflow="child.yaml", workflow_args={"v": "$a.json.o"}),
        step("b", "echo $c.json.x"),
    ]
    assert start(detent, flow)["output"] == [1]


def test_another_file_finds_the_variables_of_the_one_around_it(detent: Detent) -> None:
    write(detent, {"env": {"C": "own"}, "steps": [step("k", 'echo "$A $B $C $LOBSTER_ARGS_JSON"')]}, "grandchild.yaml")
    write(detent, [step("k", workflow="grandchild.yaml")], "child.yaml")
    top = {"env": {"A": "a", "C": "c"}, "steps": [step("c", workflow="child.yaml", env={"B": "b"})]}
    assert start(detent, top)["output"] == ["a b own {}\n"]


def test_a_limit_stops_before_the_next_step_and_survives_a_gate(detent: Detent) -> None:
    spend = """echo '{"model": "m", "usage": {"input_tokens": 1000000}}'"""
    prices: dict[str, Any] = {"LOBSTER_LLM_PRICING_JSON": '{"m": {"input": 2, "output": 3}}'}
    steps = [step("a", spend), step("g", approval=True), step("b", "touch made; echo b")]
    flow: dict[str, Any] = {"cost_limit": {"max_usd": 1, "action": "stop"}, "steps": steps}
    asked = start(detent, flow, **prices)
    said = resume(detent, asked, "--approve", "yes", code=1, **prices)
    assert said["error"]["type"] == "runtime_error"
    assert "2.0000 USD is over 1" in said["error"]["message"]
    assert not (detent.folder / "made").exists()
    flow = {"cost_limit": {"max_usd": 1}, "steps": [step("a", spend), step("b", "echo b")]}
    assert start(detent, flow, **prices)["output"] == ["b\n"]
    assert "more than 1 USD" in detent("log", "last").out
    flow["cost_limit"]["action"] = "stop"
    assert start(detent, flow)["output"] == ["b\n"]  # nobody knows what the model costs


MISTAKES: dict[str, tuple[Any, str]] = {
    "twice": ([step("a", "echo"), step("a", "echo")], "used twice"),
    "branch twice": ([step("a", "echo"), step("p", parallel={"branches": [step("a", "echo")]})], "used twice"),
    "two deeds": ([step("a", "echo", pipeline="json")], "only one of them"),
    "no deed": ([step("a")], "needs one of"),
    "no id": ([{"run": "echo"}], "needs `id`"),
    "no steps": ([], "no steps"),
    "unknown step": ([step("a", "echo", when="$b.json")], "no step `b` comes before"),
    "later step": ([step("a", "echo", when="$b.json"), step("b", "echo")], "no step `b` comes before"),
    "bad condition": ([step("a", "echo"), step("b", "echo", when="$a.json ==")], "something is missing"),
    "unknown in stdin": ([step("a", "cat", stdin=" $b.json ")], "no step `b` comes before"),
    "no reference": ([step("a", "echo", when="maybe")], "a text in quotes"),
    "stage": ([{"id": "a", "pipeline": "json | gmail.send"}], "unknown stage `gmail.send`"),
    "quote": ([{"id": "a", "pipeline": "exec 'x"}], "not closed"),
    "time": ([step("a", "echo", timeout_ms=0)], "between 1 and 2147483647"),
    "long time": ([step("a", "echo", timeout_ms=2**31)], "between 1 and 2147483647"),
    "policy": ([step("a", "echo", on_error="ignore")], "on_error"),
    "schema": ([step("a", input={"prompt": "p", "responseSchema": {"type": "nosuch"}})], "unknown type"),
    "loop": ([step("a", "echo"), step("l", for_each="x", steps=[step("s", "echo")])], "refer to a list"),
    "circle": ([step("a", workflow="flow.lobster")], "circle"),
    "document": ({"args": {"x": {"default": 1}}, "steps": [step("a", "cat <<'E'\n${x}\nE")]}, "here-document"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_bad_file_is_a_mistake_with_its_place(name: str, detent: Detent) -> None:
    value, problem = MISTAKES[name]
    said = start(detent, value, code=2)
    assert said["ok"] is False
    assert said["error"]["type"] == "parse_error"
    assert problem in said["error"]["message"]
    assert "flow.lobster:1:" in said["error"]["message"]
    assert problem in detent("validate", "flow.lobster", code=2).err


def test_mistakes_of_the_caller_and_failures_of_the_run_are_told_apart(detent: Detent) -> None:
    assert start(detent, [step("a", "echo")], "--args-json", "{", code=2)["error"]["type"] == "parse_error"
    assert start(detent, [step("a", "echo")], "--args-json", "[]", code=2)["error"]["type"] == "parse_error"
    missing = read(detent("run", "nosuch.lobster", "--envelope", "lobster", code=2))
    assert missing["error"]["type"] == "parse_error"
    failed = start(detent, [step("a", "echo oops >&2; exit 3"), step("b", "touch made")], code=1)
    assert failed["error"]["type"] == "runtime_error"
    assert "oops" in failed["error"]["message"]
    assert not (detent.folder / "made").exists()


def test_a_rehearsal_touches_nothing(detent: Detent) -> None:
    assert start(detent, [step("a", "touch made")], "--dry-run") | {"output": []} == start(
        detent, [step("a", "true")], "--dry-run"
    )
    assert not (detent.folder / "made").exists()


def test_json_files_and_yaml_files_hold_steps_too(detent: Detent) -> None:
    write(detent, [step("a", "echo hi")], "flow.json")
    assert detent("run", "flow.json", "--json").json["output"] == ["hi\n"]
    (detent.folder / "flow.yaml").write_text("steps:\n  - id: a\n    run: echo on\n    when: true\n")
    assert detent("run", "flow.yaml", "--json").json["output"] == ["on\n"]
    assert "-->" in detent("graph", "flow.yaml", "--format", "mermaid").out
    assert "proved" in detent("validate", "flow.yaml").out


def test_of_many_answers_to_one_token_one_counts(detent: Detent) -> None:
    asked = start(detent, [step("g", approval=True), step("b", "echo x >> made")])
    codes: list[int] = []
    words = ["resume", "--envelope", "lobster", "--token", asked["requiresApproval"]["resumeToken"], "--approve", "yes"]

    def one() -> None:
        done = subprocess.run([SCRIPT, *words], cwd=detent.folder, env=detent.env, capture_output=True, check=False)
        codes.append(done.returncode)

    threads = [threading.Thread(target=one) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == [0, 2, 2, 2, 2, 2]
    assert (detent.folder / "made").read_text() == "x\n"


def begin(detent: Detent, steps: list[Any]) -> subprocess.Popen[str]:
    """A run under way in a process of its own; returns when its step has begun."""
    os.mkfifo(detent.folder / "began")
    words = [SCRIPT, "run", write(detent, steps), "--envelope", "lobster"]
    process = subprocess.Popen(words, cwd=detent.folder, env=detent.env, stdout=subprocess.PIPE, text=True)
    assert (detent.folder / "began").read_text() == "x\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_ends_it_with_its_own_code(number: signal.Signals, detent: Detent) -> None:
    process = begin(detent, [step("a", "echo x > began; sleep 60", retry={"max": 2})])
    process.send_signal(number)
    out, _ = process.communicate()
    assert process.returncode == 128 + number
    assert json.loads(out)["error"]["type"] == "runtime_error"


def test_a_kill_loses_nothing_and_a_step_with_retry_is_done_again(detent: Detent) -> None:
    steps = [
        step("a", "echo one"),
        step("b", "test -p began && echo x > began && sleep 60; echo two", retry={"max": 2}),
    ]
    process = begin(detent, steps)
    process.kill()
    process.communicate()
    (detent.folder / "began").unlink()
    said = detent("resume", "last", "--json").json
    assert said["status"] == "completed"
    assert said["output"] == ["two\n"]
    assert detent("log", "last", "--verify").code == 0


def test_after_a_kill_a_plain_step_asks_what_happened(detent: Detent) -> None:
    process = begin(detent, [step("a", "echo x > began; sleep 60; echo never")])
    process.kill()
    process.communicate()
    said = detent("resume", "last", "--json", code=3).json
    assert said["waiting"][0]["reason"] == "outcome_unknown"


def test_only_a_yes_is_for_certain_people(detent: Detent) -> None:
    gate = [step("g", approval={"prompt": "ok?", "required_approver": "kim"}), step("b", "echo $g.approvedBy")]
    asked = start(detent, gate)
    refused = resume(detent, asked, "--approve", "yes", code=2, LOBSTER_APPROVAL_APPROVED_BY="bob")
    assert refused["error"]["type"] == "parse_error"
    assert resume(detent, asked, "--approve", "yes", LOBSTER_APPROVAL_APPROVED_BY="kim")["output"] == ["kim\n"]
    asked = start(detent, gate)
    assert resume(detent, asked, "--approve", "no", LOBSTER_APPROVAL_APPROVED_BY="bob")["status"] == "cancelled"
