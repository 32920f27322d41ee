"""`detent chat` as people and scripts use it: the real command, a real terminal, a model on the loopback."""

import asyncio
import json
import os
import pty
import re
import select
import signal
import sqlite3
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.effects.llm.scripted import DONE, calling, chunk, said, serving, streaming
from tests.surfaces.command import DEADLINE_S, SCRIPT, Detent

TOOLS = """
import os
from pathlib import Path

from detent import effect


@effect("email.send", settle_s=0.0, schema={"type": "object", "required": ["to"], "properties": {
    "to": {"type": "string"}, "subject": {"type": "string"}, "body": {"type": "string"}}})
async def send(contract):
    '''Send an e-mail.'''
    with Path("sent").open("a") as sent:
        sent.write(contract.input["to"] + "\\n")
    return {"sent": contract.input["to"]}
"""
INVITE = "帮我给 bob@example.com 发一封会议邀请邮件"


@pytest.fixture
def detent(tmp_path: Path) -> Detent:
    (tmp_path / "mail.py").write_text(TOOLS)
    made = Detent(tmp_path)
    for name in ("DETENT_MODEL", "DETENT_BASE_URL", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        made.env.pop(name, None)
    return made


class Terminal:
    """A command on a terminal of its own, with somebody at the keyboard."""

    KIND = "dumb"

    def __init__(self, detent: Detent, *argv: str) -> None:
        self.far, near = pty.openpty()
        env = detent.env | {"TERM": self.KIND, "DETENT_LANG": "en"}
        self.process = subprocess.Popen(
            [SCRIPT, *argv], cwd=detent.folder, env=env, stdin=near, stdout=near, stderr=near
        )
        os.close(near)
        self.text = ""

    def until(self, pattern: str) -> str:
        """Read on until a pattern is there; what was read since the last time."""
        deadline = time.monotonic() + DEADLINE_S
        while not (found := re.search(pattern, self.text, re.DOTALL)):
            self.read(pattern, deadline)
        seen, self.text = self.text[: found.end()], self.text[found.end() :]
        return seen

    def read(self, wanted: str, deadline: float) -> None:
        """Read on, as far as there is something."""
        left = deadline - time.monotonic()
        assert left > 0, f"{wanted!r} never came: {self.text!r}"
        if not select.select([self.far], [], [], left)[0]:
            return
        try:
            piece = os.read(self.far, 65536)
        except OSError:
            piece = b""
        assert piece, f"{wanted!r} never came: {self.text!r}"
        self.hear(piece)
        self.text += piece.decode(errors="replace")

    def hear(self, piece: bytes) -> None:
        """Answer what the program asks its terminal; a dumb one is not asked."""

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self.far, text.encode())

    def end(self) -> int:
        """Wait for the end; the exit code."""
        code = self.process.wait(DEADLINE_S)
        os.close(self.far)
        return code


def test_one_turn_without_a_key_or_a_server(detent: Detent) -> None:
    greeted = detent("chat", "hello")
    assert greeted.out == "Hello! What can I do for you?\n"
    answer = detent("chat", "--session", "s", "what is the meaning of it all").out
    assert "DETENT_MODEL" in answer


def test_a_deed_waits_and_any_command_can_answer(detent: Detent) -> None:
    turn = detent("chat", "--session", "s", "--tools", "mail.py", "--json", INVITE, code=3).json
    assert (turn["status"], turn["session"]) == ("waiting", "s")
    assert turn["waiting"][0]["call"]["input"]["to"] == "bob@example.com"
    assert [e["current_status"] for e in turn["executions"]] == ["pending", "waiting"]
    assert "idempotency_key" not in turn["executions"][0]
    assert not detent.has("sent")
    detent("approve", turn["run_id"])
    assert (detent.folder / "sent").read_text() == "bob@example.com\n"
    again = detent("chat", "--session", "t", "--tools", "mail.py", "--json", INVITE).json
    assert "already done" in again["response"]
    assert (detent.folder / "sent").read_text() == "bob@example.com\n"


