"""The API of GitHub, or of a server that speaks like it: issues, pull requests and what CI says of a commit.

What comes from there was written by others. It is read as data, cut, and handed on as material, never as an order. The
token is read from the environment for each call, and is in no journal.
"""

import os
import re
from typing import Any, Literal
from urllib.parse import quote

import msgspec

from detent.agents.coding.settings import ForgeSettings
from detent.core.contract import Contract
from detent.core.effect_type import Outcome, PartialFailure
from detent.effects.http import http
from detent.errors import Refused

TEXT_MAX = 16_000
CHECKS_MAX = 100
REDNESS = ("failure", "timed_out", "cancelled", "action_required", "startup_failure", "error")
_ISSUE = re.compile(r"^(?:https?://[^/]+/)?(?P<repo>[\w-][\w.-]*/[\w-][\w.-]*)(?:#|/issues/)(?P<number>\d+)/?$")


class IssueName(msgspec.Struct, frozen=True):
    """Which issue of which repository."""

    repo: str
    number: int


class ForgeIssue(msgspec.Struct, frozen=True):
    """What somebody wants."""

    name: IssueName
    title: str
    body: str
    url: str


class PullRequest(msgspec.Struct, frozen=True):
    """A pull request that is open, or was."""

    number: int
    url: str


class CiResult(msgspec.Struct, frozen=True):
    """One check that CI made of a commit."""

    name: str
    state: Literal["running", "green", "red"]
    text: str = ""
    url: str = ""


def parse_issue(text: str) -> IssueName:
    """`OWNER/REPO#N`, or the address of the issue."""
    found = _ISSUE.match(text.strip())
    if not found:
        raise Refused(f"`{text}` is no issue; write it as OWNER/REPO#N")
    return IssueName(found["repo"], int(found["number"]))


class Forge:
    """One server, as its settings say."""

    def __init__(self, settings: ForgeSettings) -> None:
        self._settings = settings

    async def read_issue(self, name: IssueName) -> ForgeIssue:
        """An issue."""
        found = await self._get(f"/repos/{name.repo}/issues/{name.number}")
        if not isinstance(found, dict) or not found.get("title"):
            raise Refused(f"there is no issue {name.repo}#{name.number}, or the token may not see it")
        return ForgeIssue(name, _text(found, "title")[:300], _text(found, "body"), _text(found, "html_url")[:500])

    async def find_base(self, repo: str) -> str:
        """The branch that pull requests are made against."""
        found = await self._get(f"/repos/{repo}")
        return _text(found, "default_branch") or "main"

    async def find_pull(self, repo: str, branch: str) -> PullRequest | None:
        """The pull request of a branch, open or not."""
        head = quote(f"{repo.partition('/')[0]}:{branch}", safe="")
        found = await self._get(f"/repos/{repo}/pulls?state=all&head={head}")
        first = found[0] if isinstance(found, list) and found else None
        return _pull(first) if isinstance(first, dict) else None

    async def open_pull(self, repo: str, branch: str, base: str, title: str, body: str) -> PullRequest:
        """Open a draft; whether it happened is told like of every irreversible request."""
        given = {"title": title, "head": branch, "base": base, "body": body, "draft": self._settings.draft}
        return _pull(await self._send("POST", f"/repos/{repo}/pulls", given))

    async def list_results(self, repo: str, commit: str) -> list[CiResult]:
        """What CI says of a commit so far: its check runs, and the older statuses."""
        runs = await self._get(f"/repos/{repo}/commits/{commit}/check-runs?per_page={CHECKS_MAX}")
        statuses = await self._get(f"/repos/{repo}/commits/{commit}/status")
        found = [_read_run(one) for one in _list(runs, "check_runs")]
        return found + [_read_status(one) for one in _list(statuses, "statuses")]

    async def _get(self, path: str) -> Any:
        try:
            return await self._send("GET", path)
        except PartialFailure as error:
            status = error.result.get("status") if isinstance(error.result, dict) else None
            if status in (401, 403):
                name = self._settings.token
                raise Refused(
                    f"{self._settings.url} says no ({status}); is ${name} a token that may do that?"
                ) from None
            if status == 404:
                return None
            raise

    async def _send(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"Accept": "application/vnd.github+json", "User-Agent": "detent"}
        token = os.environ.get(self._settings.token, "")
        if token:
            headers["Authorization"] = f"Bearer {token}"
        given = {"method": method, "url": f"{self._settings.url.rstrip('/')}{path}", "headers": headers, "timeout": 30}
        kind: Literal["pure", "irreversible"] = "pure" if method == "GET" else "irreversible"
        contract = Contract("forge", method.lower(), "http", kind=kind, input=given | ({"json": body} if body else {}))
        outcome = await http.perform(contract)
        result = outcome.result if isinstance(outcome, Outcome) else {}
        return result.get("json") if isinstance(result, dict) else None


def _text(found: Any, name: str) -> str:
    value = found.get(name) if isinstance(found, dict) else None
    return value[:TEXT_MAX] if isinstance(value, str) else ""


def _list(found: Any, name: str) -> list[dict[str, Any]]:
    value = found.get(name) if isinstance(found, dict) else None
    return [one for one in value[:CHECKS_MAX] if isinstance(one, dict)] if isinstance(value, list) else []


def _pull(found: Any) -> PullRequest:
    number = found.get("number") if isinstance(found, dict) else None
    if not isinstance(number, int):
        raise Refused("the answer of the server names no pull request")
    return PullRequest(number, _text(found, "html_url")[:500])


def _read_run(one: dict[str, Any]) -> CiResult:
    conclusion, output = _text(one, "conclusion"), one.get("output")
    told = "\n".join(filter(None, (_text(output, name) for name in ("title", "summary", "text"))))
    if _text(one, "status") != "completed":
        return CiResult(_text(one, "name")[:200], "running")
    return CiResult(_text(one, "name")[:200], "red" if conclusion in REDNESS else "green", told, _text(one, "html_url"))


def _read_status(one: dict[str, Any]) -> CiResult:
    state = _text(one, "state")
    known: dict[str, Literal["running", "green", "red"]] = {"pending": "running", "success": "green"}
    told, url = _text(one, "description"), _text(one, "target_url")
    return CiResult(_text(one, "context")[:200], known.get(state, "red"), told, url)
