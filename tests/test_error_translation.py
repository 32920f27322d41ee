"""Every sentence that is raised, and every problem of a file, has its Chinese and is found again by its words."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from detent.kit.error_translation import LONGEST, error_in_chinese, error_templates
from tests.surfaces.command import Detent
from tests.surfaces.server.stage import stage

SOURCE = Path(__file__).parent.parent / "src" / "detent"
PLACES = (
    "core", "define", "host", "effects", "kit", "agents",
    "surfaces", "guarding", "home.py",
)  # fmt: skip
RAISED = {
    "DefinitionError", "ExpressionError", "Refused", "NotWaiting", "Unknown", "ReplayError", "JournalError",
    "EffectFailed", "PartialFailure", "PlannerFailed", "RollbackFailed", "BadRequest",
}  # fmt: skip
# What lists a problem of a file, and which of its arguments are the sentence and the way out.
LISTED = {
    "say": (0, 1, 2),
    "_say": (1, 2),
    "warn": (1, 2),
    "advise": (1, 2),
    "_stop": (1, 2),
    "BadCondition": (0,),
    "BadPipeline": (0,),
}
WORDS = re.compile(r"[a-z]{2,}.*\s")  # of something that is more than marks around values


def template(node: ast.expr) -> str:
    """A text with `{}` for each value; nothing where it is put together elsewhere."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return ""


def trees() -> Iterator[ast.Module]:
    for place in PLACES:
        for path in [SOURCE / place] if place.endswith(".py") else sorted((SOURCE / place).rglob("*.py")):
            if "words" not in path.parent.name and "words" not in path.stem:
                yield ast.parse(path.read_text(encoding="utf-8"))


def sentences() -> Iterator[str]:
    """What is raised, and what a failure is made of."""
    for node in (node for tree in trees() for node in ast.walk(tree)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        place = 0 if node.func.id in RAISED else 1 if node.func.id == "Failure" else -1
        if 0 <= place < len(node.args):
            said = template(node.args[place])
            if WORDS.search(said.replace("{}", "")):
                yield said


def alternatives(node: ast.expr) -> Iterator[ast.expr]:
    """The texts that an argument may be."""
    if isinstance(node, ast.IfExp):
        yield from (*alternatives(node.body), *alternatives(node.orelse))
    elif isinstance(node, ast.BoolOp):
        yield from (one for value in node.values for one in alternatives(value))
    else:
        yield node


def listed() -> Iterator[str]:
    """What `validate` lists: each problem of a file, and its way out."""
    paths = sorted((SOURCE / "define").rglob("*.py"))
    for node in (node for path in paths for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))):
        if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
            name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            given = [node.args[place] for place in LISTED.get(name, ()) if place < len(node.args)]
            said = [template(one) for argument in given for one in alternatives(argument)]
            yield from (one for one in said if WORDS.search(one.replace("{}", "")))


def test_every_error_has_its_chinese() -> None:
    assert sorted(set(sentences()) - set(error_templates())) == []


def test_every_problem_of_a_file_has_its_chinese() -> None:
    assert sorted(set(listed()) - set(error_templates())) == []


def test_a_file_is_criticised_in_chinese(tmp_path: Path) -> None:
    detent = Detent(tmp_path)
    (tmp_path / "bad.yaml").write_text("name: bad\nstates:\n  a: {type: initial, actions: [{type: log}]}\n  b: 3\n")
    said = detent("validate", "bad.yaml", code=2, DETENT_LANG="zh").err
    assert ": `log` 需要 `message`" in said
    assert "必须是映射，而不是 数字 3" in said
    (tmp_path / "odd.yaml").write_text(
        "name: odd\nstates:\n  a: {type: initial}\n  b: {type: final}\ntransitions: []\n"
    )
    assert "状态 `b` 永远不会到达" in detent("validate", "odd.yaml", code=None, DETENT_LANG="zh").err


def test_no_entry_is_of_a_sentence_that_nobody_says() -> None:
    said = {template(node) for tree in [*trees(), ast.parse((SOURCE / "errors.py").read_text())]
            for node in ast.walk(tree) if isinstance(node, ast.expr)}  # fmt: skip
    assert sorted(set(error_templates()) - said) == []


def test_values_come_to_their_places() -> None:
    for english, chinese in error_templates().items():
        values = [f"v{number}" for number in range(english.count("{}"))]
        assert {int(number) for number in re.findall(r"\{(\d+)\}", chinese)} == set(range(len(values))), english
        said = error_in_chinese(
            "".join(part + value for part, value in zip(english.split("{}"), [*values, ""], strict=True))
        )
        assert re.search(r"[\u4e00-\u9fff]", said), said
        assert all(value in said for value in values), said


@given(st.text(max_size=200))
def test_whatever_is_not_ours_comes_out_whole(text: str) -> None:
    assert text in error_in_chinese(f"`{text}` took too long") or error_in_chinese(text) != text
    assert error_in_chinese("x" * (LONGEST + 1) + text) == "x" * (LONGEST + 1) + text


def test_a_place_and_a_sentence_in_a_sentence() -> None:
    assert error_in_chinese("flow.yaml:3:5: the action id `a` is used twice") == "flow.yaml:3:5: 动作 id `a` 用了两次"
    assert error_in_chinese("the answer does not fit: division by zero") == "答复不合要求：除以零"
    assert error_in_chinese("`sh` ended with exit code 3") == "`sh` 以退出码 3 结束"
    assert error_in_chinese("`sh` ended with exit code 3: no disk") == "`sh` 以退出码 3 结束: no disk"
    assert error_in_chinese("an effect's own words") == "an effect's own words"


def test_people_read_chinese_and_machines_english(tmp_path: Path) -> None:
    detent = Detent(tmp_path)
    run_id = detent("run", "flows.py:MAIL", "--set", "to=bob", code=None).run_id
    assert "没有运行 `nothing`" in detent("show", "nothing", code=2, DETENT_LANG="zh").err
    asked = detent("show", "nothing", "--json", code=2, DETENT_LANG="zh").json
    assert asked["error"]["message"] == "there is no run `nothing`; `detent list` shows them"
    assert "不接受 `CLOSE`" in detent("signal", run_id, "CLOSE", code=2, DETENT_LANG="zh").err


async def test_the_api_speaks_the_language_that_is_asked_for(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        said = []
        for wanted in ("zh-CN,zh;q=0.9", "en,zh;q=0.5"):
            answer = await at.client.get("/api/runs/nothing", headers={"Accept-Language": wanted})
            said.append(answer.json()["error"]["message"])
        assert ["没有运行" in one for one in said] == [True, False]
        stored = ["ann said no: too dear", "their own words"]
        headers = {"Accept-Language": "zh-CN"}
        told = await at.client.post("/api/sentences", json={"texts": stored}, headers=headers)
        assert told.json()["texts"] == ["ann 拒绝了: too dear", "their own words"]
