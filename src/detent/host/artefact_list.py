"""Artefacts as they are read: which files a run has kept, in the order in which it did."""

import re
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

import msgspec

from detent.core.artefact import KEEP
from detent.core.events import ContractMoved
from detent.core.history import Entry
from detent.errors import Unknown
from detent.host.reading import Member

CHILDREN_MAX = 500  # runs below one whose files are listed with its own
DIGEST = re.compile(r"[0-9a-f]{64}")


class KeptFile(msgspec.Struct, frozen=True):
    """A file that a run has kept: what it was called, its SHA-256, its size, and which contract kept it when."""

    run_id: str
    name: str
    digest: str
    size: int
    contract_id: str
    at: float


class KeptFiles:
    """A projection: the files that a run has kept; of several with the same name and content the latest."""

    name: ClassVar[str] = "kept_files"
    version: ClassVar[int] = 1
    reach: ClassVar[int] = 0

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.files: dict[tuple[str, str], KeptFile] = {}
        self._keeping: set[str] = set()  # contracts of the effect that are open

    def take(self, entry: Entry) -> None:
        """Note what a contract of the effect has kept; what other tools answer says nothing about artefacts."""
        event = entry.event
        if type(event) is ContractMoved and event.contract_id in self._keeping and event.trigger == "succeed":
            result = event.result if isinstance(event.result, dict) else {}
            found = result.get("artefacts")
            for one in found if isinstance(found, list) else ():
                self._note(one, event)
        self._keeping = {contract.id for contract in entry.run.contracts if contract.effect == KEEP}

    def _note(self, one: Any, event: ContractMoved) -> None:
        name, digest, size = (
            (one.get(key) for key in ("name", "digest", "size")) if isinstance(one, dict) else (0, 0, 0)
        )
        if isinstance(name, str) and isinstance(digest, str) and DIGEST.fullmatch(digest) and isinstance(size, int):
            self.files.pop((name, digest), None)
            self.files[name, digest] = KeptFile(self.run_id, name, digest, size, event.contract_id, event.at)

    def dump(self) -> bytes:
        """What is kept, so that a long history need not be read again."""
        return msgspec.json.encode([list(self.files.values()), sorted(self._keeping)])

    @classmethod
    def load(cls, run_id: str, body: bytes) -> "KeptFiles":
        """What was kept."""
        made = cls(run_id)
        files, keeping = msgspec.json.decode(body, type=tuple[list[KeptFile], list[str]])
        made.files, made._keeping = {(one.name, one.digest): one for one in files}, set(keeping)
        return made


class ArtefactReader(Protocol):
    """What listing artefacts needs of a reader."""

    def artefacts(self, run_id: str) -> Sequence[KeptFile]:
        """The files that a run has kept."""

    def family(self, run_id: str) -> Sequence[Member]:
        """Every run of a run's family, parents before their children."""


def list_artefacts(reader: ArtefactReader, run_id: str) -> list[KeptFile]:
    """The files that a run and the runs below it have kept."""
    below, found = {run_id}, list(reader.artefacts(run_id))
    for member in reader.family(run_id):
        if member.parent.partition(" ")[0] in below and len(below) <= CHILDREN_MAX:
            below.add(member.run_id)
            found += reader.artefacts(member.run_id)
    return found


def find_artefact(found: Sequence[KeptFile], name: str) -> KeptFile:
    """The file of that name, the latest of several, or the one whose digest begins like this."""
    named = [one for one in found if one.name == name] or [one for one in found if one.digest.startswith(name)]
    if not named:
        raise Unknown(f"there is no artefact `{name}`; `detent artefacts RUN` lists them")
    return max(named, key=lambda one: one.at)