def test_a_turn_reads_no_more_of_its_session_than_it_needs(detent: Detent) -> None:
    first = detent("chat", "--session", "s", "--json", "hello").json["run_id"]
    detent("chat", "--session", "s", "hello")
    with sqlite3.connect(detent.folder / ".detent" / "journal.db") as journal:
        gone = "delete from events where run = (select no from runs where run_id = ?)"
        assert journal.execute(gone, (first,)).rowcount > 0
    journal.close()
    third = detent("chat", "--session", "s", "--json", "hello").json
    assert third["response"] == "Hello! What can I do for you?"
    told = json.loads(detent("log", third["run_id"], "--json").out.splitlines()[0])["event"]["input"]["history"]
    assert [one["role"] for one in told] == ["user", "assistant"] * 2, "the second turn was told of the first"


def test_a_script_speaks_line_by_line(detent: Detent) -> None:
    done = subprocess.run(
        [SCRIPT, "chat", "--json", "--session", "s"],
        cwd=detent.folder,
        env=detent.env,
        input="hello\n谢谢\n",
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=True,
    )
    answers = [json.loads(line)["response"] for line in done.stdout.splitlines()]
    assert answers == ["Hello! What can I do for you?", "不客气。"]


def test_questions_are_answered_in_place_and_a_session_goes_on(detent: Detent) -> None:
    terminal = Terminal(detent, "chat", "--session", "s", "--tools", "mail.py", "--verbose")
    terminal.until("> ")
    terminal.type(INVITE + "\n")
    shown = terminal.until(r"\[l\]ater\? ")
    assert '"to": "bob@example.com"' in shown
    assert re.search(r"confirmation \[002\]:[^\n]* → waiting", shown)
    terminal.type("l\n")
    terminal.until("> ")
    terminal.type("/exit\n")
    terminal.until("detent chat --session s --tools mail.py")
    assert terminal.end() in (0, 3)
    assert not detent.has("sent")

    terminal = Terminal(detent, "chat", "--session", "s", "--tools", "mail.py", "--verbose")
    terminal.until(r"\[l\]ater\? ")
    terminal.type("y\n")
    shown = terminal.until("> ")
    assert re.search(r"email\.send \[001\]:[^\n]* → completed", shown)
    assert "已完成" in shown
    terminal.type("重试\n")
    assert "already done" in terminal.until("> ")
    terminal.type("\x04")
    assert terminal.end() == 0
    assert (detent.folder / "sent").read_text() == "bob@example.com\n"


def test_a_doubt_is_answered_in_place_with_what_is_known(detent: Detent) -> None:
    lost = TOOLS.replace("settle_s=0.0", "settle_s=0.0, timeout_s=0.05").replace(
        "    return {", "    await never()\n    return {"
    )
    (detent.folder / "lost.py").write_text(
        lost + "\n\nimport asyncio\n\n\nasync def never():\n    await asyncio.Event().wait()\n"
    )
    terminal = Terminal(detent, "chat", "--tools", "lost.py", "--model", "builtin:rules")
    terminal.until("> ")
    terminal.type("send a mail to bob@example.com saying hi\n")
    terminal.until(r"\[l\]ater\? ")
    terminal.type("y\n")
    assert "may already have happened" in terminal.until(r"\[l\]ater\? ")
    terminal.type("y\n")
    terminal.until("How do you know")
    terminal.type("it is in the mailbox\n")
    terminal.until("Done: email.send: it is in the mailbox")
    terminal.until("> ")
    terminal.type("/exit\n")
    terminal.until("--tools lost.py --model builtin:rules")
    assert terminal.end() == 0
    assert (detent.folder / "sent").read_text() == "bob@example.com\n"


