"""`detent chat` on a real terminal: keys, pasting, streaming, stopping, questions; its models are on the loopback."""

import asyncio
import fcntl
import json
import re
import struct
import subprocess
import termios
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from detent.agents.assistant.commands.line_editor import _make_completer
from tests.agents.assistant.stage import asking_all
from tests.effects.llm.scripted import (
    DONE,
    Server,
    calling,
    chunk,
    head,
    message,
    refusing,
    said,
    serving,
    streaming,
    text,
    tool_use,
    usage,
)  # fmt: skip
from tests.surfaces.command import DEADLINE_S, SCRIPT, Detent
from tests.surfaces.test_chat import TOOLS, Terminal

WRITES = """

@effect("notes.write", schema={"type": "object"})
async def write(contract):
    '''Write a note.'''
    Path(contract.input["path"]).write_text(contract.input["text"])
    return "written"


@effect("notes.read", kind="pure")
async def read(contract):
    '''Read a note.'''
    return f"note {contract.input.get('n')}"
"""
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>78]|\r")
BELOW = re.compile(r"\x1b7.*?\x1b8", re.DOTALL)
READY = " tokens · "  # in the line below the input


@pytest.fixture
def detent(tmp_path: Path) -> Detent:
    (tmp_path / "mail.py").write_text(TOOLS + WRITES)
    made = Detent(tmp_path)
    for name in ("DETENT_MODEL", "DETENT_BASE_URL", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        made.env.pop(name, None)
    return made


class LiveTerminal(Terminal):
    """One that can do more than write line by line."""

    KIND = "xterm-256color"

    def __init__(self, detent: Detent, *argv: str) -> None:
        super().__init__(detent, *argv)
        fcntl.ioctl(self.far, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        self.below = ""  # what was drawn into the last row, beside everything else

    def read(self, wanted: str, deadline: float) -> None:
        super().read(wanted, deadline)
        self.below += "".join(BELOW.findall(self.text))
        self.text = BELOW.sub("", self.text)

    def until_below(self, words: str) -> None:
        """Read on until the last row has these words."""
        deadline = time.monotonic() + DEADLINE_S
        while words not in self.below:
            self.read(words, deadline)

    def hear(self, piece: bytes) -> None:
        """Where the cursor is: near enough to the top."""
        for _asked in range(piece.count(b"\x1b[6n")):
            self.type("\x1b[1;1R")


def bare(seen: str) -> str:
    """What was written, without what only moves the cursor or colours."""
    return ESCAPES.sub("", seen)


async def at_the_keyboard(
    detent: Detent, server: AbstractAsyncContextManager[Server], sit: Callable[[LiveTerminal], None], *argv: str
) -> Server:
    async with server as model:
        detent.env |= {"DETENT_BASE_URL": model.url, "DETENT_MODEL": "openai:test"}

        def work() -> None:
            terminal = LiveTerminal(detent, "chat", "--session", "s", "--tools", "mail.py", *argv)
            terminal.until(READY)
            sit(terminal)
            terminal.type("\x04")
            terminal.until("go on with")
            assert terminal.end() in (0, 1)

        await asyncio.to_thread(work)
        return model


def spoken(model: Server) -> list[str]:
    """What the user said, as the model was told, request by request."""
    return [next(one["content"] for one in reversed(asked.body["messages"]) if one["role"] == "user")
            for asked in model.asked]  # fmt: skip


async def test_words_come_once_whatever_they_begin_with(detent: Detent) -> None:
    answers = ("`code` first.", "{braces} first.", "```py\nx = 1\n```\nafter", '{"response": "From **an** object."}')
    ends = ("code first.", "{braces} first.", "after", "From an object.")

    def sit(terminal: LiveTerminal) -> None:
        for number, end in enumerate(ends):
            terminal.type(f"I prefer {number}\r")
            shown = terminal.until(end.split()[-1]) + terminal.until(READY)
            drawn = bare(shown).split(f"I prefer {number}")[-1]
            assert drawn.count(end) == 1, f"shown twice or not at all: {drawn!r}"

    await at_the_keyboard(detent, serving(*(said(*re.findall(r"(?s).{1,3}", one)) for one in answers)), sit)


async def test_several_lines_pasted_typed_and_broken(detent: Detent) -> None:
    def sit(terminal: LiveTerminal) -> None:
        terminal.type("\x1b[200~I prefer\npasted\nlines\x1b[201~\r")
        terminal.until("one")
        terminal.until(READY)
        terminal.type("I prefer\x1b\rtyped\\\rlines\r")
        terminal.until("two")
        terminal.until(READY)
        terminal.type("\x12past")
        terminal.until("search.*past")
        terminal.type("\r and sent again\r")  # the first takes what was found
        terminal.until("three")
        terminal.until(READY)

    model = await at_the_keyboard(detent, serving(said("one"), said("two"), said("three")), sit)
    assert spoken(model)[:2] == ["I prefer\npasted\nlines", "I prefer\ntyped\nlines"]
    assert "and sent again" in spoken(model)[2]
    assert "pasted" in spoken(model)[2], "what was typed before is found"


async def test_esc_stops_the_answer_and_keeps_the_conversation(detent: Detent) -> None:
    async def endless(_asked: Any, write: Any) -> None:
        await write(head(200, "text/event-stream"))
        await write(chunk({"content": "on and on in one line "}).encode())
        await asyncio.Event().wait()

    def sit(terminal: LiveTerminal) -> None:
        terminal.type("I prefer talk\r")
        terminal.until("on and on")
        terminal.type("I pre")
        terminal.until_below("> I pre")  # what is typed meanwhile is seen, and not lost
        terminal.type("\x1b")
        terminal.until("stopped; what was said before stands")
        terminal.until("I pre")
        terminal.type("fer silence\r")
        terminal.until("As you like")
        terminal.until(READY)
        terminal.type("I prefer less\r\x03")  # pressed before there was anything to stop
        terminal.until("stopped; what was said before stands")
        terminal.until("Ctrl-C again leaves")
        terminal.type("nothing")
        terminal.until(READY)
        terminal.type("\x03")
        terminal.until("Ctrl-C again leaves")

    model = await at_the_keyboard(detent, serving(endless, said("As you like."), endless), sit)
    told = [one["content"] for one in model.asked[1].body["messages"]]
    assert told[1:] == ["I prefer talk", "[STOPPED] The user stopped your answer to the message above.",
                        "I prefer silence"]  # fmt: skip


async def test_what_was_sent_while_an_answer_came_stands_there_when_it_is_stopped(detent: Detent) -> None:
    async def endless(_asked: Any, write: Any) -> None:
        await write(head(200, "text/event-stream"))
        await write(chunk({"content": "on and on in one line "}).encode())
        await asyncio.Event().wait()

    def sit(terminal: LiveTerminal) -> None:
        terminal.type("I prefer more\r")
        terminal.until("on and on")
        terminal.type("I prefer two\r\x1b")
        terminal.until("stopped; what was said before stands")
        terminal.until("I prefer two")
        terminal.type(" things\r")
        terminal.until("As you said")
        terminal.until(READY)

    model = await at_the_keyboard(detent, serving(endless, said("As you said.")), sit)
    assert spoken(model)[1] == "I prefer two things"


async def test_approvals_stand_in_place_with_the_call_and_the_change(detent: Detent) -> None:
    (detent.folder / "a.txt").write_text("one\ntwo\n")
    asked = asking_all(("notes.read", {"n": 1}), ("notes.read", {"n": 2}), ("email.send", {"to": "ann@example.com"}),
                       ("notes.write", {"path": "a.txt", "text": "one\nTWO\n"}))  # fmt: skip

    def sit(terminal: LiveTerminal) -> None:
        terminal.type("I prefer work\r/cost\r")  # what was typed before the question is no answer to it
        shown = bare(terminal.until(r"\[l\]ater\?"))
        assert "✓ notes.read" in shown
        assert '"to": "ann@example.com"' in shown
        assert "tools/" not in shown
        assert "hash" not in shown
        assert "→" not in shown
        terminal.type("\x1b")  # as Ctrl-C, or l
        terminal.until("Left open.*/cost.*" + READY)
        terminal.type("/resume\r")
        terminal.until(r"It waits for your answer.*\[l\]ater\?")
        terminal.type("n\r")
        terminal.until("Why")
        terminal.type("not now\r")
        shown = bare(terminal.until(r"\+TWO.*\[l\]ater\?"))
        assert "– email.send" in shown
        assert "-two" in shown
        assert "+TWO" in shown
        terminal.type("e\r")
        terminal.until("as JSON: .*}")
        terminal.type("\x7f\r")
        terminal.until("not JSON.*as JSON: ")
        terminal.type("}\r")  # what was typed stands there still
        terminal.until("All done")
        terminal.until(READY)
        terminal.type("/verbose\r")
        terminal.until(READY)
        terminal.type("I prefer more\r")
        shown = bare(terminal.until("Read"))
        moves = re.findall(r"notes\.read \[001\]: (.*)", shown)  # one line, or two where it was seen at work
        assert moves[0].startswith("pending → running")
        assert "→ completed" in moves[-1]
        terminal.until(READY)

    scripts = (asked, said("All done."), calling("notes_read", n=3), said("Read."))
    model = await at_the_keyboard(detent, serving(*scripts), sit)
    lines = [one["content"] for one in model.asked[1].body["messages"] if one["role"] == "tool"]
    assert [line.split(":")[0] for line in lines] == [
        "[SUCCESS] notes.read", "[SUCCESS] notes.read", "[REJECTED] email.send",
        "[SUCCESS IRREVERSIBLE (human-confirmed)] notes.write",
    ]  # fmt: skip
    assert (detent.folder / "a.txt").read_text() == "one\nTWO\n"
    assert not detent.has("sent")


async def test_commands_are_for_the_program_and_unknown_ones_are_refused(detent: Detent) -> None:
    (detent.folder / "note.txt").write_text("the harbour is foggy")

    def sit(terminal: LiveTerminal) -> None:
        def tell(text: str, until: str) -> str:
            terminal.type(f"{text}\r")
            shown = terminal.until(until)
            terminal.until(READY)
            return shown

        tell("I prefer @note.txt and @bob", "First answer")
        tell("/nothing", "there is no command `/nothing`")
        tell("/cost", r"  2\d tokens · price not known")
        tell("/memory", "nothing is remembered")
        tell("/sessions", r"\* s .*1 message ")
        tell("/model builtin:rules", "builtin:rules")
        tell("/model openai:test", "openai:test")
        tell("/model bad", "openai:NAME")
        tell("/plan", "planning: nothing is changed")
        tell("/tools", "notes.read")
        tell("/plan", "no longer planning")
        tell("/compact", "summarised: ")
        tell("/search harbour", "user: I prefer @note.txt")
        tell("/undo", "taken back: the summary")
        tell("/resume", "go on with another conversation")
        tell("/compact", "summarised: ")
        tell("/export talk.md", "written to talk.md")
        tell("/export talk.md", "is there already")
        tell("I prefer a second", "Second answer")
        tell("/undo", "taken back: I prefer a second")
        tell("I prefer a third", "Third answer")
        tell("/resume nobody", "is not one conversation")
        tell("/new other", "session other")
        terminal.type("/he")
        terminal.until("what can be typed here")
        terminal.type("\t")
        terminal.until("/help")
        terminal.type("\r\r")
        terminal.until("Ctrl-R searches")
        terminal.until(READY)

    counted = streaming(chunk({"content": "First answer."}), chunk({}, "stop"), usage(20, 5), DONE)
    foggy = said("It is foggy.")
    scripts = (counted, foggy, foggy, said("Second answer."), said("Third answer."))
    model = await at_the_keyboard(detent, serving(*scripts), sit)
    assert spoken(model)[0].startswith("I prefer @note.txt and @bob\n\nFile note.txt:\n```\nthe harbour is foggy")
    last = [str(one["content"]) for one in model.asked[-1].body["messages"]]
    assert "I prefer a third" in last
    assert "I prefer a second" not in last, "it was taken back"
    assert "It is foggy." in last[1]
    assert "## Assistant\n\nFirst answer." in (detent.folder / "talk.md").read_text()


async def test_a_chat_that_was_killed_says_what_happened_before_it_asks(detent: Detent) -> None:
    mail = (detent.folder / "mail.py").read_text()
    dying = mail.replace("    return {", "    os.kill(os.getpid(), 9)\n    return {", 1)
    (detent.folder / "mail.py").write_text(dying)
    async with serving(calling("email_send", to="bob@example.com"), said("It was sent.")) as model:
        detent.env |= {"DETENT_BASE_URL": model.url, "DETENT_MODEL": "openai:test"}

        def work() -> str:
            first = LiveTerminal(detent, "chat", "--session", "s", "--tools", "mail.py")
            first.until(READY)
            first.type("I prefer mail\r")
            first.until(r"\[l\]ater\?")
            first.type("y\r")
            assert first.end() == -9
            (detent.folder / "mail.py").write_text(mail)
            second = LiveTerminal(detent, "chat", "--continue", "--tools", "mail.py")
            shown = bare(second.until(r"Did it happen\?"))
            second.type("y\r")
            second.until("How do you know")
            second.type("it is in the outbox\r")
            second.until("It was sent")
            second.until(READY)
            second.type("\x04")
            second.until("go on with")
            assert second.end() == 0
            return shown

        shown = await asyncio.to_thread(work)
    told = [shown.index(part) for part in ("Earlier you said: I prefer mail", "? email.send", "was under way when the",
                                           "may already have happened")]  # fmt: skip
    assert told == sorted(told)
    assert (detent.folder / "sent").read_text() == "bob@example.com\n"


async def test_trouble_with_the_server_ends_no_conversation(detent: Detent) -> None:
    cut = streaming(chunk({"content": "Half an ans"}))
    limited = refusing(429, {"error": {"message": "slow down"}}, "retry-after: 0")
    refusal = streaming(chunk({"refusal": "I will not say that."}), chunk({}, "stop"), DONE)
    denied = refusing(401, {"error": {"message": "bad key"}})

    def sit(terminal: LiveTerminal) -> None:
        terminal.type("I prefer whole answers\r")
        shown = bare(terminal.until("A whole answer"))
        assert shown.index("Half an ans") < shown.index("broke off")
        terminal.until(READY)
        terminal.type("I prefer patience\r")
        terminal.until("Patience")
        terminal.until(READY)
        terminal.type("I prefer secrets\r")
        terminal.until("I will not say that")
        terminal.until(READY)
        terminal.type("I prefer keys\r")
        terminal.until("bad key")
        terminal.until("say it again")
        terminal.until(READY)
        terminal.type("I prefer ends\r")
        terminal.until("The end")
        terminal.until(READY)

    scripts = (cut, said("A whole answer."), limited, said("Patience."), refusal, denied, said("The end."))
    await at_the_keyboard(detent, serving(*scripts), sit)


async def test_anthropics_stream_with_parallel_calls_and_broken_arguments(detent: Detent) -> None:
    calls = (
        text("Let me ", "look."),
        tool_use("t1", "notes_read", '{"n": ', "1}"),
        tool_use("t2", "notes_read", '{"n"'),
    )
    async with serving(message(*calls, stop="tool_use"), message(text("Both **seen**."))) as model:
        detent.env |= {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "k", "DETENT_MODEL": "anthropic:test"}

        def work() -> None:
            # a name with letters where the hint below has the same ones: all of the hint is drawn, not what differs
            terminal = LiveTerminal(detent, "chat", "--session", "eseseses", "--tools", "mail.py")
            terminal.until(READY)
            terminal.type("I prefer notes\r")
            shown = bare(terminal.until("seen"))
            assert shown.index("Let me look.") < shown.index("✓ notes.read")
            assert "✗ notes.read   its arguments are not one JSON object" in shown
            terminal.until(READY)
            terminal.type("\x03")
            terminal.until("again leaves")
            terminal.type("\x03")
            terminal.until("go on with")
            assert terminal.end() == 0

        await asyncio.to_thread(work)
    results = model.asked[1].body["messages"][-1]["content"]
    assert [(one["tool_use_id"], one["content"].split(":")[0]) for one in results] == [
        ("t1", "[SUCCESS] notes.read"), ("t2", "[FAILED] notes.read"),
    ]  # fmt: skip


def test_names_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from prompt_toolkit.document import Document

    (tmp_path / "a b.txt").touch()
    monkeypatch.chdir(tmp_path)
    completer = _make_completer({"/resume": "", "/new": ""}, {"trip": "Where to?", "other": ""})
    found = {text: [one.text for one in completer.get_completions(Document(text), None)]
             for text in ("/re", "/resume t", "see @a", "see @x", "t")}  # fmt: skip
    assert found == {"/re": ["/resume"], "/resume t": ["trip"], "see @a": ['"a b.txt"'], "see @x": [], "t": []}


def test_print_gives_the_answer_alone_and_takes_what_is_piped(detent: Detent) -> None:
    done = subprocess.run([SCRIPT, "chat", "--print"], cwd=detent.folder, env=detent.env, input="hello\n", text=True,
                          capture_output=True, timeout=DEADLINE_S, check=True)  # fmt: skip
    assert (done.stdout, done.stderr) == ("Hello! What can I do for you?\n", "")
    assert "needs a message" in detent("chat", "--print", code=2).err
    assert "no file `nobody`" in detent("chat", "hello", "--attach", "nobody", code=2).err
    (detent.folder / "secret.txt").write_text("hidden")
    said_so = detent("chat", "--session", "s", "--json", "hello @secret.txt").json
    log = detent("log", said_so["run_id"], "--json").out
    assert "hidden" not in log, "words that a program hands over attach nothing"
    listed = json.loads(detent("list", "--json").out)["runs"]
    assert len(listed) == 2
