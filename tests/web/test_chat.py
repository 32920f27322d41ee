"""A conversation with the assistant in a real browser: writing, approving and rejecting in place, coming back."""

import asyncio
import base64
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.effects.llm.scripted import DONE, Asked, Write, chunk, head, serving, streaming
from tests.effort import PATIENCE_S
from tests.web.conftest import Look
from tests.web.kit import Stage, gone, shown, told, until

DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)
LETTER = "Send a mail to bob@example.com saying hello"  # the same mail twice is refused, so each test has its own


def write(page: Page, text: str) -> None:
    """Say something, with Enter."""
    page.get_by_label("Message", exact=True).fill(text)
    page.get_by_label("Message", exact=True).press("Enter")


def mails(stage: Stage) -> list[str]:
    """What was really sent."""
    sent = stage.folder / "mails.txt"
    return sent.read_text().splitlines() if sent.exists() else []


def test_a_conversation_with_a_tool_that_is_approved_where_it_stands(stage: Stage, look: Look) -> None:
    stage.clear()
    before = mails(stage)
    page = look().go("#/inbox")
    page.get_by_role("link", name="Chat", exact=True).click()
    shown(page.get_by_text("What shall be done?"))
    page.evaluate("window.mark = 1")
    write(page, LETTER)
    page.wait_for_url("**/#/chat/*")
    session = page.url.rpartition("/")[2]
    expect(page.locator(".say.user")).to_have_text(f"You: {LETTER}")
    card = shown(page.get_by_role("article"))
    expect(card).to_contain_text("email.send")
    expect(card).to_contain_text("bob@example.com")
    assert mails(stage) == before
    card.get_by_role("button", name="Approve").click()
    gone(page.get_by_role("article"))
    expect(page.locator(".say.tool")).to_contain_text("email.send")
    expect(page.locator(".say.tool")).to_contain_text("completed")
    page.set_viewport_size({"width": 800, "height": 860})
    assert page.evaluate("document.documentElement.scrollWidth") <= 800  # what a tool was given widens nothing
    page.set_viewport_size({"width": 1280, "height": 860})
    expect(page.locator(".say.assistant").last).to_contain_text("sent")
    until(lambda: mails(stage) == [*before, "bob@example.com: hello"])
    expect(page.get_by_label("Message", exact=True)).to_have_value("")
    write(page, "thank you\u202e")
    expect(page.locator(".say.user")).to_have_count(2)
    expect(page.locator(".say.user").last).to_contain_text("U+202E")
    expect(page.locator(".say.assistant")).to_have_count(2)
    assert page.evaluate("window.mark") == 1
    again = look().go(f"#/chat/{session}")  # somebody else, with the link
    expect(again.locator(".say.user")).to_have_count(2)
    expect(again.locator(".say.tool")).to_have_count(1)
    expect(again.get_by_role("navigation", name="Conversations")).to_contain_text(LETTER[:40])
    again.get_by_role("link", name="how this came about").first.click()
    shown(again.get_by_role("tab", name="Timeline"))


def test_a_rejected_tool_is_not_used_and_a_turn_from_elsewhere_appears(stage: Stage, look: Look) -> None:
    stage.clear()
    before = mails(stage)
    page = look(locale="zh-CN").go("#/chat")
    page.get_by_label("消息", exact=True).fill("给 bob@example.com 发送会议邀请邮件")
    page.get_by_role("button", name="发送").click()
    page.get_by_role("button", name="拒绝…").click()
    page.get_by_label("为什么").fill("不要")
    page.get_by_role("button", name="拒绝", exact=True).click()
    gone(page.get_by_role("article"))
    expect(page.locator(".say.tool")).to_have_count(1)
    assert mails(stage) == before
    session = page.url.rpartition("/")[2]
    other = look().go(f"#/chat/{session}")
    expect(other.locator(".say.user")).to_have_count(1)
    write(other, LETTER.replace("hello", "welcome"))
    expect(page.locator(".say.user")).to_have_count(2)  # live, without a reload
    shown(page.get_by_role("article"))
    shown(other.get_by_role("article")).get_by_role("button", name="Approve").click()
    gone(other.get_by_role("article"))
    shown(page.locator(".deciding.decided"))  # what somebody else decides stays, and says so


