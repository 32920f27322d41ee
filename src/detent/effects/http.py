"""The effect `http`: one request, and an honest word about whether it left.

    method     GET by default
    url        http or https
    headers    a mapping; `Idempotency-Key: <the contract's key>` is added unless it is there
    json       a value to send as JSON, or
    body       a text to send as it is
    timeout    seconds for the whole exchange
    follow     true: follow redirects
    ok_status  further statuses, of 400 and more, that mean success

The result is `{status, headers, json or text, success, truncated}`. A status of 400 or more is the error
`tool_failure.http`, with that result. Of the body 1 MiB is kept; a `note` says so if there was more.

GET, HEAD and OPTIONS are pure, PUT and DELETE idempotent, everything else is irreversible, unless the action says
otherwise. What counts as evidence after an irreversible request: 2xx and 3xx are done, 4xx is a no. 408, 409, 425, 5xx,
a cut connection, a time-out, an answer that cannot be read leave it unknown. The transport tells us when the first byte
of the request goes out: trouble before that is a failure, since nothing happened. A redirect that leads from the deed
to a page about it has done the deed: if that page cannot be had, the action fails and its key stays taken.

Each call opens its own connection: a kept one may be closed by the server just as a request is written to it, and then
nobody knows whether it arrived. What is costly, the TLS settings, is made once.
"""

import asyncio
import codecs
import functools
import re
import string
import urllib.parse
from typing import TYPE_CHECKING, Any

import msgspec

from detent.core.contract import Contract
from detent.core.effect_type import Declared, Effect, EffectFailed, Kind, Outcome, OutcomeUnknown, PartialFailure
from detent.core.value import plain
from detent.effects.arguments import Arguments, invalid
from detent.effects.call_fact import http_facts
from detent.errors import Refused

if TYPE_CHECKING:
    import ssl

    import httpx2

KINDS: dict[str, Kind] = {
    "": "pure",  # GET, where no method is given
    "GET": "pure",
    "HEAD": "pure",
    "OPTIONS": "pure",
    "PUT": "idempotent",
    "DELETE": "idempotent",
}
KNOWN = "method url! headers json body timeout follow ok_status"
UNDECIDED = (408, 409, 425)  # statuses below 500 that do not say whether it was done
BODY_BYTES_MAX = 1024 * 1024
CONNECT_S = 10.0
TIMEOUT_S = 60.0


async def _http(contract: Contract) -> Outcome:
    """Send one HTTP request and take the answer."""
    given = Arguments("http", contract.input, KNOWN)
    timeout_s, ok_status = given.seconds("timeout"), given.numbers("ok_status", ())
    exchange = Exchange(_library(), given, contract)
    try:
        async with asyncio.timeout(timeout_s) as limit:
            return exchange.judge(await exchange.perform(), ok_status)
    except TimeoutError as error:
        if not limit.expired():
            raise exchange.failure(str(error) or "timed out", "tool_failure") from error
        raise exchange.failure(f"no answer within {timeout_s:g} s", "timeout.action") from error


http = Effect(
    "http",
    _http,
    Declared(kind="irreversible", timeout_s=TIMEOUT_S, kind_by="method", kinds=KINDS),
    about="Send one HTTP request and take the answer.",
    facts=http_facts,
    takes=KNOWN,
)


def _library() -> Any:
    """httpx2, which is an extra and takes a while to load."""
    try:
        import httpx2  # noqa: PLC0415
    except ImportError as error:
        message = "`http` needs the package httpx2: pip install 'detent[client]'"
        raise EffectFailed(message, type="tool_failure.not_found") from error
    return httpx2


@functools.cache
def tls() -> "ssl.SSLContext":
    """The TLS settings of every client here; making them is the costly part of making a client."""
    context: ssl.SSLContext = _library().create_ssl_context()
    return context