def test_a_newcomer_is_told_who_answers_and_slips_end_nothing(detent: Detent) -> None:
    terminal = Terminal(detent, "chat", "--tools", "mail.py")
    greeting = terminal.until("> ")
    assert "no model is configured" in greeting
    assert "tools: email.send" in greeting
    for slip in ("\n", "/help\n", "/tools\n"):
        terminal.type(slip)
        shown = terminal.until("> ")
    assert re.search(r"email\.send +asks first +Send an e-mail\.", shown)
    terminal.type(INVITE + "\n")
    terminal.until(r"\[l\]ater\? ")
    terminal.type("yse\n")
    terminal.until(r"\[l\]ater\? ")
    terminal.type("e\n")
    terminal.until("JSON: ")
    for slip, problem in (("{bad", "is not JSON"), ("[1]", "must be a JSON object")):
        terminal.type(slip + "\n")
        assert problem in terminal.until("Arguments as JSON: ")
    terminal.type('{"to": "eve@example.com"}\n')
    shown = terminal.until("> ")
    assert shown.index("✓ email.send") < shown.index("已完成"), "what was done is told before what is said about it"
    assert shown.count("email.send {") == 1, "what was superseded is not told, and nothing twice"
    terminal.process.send_signal(signal.SIGINT)
    assert "detent chat --session" in terminal.until("interrupted")
    assert terminal.end() == 130
    assert (detent.folder / "sent").read_text() == "eve@example.com\n"


FORM = {
    "title": "A trip",
    "fields": [
        {"name": "city", "type": "select", "label": "City", "required": True, "options": ["Rome", "Oslo"]},
        {"name": "days", "type": "number", "label": "Days", "min": 1, "default": 2},
        {"name": "by_train", "type": "boolean", "label": "By train"},
        {"name": "with", "type": "multiselect", "label": "With", "options": ["Ann", "Bob"]},
    ],
}


def field(label: str) -> str:
    """The prompt of a field."""
    return rf"  {label}\*?(?: \([^)]*\))?(?: \[[^]]*\])?: "


async def test_a_form_is_filled_in_field_by_field_and_asked_again_where_it_does_not_fit(detent: Detent) -> None:
    asked = said(json.dumps({"response": "Tell me more.", "ecs_request": FORM}))
    async with serving(asked, said("Have a good trip.")) as server:
        detent.env |= {"DETENT_BASE_URL": server.url, "DETENT_MODEL": "openai:test"}

        def at_the_keyboard() -> str:
            terminal = Terminal(detent, "chat", "--session", "s")
            terminal.until("> ")
            terminal.type("I prefer trains\n")
            for label, typed in (("City", "Paris"), ("Days", "0"), ("By train", ""), ("With", "")):
                terminal.until(field(label))
                terminal.type(typed + "\n")
            problems = terminal.until(field("City"))
            for typed, label in (("Oslo", "Days"), ("", "By train"), ("yes", "With")):
                terminal.type(typed + "\n")
                terminal.until(field(label))
            terminal.type("Ann, Bob\n")
            terminal.until("Have a good trip.")
            terminal.until("> ")
            terminal.type("/exit\n")
            terminal.until("go on with")
            assert terminal.end() == 0
            return problems

        problems = await asyncio.to_thread(at_the_keyboard)
    assert "city" in problems
    assert "days" in problems
    told = server.asked[-1].body["messages"][-1]["content"]
    assert told == "[A trip]\nCity: Oslo\nDays: 2\nBy train: True\nWith: Ann, Bob"


def test_an_approval_shows_what_the_assistant_says(detent: Detent) -> None:
    run_id = detent("chat", "--tools", "mail.py", "--json", INVITE, code=3).json["run_id"]
    assert detent("approve", run_id).out.endswith('\n\n已完成：email.send: {"sent": "bob@example.com"}\n')
    assert "emotion" not in detent("show", run_id).out


def test_a_model_that_cannot_be_asked_is_a_mistake_before_anything_begins(detent: Detent) -> None:
    assert "openai:NAME" in detent("chat", "--model", "bad", "hello", code=2).err
    assert "OPENAI_API_KEY is not set" in detent("chat", "--model", "openai:some", "hello", code=2).err
    assert detent("list", "--json").json["runs"] == []


def test_the_policy_can_be_named(detent: Detent) -> None:
    (detent.folder / "law.yaml").write_text("rules:\n  - {name: no-mail, tool: email.*, decision: deny}\n")
    turn = detent("chat", "--tools", "mail.py", "--policy", "law.yaml", "--json", INVITE).json
    assert "no-mail" in turn["executions"][0]["error_message"]


