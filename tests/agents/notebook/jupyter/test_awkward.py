"""Content that breaks other executors: nothing hangs, nothing is lost silently, the notebook stays valid."""

from typing import Any

from detent.agents.notebook.jupyter import CellExecution, Kernel
from tests.agents.notebook.jupyter.kit import check_notebook, kernel, kinds, needs_kernel, notes, text, values
from tests.effort import PATIENCE_S

pytestmark = needs_kernel


async def run(it: Kernel, code: str, **given: Any) -> CellExecution:
    done = await it.execute(code, timeout_s=60, **given)
    check_notebook(done)
    return done


async def test_half_characters_printed_raised_shown_and_held() -> None:
    async with kernel() as it:
        printed = await run(it, r"half = 'a\ud800b'; low = '\udcff'; print(half, low)")
        assert (printed.status, text(printed)) == ("ok", "a\ufffdb \ufffd\n")
        assert values(printed) == {"half": "a\ufffdb", "low": "\ufffd"}
        raised = await run(it, r"raise ValueError('\udfff!')")
        assert (raised.status, (raised.error or {})["evalue"]) == ("error", "\ufffd!")
        assert values(raised) == values(printed)
        shown = await run(it, r"from IPython.display import display; display({'text/html': '\ud800'}, raw=True)")
        assert shown.outputs[0]["data"] == {"text/html": "\ufffd"}
        named = await run(it, r"globals()['odd\ud800'] = {'k\ud800': ['\ud800']}")
        assert values(named)["odd\ufffd"] == {"k\ufffd": ["\ufffd"]}
        source = await run(it, "typed = '\ud800'")
        assert values(source)["typed"] == "\ufffd"
        asked = await run(it, "1", expressions={"a\ud800": "'\ud800'", "b": "half"})
        assert asked.expressions["b"]["value"] == "a\ufffdb"
        assert asked.expressions["a\ufffd"]["error"]["ename"] == "UnicodeEncodeError"
        assert (await run(it, "2")).status == "ok"


async def test_huge_and_deep_values() -> None:
    async with kernel() as it:
        printed = await run(it, "big = 'x' * 50_000_000\nprint(big)")
        assert len(text(printed)) < 1024 * 1024 + 100
        assert notes(printed) == ["48,951,425 characters of stdout were left out"]
        assert values(printed) == {"big": "x" * 200 + "..."}
        assert "were left out" in notes(await run(it, "big"))[0]
        deep = await run(it, "deep = []\nfor _ in range(5_000): deep = [deep]\ndeep")
        assert deep.status in ("ok", "error"), "IPython itself gives up on it"
        assert values(deep)["deep"] == [[[[[[[["..."]]]]]]]]
        code = (
            "huge = 10 ** 6000; million = {n: n for n in range(10**6)}; loop = [1]; loop.append(loop); nan = 1e999 * 0"
        )
        done = await run(it, code)
        assert values(done)["huge"] == "int(19932 bits)"
        assert values(done)["million"].startswith('{"0": 0, "1": 1')
        assert values(done)["nan"] == "nan"


async def test_objects_that_misbehave_when_looked_at() -> None:
    code = """
import time
class Bad:
    def __repr__(self): raise RuntimeError("no")
    def __len__(self): raise RuntimeError("no")
    def __getattribute__(self, name): raise RuntimeError("no")
class Slow:
    def __repr__(self): time.sleep(3600)
class Meta(type):
    def __eq__(self, other): raise RuntimeError("no")
    def __hash__(self): raise RuntimeError("no")
    def __getattribute__(self, name): raise RuntimeError("no")
class Odd(metaclass=Meta): pass
class Mine(list):
    def __len__(self): time.sleep(3600)
class DataFrame:
    __module__ = "pandas"
    shape = property(lambda self: time.sleep(3600))
bad, slow, odd, mine, frame = Bad(), Slow(), Odd(), Mine([1]), DataFrame()
inside = [bad, {"slow": slow}]
"""
    async with kernel() as it:
        done = await run(it, code)
        found = values(done)
        assert [found[name] for name in ("bad", "slow", "odd", "mine", "frame")] == [
            "Bad",
            "Slow",
            "Odd",
            "Mine",
            "DataFrame",
        ]
        assert found["inside"] == ["Bad", {"slow": "Slow"}]
        failing = await run(it, "class Fails:\n    def __repr__(self): raise RuntimeError('no')\nFails()")
        assert (failing.status, (failing.error or {})["evalue"]) == ("error", "no")
        overdue = await it.execute("slow", timeout_s=0.5, grace_s=PATIENCE_S)
        assert (overdue.status, overdue.is_restarted) == ("timeout", False)


async def test_floods() -> None:
    async with kernel() as it:
        lines = await run(it, "for n in range(100_000): print(n)")
        assert text(lines) == "".join(f"{n}\n" for n in range(100_000))
        assert kinds(lines) == ["stream"]
        both = await run(it, "import sys\nfor n in range(5_000): print(n); print(n, file=sys.stderr)")
        assert text(both) == text(both, "stderr") == "".join(f"{n}\n" for n in range(5_000))
        code = "from IPython.display import Image, display\nimage = b'\\x89PNG\\r\\n\\x1a\\n' + bytes(20_000_000)\n"
        image = await run(it, code + "display(Image(data=image, format='png'))")
        assert list(image.outputs[0]["data"]) == ["text/plain"]
        assert notes(image) == [
            "an output of type image/png had 20,000,010 bytes and was left out; at most 8,388,608 are kept"
        ]


async def test_bytes_and_descriptors_written_directly() -> None:
    code = """
import os, subprocess, sys
os.write(1, b"direct\\n")
os.write(2, b"direct err\\n")
sys.__stdout__.buffer.write(bytes([0xff, 0xfe, 0x00, 0xe6]) + b"\\n")
sys.__stdout__.flush()
subprocess.run(["echo", "a child"])
done = subprocess.run(["echo", "told where"], stdout=sys.stdout)
"""
    async with kernel() as it:
        for _ in range(20):
            done = await run(it, code)
            assert text(done) == "direct\n\ufffd\ufffd\0\ufffd\na child\ntold where\n"
            assert text(done, "stderr") == "direct err\n"
            after = await run(it, "pass")
            assert after.outputs == []
        flood = await run(it, "for _ in range(50): os.write(1, b'y' * 100_000)")
        assert notes(flood) == ["3,951,424 characters of stdout were left out"]