class Exchange:
    """One request on its way, and what is known of it."""

    def __init__(self, library: Any, given: Arguments, contract: Contract) -> None:
        self.library = library
        self.is_irreversible = contract.is_irreversible
        self.method = _method(given)
        self.url = self._url(given.text("url"))
        self.follow = given.flag("follow")
        self.content = _content(given)
        self.headers = _headers(given, contract.key)
        self.has_left = False
        self.is_redirected = False  # from the deed to a page about it
        self.stream: Any = None
        self._had_left = False

    def _url(self, text: str) -> "httpx2.URL":
        try:
            parts = urllib.parse.urlsplit(text)
            if parts.scheme not in ("http", "https") or not parts.hostname or re.search(r"\s", parts.netloc):
                raise invalid("`url` of `http` must begin with http:// or https:// and name a host")
            _ = parts.port  # out of range is an error, which the library would only notice on its way
            url: httpx2.URL = self.library.URL(text)
        except (self.library.InvalidURL, ValueError) as error:
            raise invalid(f"`url` of `http` is not one: {error}") from error
        return url

    def judge(self, result: dict[str, Any], ok_status: tuple[int, ...]) -> Outcome:
        """What an answer says about the deed."""
        status: int = result["status"]
        if status < 400 or status in ok_status:
            return Outcome(result | {"success": True})
        said = f"{self._where()} answered {status}"
        if not self.is_irreversible or self.is_redirected:
            raise PartialFailure(said, "tool_failure.http", result)
        if status >= 500 or status in UNDECIDED:
            raise OutcomeUnknown(said, result)
        raise EffectFailed(said, "tool_failure.http", result)

    async def perform(self) -> dict[str, Any]:
        """Send it, take the answer, and translate every kind of trouble."""
        library = self.library
        limits = library.Timeout(None, connect=CONNECT_S)  # the whole exchange is limited outside
        try:
            async with library.AsyncClient(verify=tls(), timeout=limits, follow_redirects=self.follow) as client:
                sending = client.stream(
                    self.method,
                    self.url,
                    headers=self.headers,
                    content=self.content,
                    extensions={"trace": self._trace},
                )
                async with sending as response:
                    self.is_redirected = response.request.method != self.method
                    return await _answer(response)
        except library.TimeoutException as error:
            raise self.failure("could not connect in time", "timeout.action") from error
        except (library.HTTPError, library.InvalidURL, library.StreamError) as error:
            raise self.failure(str(error) or type(error).__name__, "tool_failure") from error
        except UnicodeEncodeError as error:
            if self.has_left:  # it was redirected to an address that cannot be written
                raise self.failure(error.reason, "tool_failure") from error
            raise invalid(f"a header of `http` has a character that HTTP cannot carry: {error.reason}") from error

    async def _trace(self, event: str, info: dict[str, Any]) -> None:
        if event.endswith("send_request_headers.started"):
            self._had_left, self.has_left = self.has_left, True
        elif event.endswith("connect_tcp.complete"):
            self.stream = info["return_value"]
        elif event.endswith("start_tls.failed"):
            await self.stream.aclose()  # the library forgets it if the cause is a cancel
        elif event.endswith("send_request_headers.failed"):
            # Our own side may have refused to write such headers; then only an earlier request, if any, was sent.
            self.has_left = self._had_left or type(info["exception"]).__name__ != "LocalProtocolError"

    def failure(self, problem: str, type: str) -> Exception:
        """The exception that says what is known: nothing happened, or nobody knows."""
        if self.has_left and self.is_irreversible:
            return OutcomeUnknown(f"{self._where()}: {problem}; the request had been sent")
        if self.has_left:
            return PartialFailure(f"{self._where()}: {problem}", type=type)
        return EffectFailed(f"{self._where()}: {problem}", type=type)

    def _where(self) -> str:
        return f"{self.method} {self.url.scheme}://{self.url.netloc.decode().rpartition('@')[2]}"


def _method(given: Arguments) -> str:
    method = given.text("method", "GET").upper()
    if not re.fullmatch(r"[A-Z]{1,20}", method):
        raise invalid("`method` of `http` must be a word such as GET or POST")
    return method


def _content(given: Arguments) -> bytes | None:
    if "json" in given and "body" in given:
        raise invalid("`http` takes `json` or `body`, not both")
    if "json" in given:
        return msgspec.json.encode(given.any("json"))
    return given.text("body").encode() if "body" in given else None


def _headers(given: Arguments, key: str) -> dict[str, str]:
    headers = given.texts("headers")
    names = {name.lower() for name in headers}
    extra = {}
    if key and "idempotency-key" not in names:
        # A key may be in any language and a header may not; what is plain stays as it is.
        extra["Idempotency-Key"] = urllib.parse.quote(key, safe=string.printable[:95])
    if "json" in given and "content-type" not in names:
        extra["Content-Type"] = "application/json"
    return headers | extra


async def _answer(response: "httpx2.Response") -> dict[str, Any]:
    body, is_cut = await _body(response)
    result: dict[str, Any] = {
        "status": response.status_code,
        "headers": dict(response.headers),
        "success": False,  # until it is judged
        "truncated": is_cut,
    }
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not is_cut and (kind == "application/json" or kind.endswith("+json")):
        try:
            return result | {"json": plain(msgspec.json.decode(body))}
        except (msgspec.DecodeError, RecursionError, Refused):
            result["note"] = "the body calls itself JSON and is not"
    elif is_cut:
        result["note"] = f"only the first {BODY_BYTES_MAX:,} bytes of the body are kept"
    return result | {"text": _text(body, response.charset_encoding)}


async def _body(response: "httpx2.Response") -> tuple[bytes, bool]:
    """The body, and whether there was more than is kept."""
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            return bytes(body[:BODY_BYTES_MAX]), True
    return bytes(body), False


def _text(body: bytes, encoding: str | None) -> str:
    try:
        decoder = codecs.getincrementaldecoder(encoding or "utf-8")("replace")
    except LookupError:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return decoder.decode(body, final=len(body) < BODY_BYTES_MAX)
