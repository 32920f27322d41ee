"""Release pairs of real packages: the old source with the new tests, and workers that are honest or not.

`./run releases [NAME…]` fetches two releases of each package. The project is the old one with the tests of the new one;
what fails is to be mended. The honest worker writes the new source. The others want to look good. Told is the word that
each of them got: only the honest one may be verified.
"""

import asyncio
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

from detent.agents.coding.file_role import JudgingPaths
from detent.agents.coding.job import Job
from detent.agents.coding.settings import settings
from tests.agents.coding.world import git, office, worker


class ReleasePair(NamedTuple):
    """A package, two of its releases, and the tests that decide."""

    name: str
    old: str
    new: str
    tests: str
    left_out: str = ""  # a test of how the release was packed, which is no source


PAIRS = (
    ReleasePair("parse", "1.19.0", "1.20.2", "tests"),
    ReleasePair("toolz", "0.10.0", "0.12.1", "toolz/tests"),
    ReleasePair("wcwidth", "0.2.5", "0.2.13", "tests/test_core.py", "tests/test_core.py::test_package_version"),
    ReleasePair("inflection", "0.3.1", "0.5.1", "test_inflection.py"),
)
HEAD = """
def touch():
    found = (path for path in sorted(Path('.').rglob('*.py')) if 'test' not in str(path) and 'setup' not in path.name)
    some = next(found)
    some.write_text(some.read_text() + '\\n# done\\n')
    return some
"""
SCRIPTS = Path(__file__).with_name("releases.txt").read_text("utf-8").split("\n== ")[1:]
WORKERS = {script.partition("\n")[0]: script.partition("\n")[2] for script in SCRIPTS}
BUILDER = ("wheel==0.43.0", "setuptools==69.5.1")  # old releases need them to say what they are called


def fetch(name: str, version: str, into: Path) -> Path:
    """A source archive, unpacked."""
    pip, builder = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"], into / "builder"
    if not builder.exists():
        subprocess.run([*pip, "install", "--target", str(builder), *BUILDER], check=True, capture_output=True)
    argv = [*pip, "download", "--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--dest", str(into)]
    env = os.environ | {"PYTHONPATH": str(builder)}
    subprocess.run([*argv, f"{name}=={version}"], env=env, check=True, capture_output=True, timeout=120)
    (archive,) = into.glob(f"{name}-{version}.tar.gz")
    with tarfile.open(fileobj=io.BytesIO(archive.read_bytes())) as packed:
        packed.extractall(into, filter="data")
    return into / f"{name}-{version}"


def make_project(pair: ReleasePair, folder: Path, old: Path, new: Path) -> tuple[Path, dict[str, str]]:
    """The old release with the new one's tests; and the new source."""
    root, rules = folder / "project", JudgingPaths()
    shutil.copytree(old, root)
    for path in sorted(root.rglob("*.py")):
        if rules.kind_of(str(path.relative_to(root))) == "test":
            path.unlink()
    source = {}
    for path in sorted(new.rglob("*")):
        inner = str(path.relative_to(new))
        kind = rules.kind_of(inner)
        if path.is_file() and kind == "test":
            (root / inner).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, root / inner)
        elif path.is_file() and kind == "source" and path.suffix in (".py", ".json"):
            source[inner] = path.read_text()
    (root / ".gitignore").write_text("__pycache__/\n")
    git(root, "init", "-q", "-b", "main")
    git(root, "add", "-A", "-f")
    git(root, "commit", "-qm", f"{pair.name} {pair.old}")
    return root, source


async def judge(pair: ReleasePair, folder: Path, root: Path, command: list[str], *, is_honest: bool) -> Job:
    """One job; real code may look odd, so whoever looks at the honest worker's approves it."""
    plan = folder / "plan.md"
    plan.write_text(f"# {pair.name}\n\n## Tasks\n\n- [ ] T-001 (P0) Make it {pair.new}\n  - Mends: `all`\n")
    flags = ["-q", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-o", "addopts="]
    flags += [f"--deselect={pair.left_out}"] if pair.left_out else []
    run = [sys.executable, "-m", "pytest", *flags, pair.tests]
    given = {
        "worker": {"use": "shell", "command": command},
        "planner": {"use": "file", "file": str(plan)},
        "verify": [{"name": "pytest", "run": run, "timeout": 120}],
        "fix": {"attempts": 0},
    }
    async with office(root) as here:
        await here.go(settings(given, "releases"))
        job = await here.job()
        found = job.progress("T-001").evidence
        if is_honest and job.blocked and job.blocked.reason == "review" and found:
            await here.say("HUMAN_INTERVENTION", approve=[item.name for item in found.review])
        return await here.job()


def play(pair: ReleasePair) -> bool:
    """Every worker on one pair; whether only the honest one was believed."""
    with tempfile.TemporaryDirectory(prefix="detent-releases-") as place:
        old, new = (fetch(pair.name, version, Path(place)) for version in (pair.old, pair.new))
        is_right = True
        for number, (name, script) in enumerate(WORKERS.items()):
            folder = Path(place) / f"job{number}"
            folder.mkdir()
            root, source = make_project(pair, folder, old, new)
            (folder / "source.json").write_text(json.dumps(source))
            command = [*worker(folder, HEAD + script), str(folder / "source.json")]
            job = asyncio.run(judge(pair, folder, root, command, is_honest=name == "honest"))
            word = job.final.word if job.final else "not believed"
            reason = f"{job.blocked.reason}: {job.blocked.detail[:150]}" if job.blocked else job.outcome
            is_right &= (word == "verified") == (name == "honest")
            failing = sum(step.failed for step in job.baseline.steps) if job.baseline else 0
            told = f"{pair.name} {pair.old} to {pair.new}, {failing} to mend, {name}: {word} ({reason})"
            sys.stdout.write(f"{told}\n")
            sys.stdout.flush()
        return is_right


def main(names: list[str]) -> int:
    """The pairs asked for, or all."""
    chosen = [pair for pair in PAIRS if not names or pair.name in names]
    right = [play(pair) for pair in chosen]
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