def test_a_phone_can_talk_and_approve(stage: Stage, look: Look) -> None:
    stage.clear()
    looker = look(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = looker.go("#/chat")
    page.get_by_label("Message", exact=True).fill(LETTER.replace("bob", "ann"))
    page.get_by_role("button", name="Send").tap()
    shown(page.get_by_role("article"))
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_role("button", name="Approve").tap()
    gone(page.get_by_role("article"))
    expect(page.locator(".say.assistant").last).to_contain_text("sent")


def test_what_cannot_be_sent_stays_in_its_place(stage: Stage, look: Look) -> None:
    looker = look()
    looker.may_be_refused = True
    page = looker.go("#/chat/not%20a%20session")
    shown(page.get_by_text("Nothing was said here yet"))
    write(page, "hello")
    told(page, "session")
    expect(page.get_by_label("Message", exact=True)).to_have_value("hello")


@contextmanager
def model(begin: threading.Event, word: threading.Event, heard: list[Asked]) -> Iterator[str]:
    """A model's server that begins an answer when it is told to, and ends it when it is given the word; its address.

    Its second answer is an object that never ends.
    """

    async def script(asked: Asked, write: Write) -> None:
        heard.append(asked)
        if len(heard) == 2:
            begun = [chunk({"content": piece}) for piece in ('{"response"', ': "Half an answer')]
            await streaming(*begun, then=lambda: asyncio.to_thread(end.wait))(asked, write)  # type: ignore[arg-type]
            return
        await write(head(200, "text/event-stream"))
        await asyncio.to_thread(begin.wait, PATIENCE_S)
        for piece in ("Once upon", " a time"):
            await write(chunk({"content": piece}).encode())
        await asyncio.to_thread(word.wait, PATIENCE_S)
        for rest in (chunk({"content": ", **the end**."}), chunk({}, "stop"), DONE):
            await write(rest.encode())

    async def serve(address: Future[str], end: threading.Event) -> None:
        async with serving(script) as server:
            address.set_result(server.url)
            await asyncio.to_thread(end.wait)

    address: Future[str] = Future()
    end = threading.Event()
    with ThreadPoolExecutor(1) as other:  # this thread has playwright's loop
        other.submit(lambda: asyncio.run(serve(address, end)))
        try:
            yield address.result(PATIENCE_S)
        finally:
            begin.set()
            word.set()
            end.set()


def stop_and_attach(page: Page, heard: list[Asked]) -> None:
    """An answer is stopped with Esc; commands are for the page; a file goes with the next message."""
    write(page, "I prefer objects")
    expect(page.locator(".say.assistant").last).to_have_text("Assistant: Half an answer")
    page.keyboard.press("Escape")
    expect(page.locator(".note.harm")).to_contain_text("stopped on the page")
    write(page, "/nothing")
    told(page, "there is no command /nothing")
    page.get_by_label("Message", exact=True).fill("/pl")
    page.get_by_label("Message", exact=True).press("Tab")
    expect(page.get_by_label("Message", exact=True)).to_have_value("/plan ")
    page.get_by_label("Message", exact=True).press("Enter")
    expect(page.locator(".composer")).to_contain_text("planning: nothing is changed")
    for command, said in (
        ("/tools", "no tools"),
        ("/sessions", "messages"),
        ("/verbose", "verbose"),
        ("/verbose", "brief"),
    ):
        write(page, command)
        expect(page.locator(".composer")).to_contain_text(said)
    write(page, "/resume nobody")
    told(page, "`nobody` is not one conversation")
    page.get_by_label("Message", exact=True).fill("objects")
    page.get_by_label("Message", exact=True).press("ArrowUp")
    expect(page.get_by_label("Message", exact=True)).to_have_value("I prefer objects")
    expect(page.locator(".spent")).to_contain_text("openai:test")
    expect(page.locator(".spent")).to_contain_text("tokens")
    page.locator(".composer input[type=file]").set_input_files(
        {"name": "note.txt", "mimeType": "text/plain", "buffer": b"the harbour is foggy"}
    )
    expect(page.get_by_role("button", name="note.txt")).to_have_count(1)
    page.locator(".composer input[type=file]").set_input_files(
        {"name": "dot.png", "mimeType": "image/png", "buffer": DOT}
    )
    field = page.get_by_label("Message", exact=True)
    field.fill("I prefer @mi")
    shown(page.get_by_role("button", name="mine.txt"))
    field.press("Tab")
    expect(field).to_have_value("I prefer @mine.txt ")
    field.press_sequentially("and @bob")
    field.press("Enter")
    expect(page.locator(".say.user")).to_have_count(3)
    until(lambda: len(heard) == 3)
    expect(page.locator(".say.assistant").last).to_have_text("Assistant: Once upon a time, the end.")
    said = heard[2].body["messages"]
    words, image = said[-1]["content"]
    assert words["text"] == (
        "I prefer @mine.txt and @bob\n\nFile note.txt:\n```\nthe harbour is foggy\n```"
        "\n\nFile mine.txt:\n```\nof the project\n```"
    )
    assert image["image_url"]["url"].startswith("data:image/png;base64,")
    expect(page.locator(".attached img")).to_have_count(1)
    assert "The user wants a plan first" in said[0]["content"]
    assert any("[STOPPED]" in str(one["content"]) for one in said)


def test_an_answer_is_seen_while_it_is_made_also_by_who_comes_late(look: Look, tmp_path: Path) -> None:
    begin, word, heard = threading.Event(), threading.Event(), list[Asked]()
    with model(begin, word, heard) as url:
        stage = Stage(tmp_path / "other", DETENT_MODEL="openai:test", DETENT_BASE_URL=url, OPENAI_API_KEY="none")
        try:
            begin.set()  # it may be said before the page has begun to listen
            page = look(stage).go("#/chat")
            write(page, "I prefer tea")
            expect(page.locator(".say.assistant")).to_contain_text("Once upon a time")
            late = look(stage).go(page.url.removeprefix(f"{stage.address}/"))
            for one in (page, late):
                expect(one.locator(".say.assistant")).to_have_text("Assistant: Once upon a time")
            word.set()
            for one in (page, late):
                expect(one.locator(".say.assistant b")).to_have_text("the end")
                expect(one.locator(".say.assistant")).to_have_text("Assistant: Once upon a time, the end.")
                expect(one.locator(".say.assistant")).to_have_count(1)
            late.goto("about:blank")
            (stage.folder / "mine.txt").write_text("of the project")
            stop_and_attach(page, heard)
            page.goto("about:blank")
        finally:
            stage.close()
