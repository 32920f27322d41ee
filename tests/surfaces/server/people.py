"""People for the tests of the server: tokens that are known, and clients that bring them."""

import hashlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

from detent.core.people import People, Person
from detent.kit.people_file import PeopleFile
from detent.surfaces.server.setting import Login, ServerSettings
from tests.surfaces.server.stage import Stage, stage

ROLES: dict[str, tuple[Any, ...]] = {
    "ada": ("admin",), "ann": ("approver",), "bob": ("approver",), "kim": ("viewer",), "opal": ("operator",),
}  # fmt: skip
PAY = """\
name: pay
states:
  begin: {type: initial}
  pay:
    actions:
      - {id: pay, tool: ask, approval: {question: "Pay?", quorum: 2, different_from_initiator: true}}
  done: {type: final}
transitions:
  - {from: begin, to: pay}
  - {from: pay, to: done}
"""
NOBODY: Mapping[str, tuple[str, ...]] = {}
NO_USER = ServerSettings(login=Login(os_user=False))  # else the user of the tests is somebody on loopback


def token_of(name: str, number: int = 1) -> str:
    """A person's token."""
    return f"{name}.{number}{'x' * 40}"


def hash_fast(token: str, salt: bytes) -> str:
    """A token as it is kept, with the least work that scrypt knows: these tests check many."""
    made = hashlib.scrypt(token.encode(), salt=salt, n=2, r=1, p=1, dklen=32)
    return f"scrypt:2:1:1:{salt.hex()}:{made.hex()}"


def write_people(home: Path, *, speaks_for: Mapping[str, tuple[str, ...]] = NOBODY, **changed: Any) -> None:
    """Ada, ann, bob, kim and opal; `ann=2` gives ann her second token, `ann=None` removes her."""
    persons = []
    for name, roles in ROLES.items():
        if (number := changed.get(name, 1)) is not None:
            token = hash_fast(token_of(name, number), name.encode().ljust(16, b"."))
            others = speaks_for.get(name, ())
            persons.append(Person(name, roles, token=token, proxy=f"{name}@example.org", speaks_for=others))
    PeopleFile(home).write(People(tuple(persons)))


@asynccontextmanager
async def with_people(
    folder: Path, settings: ServerSettings = NO_USER
) -> AsyncIterator[tuple[Stage, Callable[..., Any]]]:
    """A server whose home has people, and a way to get a client of one of them."""
    write_people(folder / ".detent")
    (folder / "pay.yaml").write_text(PAY)
    clients: list[httpx2.AsyncClient] = []

    async def enter(name: str = "", *, is_program: bool = False) -> httpx2.AsyncClient:
        headers = {"Authorization": f"Bearer {token_of(name)}"} if is_program else {}
        client = httpx2.AsyncClient(base_url=at.served.address, timeout=None, headers=headers)
        clients.append(client)
        if name and not is_program:
            said = await client.post("/api/login", json={"token": token_of(name)})
            assert said.status_code == 200, said.text
        return client

    async with stage(folder, settings) as at:
        try:
            yield at, enter
        finally:
            for client in clients:
                await client.aclose()
