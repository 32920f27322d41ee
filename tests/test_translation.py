"""The Chinese README and tutorial say the same as the English ones: same sections, same commands, same files."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAIRS = [("README.md", "README.zh-CN.md"), ("docs/tutorial.md", "docs/tutorial.zh-CN.md")]
FENCE = re.compile(r"^(?:<!-- (?:file|skip):[^\n]*-->\n)?```.*?^```$", re.DOTALL | re.MULTILINE)


def test_every_translation_is_compared() -> None:
    found = {
        str(path.relative_to(ROOT)) for pattern in ("*.zh-CN.md", "docs/**/*.zh-CN.md") for path in ROOT.glob(pattern)
    }
    assert found == {chinese for _, chinese in PAIRS}


def _prose(text: str) -> str:
    return FENCE.sub("", text)


@pytest.mark.parametrize(("english", "chinese"), PAIRS, ids=[chinese for _, chinese in PAIRS])
def test_a_translation_keeps_step(english: str, chinese: str) -> None:
    ours, theirs = ((ROOT / name).read_text(encoding="utf-8") for name in (english, chinese))
    levels = [[len(mark) for mark in re.findall(r"^(#+) ", _prose(text), re.MULTILINE)] for text in (ours, theirs)]
    assert levels[0] == levels[1], f"{chinese} has other sections than {english}"
    assert FENCE.findall(ours) == FENCE.findall(theirs), f"the commands or files of {chinese} differ from {english}"
    # What is named in the running text: commands and files, in whichever order the language wants them.
    named = [set(re.findall(r"`((?:detent|\./run) [^`]+)`", _prose(text))) for text in (ours, theirs)]
    assert named[0] == named[1], f"{chinese} names other commands than {english}"


@pytest.mark.parametrize("chinese", [chinese for _, chinese in PAIRS])
def test_every_section_of_a_translation_is_chinese(chinese: str) -> None:
    headings = re.findall(r"^#+ (.+)$", _prose((ROOT / chinese).read_text(encoding="utf-8")), re.MULTILINE)
    assert [text for text in headings if not re.search(r"[\u4e00-\u9fff]", text)] in ([], ["detent"])
