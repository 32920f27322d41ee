"""`http`: a planner behind the protocol's two endpoints, and the reading of its stream.

The body is cut at line ends before it is decoded, so a stream may be cut anywhere, inside a character too; a last line
without its newline counts. One call is one try: trying again is the machine's business.
"""

import os
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec

from detent.agents.notebook.port import Advisers, PlannerFailed

BODY_MAX = 32 * 1024 * 1024
TIMEOUT_S = 120.0
CONNECT_S = 10.0
PASSING = (408, 425, 429)


def remote(settings: dict[str, Any]) -> Advisers:
    """The planner and generator behind a URL."""
    there = Remote(
        str(settings["url"]),
        timeout_s=float(settings.get("timeout_s") or TIMEOUT_S),
        is_stream=settings.get("stream") is not False,
        token_env=str(settings.get("token_env") or ""),
    )
    return Advisers(there, there)


class Remote:
    """`POST {url}/planning` and `POST {url}/generating`."""

    def __init__(self, url: str, *, timeout_s: float = TIMEOUT_S, is_stream: bool = True, token_env: str = "") -> None:
        self.url = url.rstrip("/")
        self._timeout_s, self._is_stream, self._token_env = timeout_s, is_stream, token_env

    async def plan(self, observation: dict[str, Any], feedback: dict[str, Any] | None = None) -> dict[str, Any]:
        """Ask `/planning`."""
        body = payload(observation, is_stream=False)
        if feedback is not None:
            body["behavior_feedback"] = feedback
        lines = bytearray()
        async for chunk in self._send("planning", body):
            lines += chunk
        try:
            answer = msgspec.json.decode(bytes(lines))
        except (msgspec.DecodeError, RecursionError) as error:
            raise PlannerFailed(f"{self.url}/planning answered something that is not JSON: {error}") from None
        if not isinstance(answer, dict):
            raise PlannerFailed(f"{self.url}/planning answered a {type(answer).__name__}, not an object")
        return answer

    async def generate(self, observation: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """Ask `/generating`, action by action as the stream brings them."""
        body = payload(observation, is_stream=self._is_stream)
        reader = ActionLines()
        async for chunk in self._send("generating", body):
            for action in reader.feed(chunk):
                yield action
        for action in reader.end():
            yield action

    async def _send(self, path: str, body: dict[str, Any]) -> AsyncIterator[bytes]:
        import httpx2  # noqa: PLC0415  # an extra that takes a while to load

        headers = {"Content-Type": "application/json", "Accept": "application/x-ndjson, application/json"}
        token = os.environ.get(self._token_env, "") if self._token_env else ""
        if token:
            headers["Authorization"] = f"Bearer {token}"
        limits = httpx2.Timeout(self._timeout_s, connect=CONNECT_S)
        size = 0
        try:
            async with (
                httpx2.AsyncClient(timeout=limits) as client,
                client.stream(
                    "POST", f"{self.url}/{path}", content=msgspec.json.encode(body), headers=headers
                ) as reply,
            ):
                if not reply.is_success:
                    await reply.aread()
                    is_passing = reply.status_code >= 500 or reply.status_code in PASSING
                    said = reply.text[:300].strip()
                    raise PlannerFailed(
                        f"{self.url}/{path} answered {reply.status_code}: {said}", is_passing=is_passing
                    )
                async for chunk in reply.aiter_bytes():
                    size += len(chunk)
                    if size > BODY_MAX:
                        raise PlannerFailed(f"{self.url}/{path} sent more than {BODY_MAX:,} bytes", is_passing=False)
                    yield chunk
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
            is_passing = not isinstance(error, httpx2.InvalidURL | httpx2.UnsupportedProtocol)
            problem = str(error) or type(error).__name__
            raise PlannerFailed(f"{self.url}/{path}: {problem}", is_passing=is_passing) from error


def payload(observation: dict[str, Any], *, is_stream: bool) -> dict[str, Any]:
    """A request as both endpoints take it."""
    body: dict[str, Any] = {"observation": observation, "options": {"stream": is_stream}}
    notebook_id = observation["context"].get("notebook", {}).get("notebook_id")
    return {**body, "notebook_id": notebook_id} if notebook_id else body


class ActionLines:
    """A stream of actions, one JSON object per line; or one object with all of them in `actions`."""

    def __init__(self) -> None:
        self._rest = b""
        self._number = 0

    def feed(self, chunk: bytes) -> Iterator[dict[str, Any]]:
        """The actions that are complete with this piece."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            yield from self._line(line)

    def end(self) -> Iterator[dict[str, Any]]:
        """The action of a last line without newline."""
        line, self._rest = self._rest, b""
        yield from self._line(line)

    def _line(self, line: bytes) -> Iterator[dict[str, Any]]:
        self._number += 1
        if not line.strip():
            return
        try:
            found = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            yield {"warning": f"line {self._number} of the stream is not JSON and was skipped: {error}"}
            return
        if isinstance(found, dict) and isinstance(found.get("actions"), list):
            yield from (one for one in found["actions"] if isinstance(one, dict))
        elif isinstance(found, dict):
            yield found
        else:
            yield {"warning": f"line {self._number} of the stream is not an object and was skipped"}
