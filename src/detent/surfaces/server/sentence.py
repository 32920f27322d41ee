"""Errors that a journal holds, in the reader's language: they are stored in English, and told to whoever looks."""

from typing import Annotated

import msgspec
from msgspec import Meta

from detent.kit.http.request_base import Asked
from detent.kit.http.route import HttpCall, Route
from detent.surfaces.server.refusal import say_to
from detent.surfaces.server.server_context import HttpServer

SentenceText = Annotated[str, Meta(max_length=4000)]


class SentencesBody(Asked, frozen=True):
    """Some sentences, as they are stored."""

    texts: Annotated[tuple[SentenceText, ...], Meta(max_length=100)]


class Sentences(msgspec.Struct, frozen=True):
    """The same, each in its place."""

    texts: list[str]


async def translate_sentences(room: HttpServer, call: HttpCall) -> Sentences:  # noqa: ARG001  # nothing is looked up
    """Each in the language that the request asks for; one that is not known stays as it is."""
    return Sentences([say_to(call.request, text) for text in call.body.texts])


ROUTES = (
    Route("POST", "/api/sentences", translate_sentences, "Stored errors in the reader's language", Sentences,
          takes=SentencesBody, tag="server",
          about="A journal holds errors in English. Of those that are detent's own, this gives the sentence in the "
          "language of `Accept-Language` (`zh`, else English)."),
)  # fmt: skip
