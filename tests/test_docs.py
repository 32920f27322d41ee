"""Every command and code block in the documents runs, and every command of the program is documented."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from detent.effects.sandbox import find_problem
from tests import doctext
from tests.test_translation import PAIRS

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted(
    path
    for pattern in ("README*.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "docs/**/*.md", "examples/*/README.md")
    for path in ROOT.glob(pattern)
)
# A translation has the same commands and files to the letter (tests/test_translation.py), so they run once.
PLAYED = [path for path in DOCUMENTS if str(path.relative_to(ROOT)) not in {chinese for _, chinese in PAIRS}]


NEEDS_SANDBOX = "<!-- needs a sandbox -->"  # a document whose commands ask for one; elsewhere they are refused


@pytest.mark.parametrize("document", PLAYED, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_document_does_what_it_shows(document: Path, tmp_path: Path) -> None:
    if NEEDS_SANDBOX in document.read_text(encoding="utf-8") and (why := find_problem("home")):
        pytest.skip(why)
    # The reader stands in a clone: `./run` works, and the examples are there to be changed at will.
    (tmp_path / "run").symlink_to(ROOT / "run")
    if (ROOT / "examples").exists():
        shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns(".detent"))
    doctext.check(document, tmp_path)


def test_every_command_is_documented() -> None:
    if not list(ROOT.glob("src/detent/surfaces/cli/*.py")):
        pytest.skip("there is no command line yet")
    detent = Path(sys.executable).with_name("detent")
    shown = subprocess.run([detent, "--help"], capture_output=True, text=True, check=False)
    offered = re.findall(r"(?m)^  ([a-z][a-z-]*)(?=  |$)", shown.stdout)
    assert offered, f"`detent --help` offers no commands; it said:\n{shown.stdout}{shown.stderr}"
    text = "\n".join(path.read_text(encoding="utf-8") for path in DOCUMENTS)
    undocumented = [name for name in offered if not re.search(rf"\bdetent {name}\b", text)]
    assert not undocumented, f"commands that no document shows as `detent COMMAND`: {undocumented}"


STORY = """\
<!-- file: greeting.py -->
```python
WORD = "hello"
```

```python
from greeting import WORD
assert WORD == "hello"
```

```console
$ mkdir -p inner && cd inner && NAME=reader
$ echo "$NAME in $(basename "$PWD")"
reader in inner
$ printf 'one\\ntwo\\nthree 3 four'
one
…
three ... four
$ sh -c 'echo no; exit 3'
no
# exit 3
$ cat \\
>   <<END
> text
> END
text
$ sleep 600 &
$ kill -9 $! && ! wait $!
$ cat
```

<!-- skip: it would take the world down -->
```console
$ exit 1
```

- in a list:
  ```json
  {"a": 1}
  ```
"""


def test_the_checker_runs_files_scripts_and_one_shell(tmp_path: Path) -> None:
    document = tmp_path / "story.md"
    document.write_text(STORY, encoding="utf-8")
    doctext.check(document, tmp_path)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("```python\nraise SystemExit(1)\n```", r"bad.md:2"),
        ("```console\n$ false\n```", r"exit status 1, not 0"),
        ("```console\n$ echo one\ntwo\n```", r"(?s)bad.md:2: \$ echo one.*two.*one"),
        ("```console\n$ printf 'a\\nb\\n'\na\n```", r"shown in the document"),
        ("```console\n$ exit 0\n```", r"ended the shell"),
        ("```console\n$ if\n```", r"syntax error"),
        ("```console\nout\n```", r"begins with a command"),
        ("```json\n{,}\n```", r"bad.md:2: not json"),
        ("```sh\nif\n```", r"not sh"),
        ("```pyhton\n```", r"nobody checks `pyhton`"),
        ("<!-- skip: -->\n```python\n```", r"`skip` needs a value"),
    ],
)
def test_the_checker_finds_what_is_wrong(text: str, complaint: str, tmp_path: Path) -> None:
    document = tmp_path / "bad.md"
    document.write_text(text, encoding="utf-8")
    with pytest.raises(AssertionError, match=complaint):
        doctext.check(document, tmp_path)
