"""Files that look like something else: a warning says where."""

from detent.define.workflow import read_workflow

FLOW = """
states: {{start: {{type: initial}}, {first}: {{}}, {second}: {{}}, z: {{type: final}}}}
transitions: [{{from: start, to: {first}}}, {{from: {first}, to: {second}}}, {{from: {second}, to: z}}]
description: {text}
"""


def warnings(first: str = "pay", second: str = "ship", text: str = "plain") -> list[str]:
    return [warning.message for warning in read_workflow(FLOW.format(first=first, second=second, text=text)).warnings]


def test_plain_files_and_other_languages_are_left_alone() -> None:
    assert warnings() == []
    assert warnings("оплата", "доставка", "русский текст") == []
    assert warnings("支付", "发货", "中文") == []


def test_a_state_that_looks_like_another_is_told() -> None:
    assert any("looks like `pay`" in one for one in warnings("pay", "р\u0430y"))
    assert any("mixes letters" in one for one in warnings("p\u0430y", "ship"))


def test_text_that_is_turned_around_is_told() -> None:
    assert any("U+202E" in one for one in warnings(text="'safe \u202e evil'"))
