"""People at the server: who somebody is comes from what they bring, and ends when that ends."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from detent.core.people import Person
from detent.kit.login_link import make_link, use_link
from detent.kit.people_file import PeopleFile
from detent.surfaces.server.rate_limit import Pace
from detent.surfaces.server.session import Sessions
from detent.surfaces.server.setting import Login, Proxy, ServerLimits, ServerSettings
from detent.surfaces.server.wrong_token import WrongTokens
from tests.surfaces.server.people import NO_USER, token_of, with_people, write_people
from tests.surfaces.server.stage import stage

ANSWER = "/api/runs/{run}/contracts/pay/pay/1/answer"


async def begin(client: Any) -> str:
    """A run that asks two people; its id."""
    said = await client.post("/api/runs", json={"definition": "pay.yaml", "input": {}})
    assert said.status_code == 201, said.text
    return str(said.json()["run_id"])


async def log_of(client: Any, run_id: str) -> list[dict[str, Any]]:
    """The events of a run."""
    said = await client.get(f"/api/runs/{run_id}/log")
    return [entry["event"] for entry in said.json()["entries"]]


async def test_nobody_gets_in_without_saying_who_they_are(tmp_path: Path) -> None:
    async with with_people(tmp_path) as (at, _):
        for path in ("/api/runs", "/api/inbox", "/api/events", "/api/openapi.json", "/mcp"):
            answer = await at.client.get(path)
            assert answer.status_code == 401, path
            assert answer.json()["error"]["type"] == "login_wanted"
            assert answer.headers["www-authenticate"] == "Bearer"
        assert (await at.get("/api/me"))["name"] == ""
        assert (await at.get("/api/me"))["has_people"]
        assert (await at.client.get("/")).status_code == 200
        assert (await at.client.get("/healthz")).status_code == 200


async def test_a_session_begins_with_a_token_and_its_cookie_is_for_this_server_only(tmp_path: Path) -> None:
    async with with_people(tmp_path) as (at, _):
        said = await at.client.post("/api/login", json={"token": token_of("ann")})
        assert (said.json()["name"], said.json()["roles"], said.json()["log_out"]) == ("ann", ["approver"], "session")
        cookie = said.headers["set-cookie"]
        for part in ("HttpOnly", "SameSite=Strict", "Path=/", f"detent_session_{at.port}="):
            assert part in cookie
        assert "Secure" not in cookie
        assert (await at.get("/api/me"))["name"] == "ann"
        value = cookie.partition("=")[2].partition(";")[0]
        kept = b"".join(one.read_bytes() for one in (tmp_path / ".detent" / "sessions").iterdir())
        names = " ".join(one.name for one in (tmp_path / ".detent" / "sessions").iterdir())
        assert value.encode() not in kept
        assert value not in names
        host = {"Origin": f"https://{at.served.address.partition('//')[2]}"}
        over_tls = await at.client.post("/api/login", json={"token": token_of("ann")}, headers=host)
        assert over_tls.headers["set-cookie"].startswith("__Host-detent_session")
        assert "; Secure" in over_tls.headers["set-cookie"]


async def test_two_persons_meet_a_quorum_and_every_refusal_is_in_the_log(tmp_path: Path) -> None:
    async with with_people(tmp_path) as (_, enter):
        opal, ann, bob, kim = [await enter(name) for name in ("opal", "ann", "bob", "kim")]
        run_id = await begin(opal)
        path = ANSWER.format(run=run_id)
        for who, sees in ((ann, True), (opal, False), (kim, False)):
            (item,) = (await who.get("/api/inbox")).json()["items"]
            assert item["question"]["may"]["answer"] is sees
            assert item["question"]["needed"] == {"count": 2, "names": ["ann", "bob"]}
            assert (await who.get(f"/api/runs/{run_id}")).json()["waiting"][0]["may"]["answer"] is sees
        assert "takes the role approver" in item["question"]["may"]["why"]
        assert (await kim.post(path, json={"approved": True, "by": "ann"})).status_code == 403
        assert (await kim.post(path, json={"approved": True})).status_code == 403
        assert (await ann.post(path, json={"approved": True})).status_code == 200
        (item,) = (await ann.get("/api/inbox")).json()["items"]
        assert "already approved" in item["question"]["may"]["why"]
        assert item["question"]["answered"] == [{"by": "ann", "known_by": "session"}]
        assert item["question"]["needed"] == {"count": 1, "names": ["bob"]}
        assert "already approved" in (await ann.post(path, json={"approved": True})).json()["error"]["message"]
        assert (await ann.post(path, json={"approved": True, "by": "bob"})).status_code == 403
        assert (await bob.post(path, json={"approved": True})).json()["status"] == "completed"
        tried = [one for one in await log_of(ann, run_id) if one.get("name") == "@attempt"]
        assert [one.get("spoken_by") or one["by"] for one in tried] == ["kim", "kim", "ann", "ann"]


async def test_a_viewer_changes_nothing_that_the_assistant_keeps(tmp_path: Path) -> None:
    changes = {
        "/api/memories": {"category": "fact", "key": "k", "value": "v"},
        "/api/plans": {"title": "t"},
        "/api/settings": {"instructions": "i"},
    }
    async with with_people(tmp_path) as (_, enter):
        kim, opal = await enter("kim"), await enter("opal")
        for path, body in changes.items():
            assert "takes the role operator" in (await kim.post(path, json=body)).json()["error"]["message"]
            assert (await opal.post(path, json=body)).status_code == 200
        for path in ("/api/co/s/archive", "/api/memories/1/forget"):
            assert (await kim.post(path, json={})).status_code == 403


async def test_after_a_log_out_the_cookie_is_worth_nothing_and_its_use_is_written_down(tmp_path: Path) -> None:
    async with with_people(tmp_path) as (_, enter):
        ann, ada, thief = await enter("ann"), await enter("ada"), await enter()
        (stolen,) = list(ann.cookies.jar)
        headers = {"Cookie": f"{stolen.name}={stolen.value}"}
        assert (await thief.get("/api/me", headers=headers)).json()["name"] == "ann"
        out = await ann.post("/api/logout", json={})
        assert "Max-Age=0" in out.headers["set-cookie"]
        for _ in range(2):
            refused = await thief.get("/api/inbox", headers=headers)
            assert refused.status_code == 401
            assert "Max-Age=0" in refused.headers["set-cookie"]
        tried = [one for one in await log_of(ada, "detent_people") if one.get("name") == "ATTEMPTED"]
        assert [(one["by"], one["data"]["verb"]) for one in tried] == [("ann", "log in")]
        assert stolen.value not in str(tried)


@pytest.mark.parametrize("number", [2, None])
async def test_a_new_token_or_a_removal_ends_every_session_and_stream(tmp_path: Path, number: int | None) -> None:
    async with with_people(tmp_path) as (_, enter):
        ann, program = await enter("ann"), await enter("ann", is_program=True)

        async def listen(client: Any) -> None:
            async with client.stream("GET", "/api/events", timeout=None) as answer:
                assert answer.status_code == 200
                begun.release()
                with pytest.raises(Exception, match=r"closed|incomplete|disconnect"):
                    async for _ in answer.aiter_bytes():
                        pass

        begun = asyncio.Semaphore(0)
        streams = [asyncio.create_task(listen(ann)), asyncio.create_task(listen(program))]
        for _ in streams:
            await begun.acquire()
        write_people(tmp_path / ".detent", ann=number)
        assert (await ann.get("/api/inbox")).status_code == 401
        assert (await program.get("/api/inbox")).status_code == 401
        await asyncio.gather(*streams)


async def test_a_login_gets_a_new_session_and_the_old_one_ends(tmp_path: Path) -> None:
    async with with_people(tmp_path) as (at, enter):
        fixed = f"detent_session_{at.port}={'a' * 43}"
        said = await at.client.post("/api/login", json={"token": token_of("ann")}, headers={"Cookie": fixed})
        assert "a" * 43 not in said.headers["set-cookie"]
        first = next(iter(at.client.cookies.jar)).value
        await at.client.post("/api/login", json={"token": token_of("bob")})
        other = await enter()
        assert (await other.get("/api/me", headers={"Cookie": f"detent_session_{at.port}={first}"})).status_code == 401
        assert (await at.get("/api/me"))["name"] == "bob"


async def test_a_link_logs_in_once_and_not_for_long(tmp_path: Path) -> None:
    home = tmp_path / ".detent"
    async with with_people(tmp_path) as (at, enter):
        people = PeopleFile(home).current()
        assert people is not None
        link = make_link(home, people.by_name["bob"])
        assert (await at.client.post("/api/login", json={"link": link})).json()["name"] == "bob"
        again = await (await enter()).post("/api/login", json={"link": link})
        assert again.status_code == 401
        assert "used already" in again.json()["error"]["message"]
        before = make_link(home, people.by_name["ann"])
        write_people(home, ann=2)
        assert (await at.client.post("/api/login", json={"link": before})).status_code == 401
    person = Person("bob", ("approver",))
    assert use_link(home, make_link(home, person, lambda: 0.0), lambda: 601.0) is None
    assert use_link(home, make_link(home, person, lambda: 0.0), lambda: 599.0) is not None


def test_sessions_end_when_nobody_uses_them_and_after_a_while_in_any_case(tmp_path: Path) -> None:
    write_people(tmp_path)
    people = PeopleFile(tmp_path).current()
    assert people is not None
    now = 1_000_000.0
    sessions = Sessions(tmp_path, Login(idle_seconds=100, absolute_seconds=1000), lambda: now)

    def begin() -> str:
        cookie = sessions.begin(people.by_name["ann"])
        key = sessions.find(cookie, people).key
        sessions._tickets.touch(key, now)  # files have the machine's time
        return cookie

    used, idle = begin(), begin()
    for _ in range(11):
        now += 90
        last = sessions.find(used, people).trouble
    assert last == ""
    assert sessions.find(idle, people).trouble == "expired"
    now += 90
    assert sessions.find(used, people).trouble == "expired"
    assert sessions.find(used, people).trouble == "unknown"
    many = [begin() for _ in range(60)]
    assert len(list((tmp_path / "sessions").iterdir())) == 50
    assert sessions.find(many[-1], people).trouble == ""
    again = Sessions(tmp_path, Login(idle_seconds=100, absolute_seconds=1000), lambda: now)
    assert again.find(many[-1], people).name == "ann"


async def test_wrong_tokens_are_slowed_down_and_right_ones_are_not(tmp_path: Path) -> None:
    limits = ServerLimits(attempts_per_minute=1, attempts_burst=3)
    async with with_people(tmp_path, ServerSettings(login=Login(os_user=False), limits=limits)) as (at, enter):
        known = await enter("bob", is_program=True)
        assert (await known.get("/api/runs")).status_code == 200
        codes = [(await at.client.post("/api/login", json={"token": "ann.wrong"})).status_code for _ in range(4)]
        assert codes == [401, 401, 401, 429]
        late = await at.client.post("/api/login", json={"token": "ann.wrong"})
        assert int(late.headers["retry-after"]) >= 1
        assert (await known.get("/api/runs")).status_code == 200


async def test_a_wrong_token_is_in_the_audit_once_and_without_the_token(tmp_path: Path) -> None:
    async with with_people(tmp_path) as (at, enter):
        ada = await enter("ada")
        for token in ("ann.guess-1", "ann.guess-2", "nobody.guess-3", "guess-4"):
            refused = await at.client.get("/api/runs", headers={"Authorization": f"Bearer {token}"})
            assert refused.status_code == 401
        tried = [one for one in await log_of(ada, "detent_people") if one.get("name") == "ATTEMPTED"]
        assert [one["data"]["why"].partition(",")[0] for one in tried] == [
            "wrong token of `ann` from 127.0.0.1",
            "wrong token from 127.0.0.1",
        ]
        assert {one.get("by", "") for one in tried} == {""}, "a guess does not speak for ann"
        assert "guess" not in str(tried)
        found = [json.loads(line) for line in (await ada.get("/api/audit")).text.splitlines()]
        assert [one["outcome"] for one in found if one.get("decision") == "attempt"] == ["refused", "refused"]


def test_guesses_are_counted_and_do_not_fill_the_journal() -> None:
    now = 1_700_000_000.0
    wrong = WrongTokens(lambda: now)
    said = [wrong.describe("10.0.0.7", "ann") for _ in range(500)]
    assert [bool(one) for one in said] == [True] + [False] * 499
    now += 600
    assert wrong.describe("10.0.0.7", "ann").startswith("wrong token of `ann` from 10.0.0.7, 500 until ")
    everybody = [wrong.describe(f"10.0.{number // 250}.{number % 250}", "") for number in range(5_000)]
    assert sum(map(bool, everybody)) <= 60


async def test_one_person_cannot_do_too_much_at_once(tmp_path: Path) -> None:
    limits = ServerLimits(verbs_per_second=1, verbs_burst=3)
    async with with_people(tmp_path, ServerSettings(login=Login(os_user=False), limits=limits)) as (_, enter):
        opal, bob = await enter("opal"), await enter("bob")
        codes = [(await opal.post("/api/runs", json={"definition": "count"})).status_code for _ in range(6)]
        assert codes[:3] == [201, 201, 201]
        assert 429 in codes[3:]
        assert (await bob.post("/api/runs", json={"definition": "count"})).status_code == 201
        assert (await opal.get("/api/runs")).status_code == 200


def test_a_pace_forgets_who_was_silent_longest_and_says_how_long_to_wait() -> None:
    now = 0.0
    pace = Pace(0.5, 2, most=3, now=lambda: now)
    assert [pace.take("a") for _ in range(3)] == [0.0, 0.0, 2.0]
    pace.give_back("a")
    assert pace.take("a") == 0.0
    for name in "bcd":
        pace.take(name)
    assert pace.take("a") == 0.0


async def test_the_name_comes_from_a_proxy_that_knows_the_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROXY_SECRET", "a secret of the proxy")
    settings = ServerSettings(proxy=Proxy("PROXY_SECRET", log_out="/oauth2/sign_out"))
    async with with_people(tmp_path, settings) as (at, enter):
        good = {"X-Remote-User": "ann@example.org", "X-Proxy-Secret": "a secret of the proxy"}
        me = await at.get("/api/me", headers=good)
        assert (me["name"], me["known_by"], me["log_out"]) == ("ann", "proxy", "/oauth2/sign_out")
        run_id = await begin(await enter("opal"))
        said = await at.client.post(ANSWER.format(run=run_id), json={"approved": True}, headers=good)
        assert said.json()["waiting"][0]["answered"] == [{"by": "ann", "known_by": "proxy"}]
        for bad in (
            {"X-Remote-User": "ann@example.org"},
            {**good, "X-Proxy-Secret": "a secret of the prox"},
            {**good, "X-Proxy-Secret": ""},
            {"X-Proxy-Secret": "guess"},
            {**good, "X-Remote-User": "nobody@example.org"},
            {**good, "X-Remote-User": "ann"},
        ):
            for path in ("/api/runs", "/api/me"):
                assert (await at.client.get(path, headers=bad)).status_code == 403, bad
        twice = [("X-Remote-User", "ann@example.org"), *good.items()]
        assert (await at.client.get("/api/runs", headers=twice)).status_code == 400
        nobody = {"X-Remote-User": "", "X-Proxy-Secret": "a secret of the proxy"}
        assert (await at.client.get("/api/runs", headers=nobody)).status_code == 401
    away = ServerSettings(proxy=Proxy("PROXY_SECRET", addresses=("10.0.0.0/8",)))
    async with with_people(tmp_path, away) as (at, _):
        assert (await at.client.get("/api/runs", headers=good)).status_code == 403
    async with with_people(tmp_path) as (at, _):
        refused = await at.client.get("/api/runs", headers={"X-Remote-User": "ann@example.org"})
        assert refused.json()["error"]["type"] == "foreign_proxy"


async def test_on_loopback_the_user_of_this_machine_needs_no_login(tmp_path: Path) -> None:
    import os
    import pwd

    home = tmp_path / ".detent"
    home.mkdir()
    user = pwd.getpwuid(os.getuid()).pw_name
    (home / "detent.people.yaml").write_text(
        f"people: {{ada: {{roles: [admin, approver], os_user: {user}}}, bob: {{roles: [viewer]}}}}"
    )
    async with stage(tmp_path) as at:
        me = await at.get("/api/me")
        assert (me["name"], me["known_by"], me["log_out"]) == ("ada", "os_user", "")
        assert (await at.client.get("/api/runs", headers={"X-Forwarded-For": "10.1.1.1"})).status_code == 401
        begun = await at.post("/api/runs", {"definition": "count"}, 201)
        assert begun["by"] == "ada"
        await at.post("/api/runs", {"definition": "count", "by": "bob"}, 403)
        (home / "detent.people.yaml").unlink()
        assert (await at.client.get("/api/runs")).status_code == 503
    async with stage(tmp_path, NO_USER) as at:
        assert (await at.client.get("/api/runs")).status_code == 200


async def test_without_people_everything_is_as_before(tmp_path: Path) -> None:
    async with stage(tmp_path) as at:
        me = await at.get("/api/me")
        assert (me["has_people"], me["name"], me["known_by"]) == (False, "kim", "")
        assert (await at.client.post("/api/login", json={"token": "ann.x"})).status_code == 409
        run_id = await at.start("approval.yaml", what="a", amount=900)
        (item,) = (await at.get("/api/inbox"))["items"]
        assert item["question"]["may"] == {"answer": True}
        assert "set-cookie" not in (await at.client.post("/api/logout", json={})).headers
        await at.post(f"/api/runs/{run_id}/contracts/large/sign/1/answer", {"approved": True, "by": "anybody"})