def test_a_protocol_server_on_a_terminal_says_what_it_waits_for(detent: Detent) -> None:
    terminal = Terminal(detent, "mcp")
    assert "an MCP client starts it" in terminal.until("mcpServers.*\n")
    terminal.process.send_signal(signal.SIGINT)
    terminal.until("interrupted")
    assert terminal.end() == 130


async def told(detent: Detent, url: str, *argv: str) -> tuple[int, str]:
    env = detent.env | {"DETENT_BASE_URL": url, "DETENT_MODEL": "openai:test", "DETENT_LANG": "en"}
    process = await asyncio.create_subprocess_exec(
        SCRIPT, *argv, cwd=detent.folder, env=env, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    out, _ = await asyncio.wait_for(process.communicate(), DEADLINE_S)
    assert process.returncode is not None
    return process.returncode, out.decode()


async def test_the_approval_screen_shows_what_hides_and_what_looks_alike(detent: Detent) -> None:
    hostile = "bob@pаypal.com\x1b[2K\u202emoc"
    async with serving(calling("email_send", to=hostile)) as server:
        code, out = await told(detent, server.url, "chat", "--tools", "mail.py", "I prefer tea")
    assert code == 3, out
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert "\\u001b[2K\\u202emoc" in out
    assert "U+0430 CYRILLIC SMALL LETTER A" in out


async def test_words_are_shown_once_and_an_object_is_not_shown_raw(detent: Detent) -> None:
    async with serving(said("Hel", "lo ", "there.")) as server:
        code, out = await told(detent, server.url, "chat", "I prefer tea")
    assert (code, out) == (0, "Hello there.\n")
    answer = json.dumps({"response": "Noted.", "memory_update": {"should_store": False, "entries": []}})
    async with serving(said(answer[:10], answer[10:])) as server:
        code, out = await told(detent, server.url, "chat", "I prefer tea")
    assert (code, out) == (0, "Noted.\n")


async def test_words_come_while_the_model_still_speaks(detent: Detent) -> None:
    go_on = asyncio.Event()

    async def slow(asked: Any, write: Any) -> None:
        await streaming(chunk({"content": "First words, "}), then=go_on.wait)(asked, write)  # type: ignore[arg-type]
        for piece in (chunk({"content": "last words."}), chunk({}, "stop"), DONE):
            await write(piece.encode())

    async with serving(slow) as server:
        env = detent.env | {"DETENT_BASE_URL": server.url, "DETENT_MODEL": "openai:test"}
        process = await asyncio.create_subprocess_exec(
            SCRIPT, "chat", "I prefer tea", cwd=detent.folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        assert await asyncio.wait_for(process.stdout.readexactly(13), DEADLINE_S) == b"First words, "
        go_on.set()
        assert await process.stdout.read() == b"last words.\n"
        assert await process.wait() == 0


def test_mistakes_are_told(detent: Detent) -> None:
    assert "no such file" in detent("chat", "--tools", "none.py", "hello", code=2).err
    (detent.folder / "empty.py").write_text("")
    assert "no effects" in detent("chat", "--tools", "empty.py", "hello", code=2).err
    assert "is not a session" in detent("chat", "--session", "../x", "hello", code=2).err
    assert "no tool `nothing`" in detent("chat", "--tool", "nothing", "hello", code=2).err


def test_old_turns_are_pruned_and_those_that_protect_a_key_are_not(detent: Detent) -> None:
    detent("chat", "--session", "s", "hello")
    turn = detent("chat", "--session", "s", "--tools", "mail.py", "--json", INVITE, code=3).json
    other = detent("chat", "--session", "t", "--tools", "mail.py", "--json", INVITE).json
    assert f"open in tools/call/1 of run {turn['run_id']}" in other["response"], "another process holds the key"
    detent("approve", turn["run_id"])
    assert "2 runs would be deleted; 1 older" in detent("prune", "--older-than", "0s", "--dry-run").out
    done = detent("prune", "--older-than", "0s", "--json").json
    assert (len(done["pruned"]), done["kept_for_keys"]) == (2, 1)
    again = detent("chat", "--session", "u", "--tools", "mail.py", "--json", INVITE).json
    assert "already done" in again["response"]
    assert "takes a time" in detent("prune", "--older-than", "soon", code=2).err
