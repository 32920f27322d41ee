"""Artefacts: files are kept by their content, and as long as a run that has them is there."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from detent.core import Action, Contract, Outcome, Run, Status, effect
from detent.effects.kept_file import keep
from detent.errors import Unknown
from detent.host.port import Host
from detent.testing.conformance.fixtures import HandClock, HostOpener, one

KEEPING = one(Action("keep", "files.keep", {"path": "*.txt", "root": "{{ context.root }}"}), name="keeping")
LYING = one(Action("lie", "lie", {}), name="lying")


@contextmanager
def _folder(**files: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            Path(folder, f"{name}.txt").write_text(text, encoding="utf-8")
        yield folder


async def _keep_files(host: Host, root: str) -> Run:
    run = await host.settled((await host.start(KEEPING, {"root": root})).id)
    assert run.ended is Status.COMPLETED, run.error
    return run


def _read(host: Host, run_id: str) -> dict[str, bytes]:
    reader = host.reader
    return {one.name: b"".join(reader.read_artefact(run_id, one.digest)) for one in reader.artefacts(run_id)}


def _is_gone(host: Host, run_id: str, digest: str) -> bool:
    try:
        host.reader.read_artefact(run_id, digest)
    except Unknown:
        return True
    return False


async def check_files_are_kept_with_their_run_and_go_with_it(open_host: HostOpener, home: Path) -> None:
    clock = HandClock()
    async with open_host(home, [keep], clock) as host:
        with _folder(a="the same", b="of the first") as folder:
            first = await _keep_files(host, folder)
        clock.move(100)
        with _folder(a="the same") as folder:
            second = await _keep_files(host, folder)
            third = await _keep_files(host, folder)
        assert _read(host, first.id) == {"a.txt": b"the same", "b.txt": b"of the first"}
        digests = {one.name: one.digest for one in host.reader.artefacts(first.id)}
        await host.prune(clock.now() - 50)
        assert all(_is_gone(host, first.id, digest) for digest in digests.values())
        assert _read(host, second.id) == {"a.txt": b"the same"}, "another run has the same content"
        assert _is_gone(host, second.id, digests["b.txt"])
    async with open_host(home, [keep], clock) as host:
        assert _read(host, third.id) == {"a.txt": b"the same"}


async def check_what_another_effect_says_of_artefacts_is_only_its_word(open_host: HostOpener, home: Path) -> None:
    found: list[str] = []

    @effect("lie", kind="pure")
    async def lie(_: Contract) -> Outcome:
        return Outcome({"artefacts": [{"name": "a.txt", "digest": found[0], "size": 8}]})

    async with open_host(home, [keep, lie]) as host:
        with _folder(a="the same") as folder:
            kept = await _keep_files(host, folder)
        found.append(host.reader.artefacts(kept.id)[0].digest)
        run = await host.settled((await host.start(LYING)).id)
        assert run.ended is Status.COMPLETED
        assert not host.reader.artefacts(run.id)
        assert _is_gone(host, run.id, found[0])
