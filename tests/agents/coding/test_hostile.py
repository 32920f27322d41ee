"""Workers that mean harm: what is contained is contained, and the repository comes back. The limits are documented."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents.coding.world import configured, copy_of, git, listing, office, project, worker

DAEMON = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.close(1); os.close(2)
        while True:
            Path("calc.py").write_text(str(time.time())); time.sleep(0.005)
    os._exit(0)
time.sleep(0.2)
calc.write_text(GOOD + "# by the parent\\n")
"""

# Many files, each small enough for a checkpoint, by a daemon of its own; it never ends by itself.
FILLING = """
if os.fork():
    time.sleep(600)
os.setsid()
for number in range(10**9):
    Path(f"junk-{number}").write_bytes(os.urandom(500_000))
"""


@pytest.mark.parametrize(
    ("script", "settings", "reason"),
    [
        ("import shutil; shutil.rmtree('.git', ignore_errors=True)", {}, "no_change"),
        ("import shutil; shutil.rmtree('.git')", {"workspace": {"use": "in_place"}}, "worker"),
        ("Path('.git/HEAD').unlink(); calc.unlink()", {"workspace": {"use": "in_place"}}, "worker"),
        ("for n in range(10**9): print('x' * 10000)", {"limits": {"output_bytes": 2_000_000}}, "timeout"),
        (
            "import signal\nsignal.signal(15, signal.SIG_IGN)\ntime.sleep(600)",
            {"limits": {"silence_s": 0.5}},
            "timeout",
        ),
        ("for p in Path('.').iterdir():\n    if p.is_file(): p.unlink()", {"fix": {"attempts": 0}}, "attempts"),
        ("os.symlink('/etc/passwd', 'x'); calc.unlink(); calc.mkdir()", {"fix": {"attempts": 0}}, "attempts"),
        (FILLING, {"limits": {"disk_bytes": 8_000_000}}, "disk"),
        ("Path('detent.code.yaml').write_text('version: 1')", {}, "protected_path"),
        ("os.kill(os.getpid(), 9)", {}, "no_change"),
        ("Path(os.environ['DETENT_RESULT_FILE']).write_bytes(b'{' * 5_000_000)", {}, "no_change"),
    ],
)
async def test_harm_is_stopped_and_undone(script: str, settings: dict[str, Any], reason: str, tmp_path: Path) -> None:
    root = project(tmp_path)
    (root / "mine.txt").write_text("untracked")
    before, head = listing(root), git(root, "rev-parse", "HEAD")
    async with office(root) as job:
        run = await job.go(configured(worker(tmp_path, script), **settings))
        found = await job.job()
        assert run.state == "BLOCKED"
        assert found.blocked is not None
        assert found.blocked.reason == reason, found.blocked
        assert found.blocked.detail
        run = await job.say("ROLLBACK", run=True)
        assert run.output["outcome"] == "rolled_back", (await job.job()).blocked
    assert listing(root) == before
    assert git(root, "rev-parse", "HEAD") == head
    assert git(root, "fsck", "--no-dangling") == ""


async def test_no_file_grows_beyond_the_bound(tmp_path: Path) -> None:
    """The bound on one file is the kernel's, so that it holds for holes in it, too."""
    root = project(tmp_path)
    script = """
try:
    os.truncate(os.open("hole", os.O_CREAT | os.O_RDWR), 10**12)
except OSError as error:
    say(status="blocked", summary=error.strerror)
"""
    async with office(root) as job:
        await job.go(configured(worker(tmp_path, script), limits={"disk_bytes": 50_000_000_000}))
        blocked = (await job.job()).blocked
        assert blocked is not None
        assert blocked.detail == "File too large"
        assert (copy_of(root) / "hole").stat().st_size == 0
        await job.say("ROLLBACK", run=True)
    assert not (root / "hole").exists()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    argv = ["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(folder)]
    if sys.platform != "linux" or subprocess.run(argv, check=False, capture_output=True).returncode:
        pytest.skip("a disk of its own cannot be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.parametrize("word", ["time.sleep(0.01)", "sys.exit()"])
async def test_a_worker_that_fills_the_disk_to_the_last_byte_leaves_us_enough_to_put_all_back(
    word: str, small_disk: Path
) -> None:
    root = project(small_disk)
    before = listing(root)
    script = f"""
for number in range(10**9):
    try:
        Path(f"junk-{{number}}").write_bytes(bytes(300_000))
    except OSError:
        {word}
"""
    async with office(root) as job:
        run = await job.go(configured(worker(small_disk, script)))
        found = await job.job()
        assert run.state == "BLOCKED"
        assert found.blocked is not None
        assert found.blocked.reason == "disk", found.blocked
        assert "left on the disk; the largest new files here: junk-" in found.blocked.detail
        run = await job.say("ROLLBACK", run=True)
        assert run.output["outcome"] == "rolled_back", (await job.job()).blocked
    assert listing(root) == before


async def test_a_check_that_fills_the_disk_is_stopped(tmp_path: Path) -> None:
    root = project(tmp_path)
    filling = "import os\nfor n in range(10**9): open(f'junk-{n}', 'wb').write(os.urandom(500_000))\n"
    script = f"Path('check.py').write_text({filling!r})"
    async with office(root) as job:
        run = await job.go(configured(worker(tmp_path, script), limits={"disk_bytes": 8_000_000}))
        found = await job.job()
        assert run.state == "BLOCKED"
        assert found.blocked is not None
        assert found.blocked.reason == "environment"
        assert "bytes less than when it began" in found.blocked.detail
        await job.say("ROLLBACK", run=True)
    assert not list(root.glob("junk-*"))


async def test_a_daemon_that_keeps_writing_is_gone_before_anything_is_verified(tmp_path: Path) -> None:
    root = project(tmp_path)
    async with office(root) as job:
        await job.go(configured(worker(tmp_path, DAEMON)))
        before = (root / "calc.py").read_bytes()
        await asyncio.sleep(0.2)
        assert (root / "calc.py").read_bytes() == before
        found = await job.job()
        if found.outcome != "archived":  # the daemon may have had the last word; then its tree was judged, and is still
            await job.say("ROLLBACK", run=True)
            assert "return a + b" in (root / "calc.py").read_text()


async def test_commits_branches_and_stashes_of_a_worker_are_undone(tmp_path: Path) -> None:
    root = project(tmp_path)
    (root / "calc.py").write_text((root / "calc.py").read_text() + "# mine, not committed\n")
    before, branch = listing(root), git(root, "symbolic-ref", "HEAD")
    status = git(root, "status", "--porcelain")
    script = """
import subprocess
def git(*argv): subprocess.run(["git", "-c", "user.name=w", "-c", "user.email=w@example.invalid", *argv], check=True)
git("checkout", "-q", "-b", "mine"); git("commit", "-qam", "stolen"); calc.write_text(BAD); git("stash", "-q")
say(status="blocked")
"""
    async with office(root) as job:
        await job.go(configured(worker(tmp_path, script)))
        await job.say("ROLLBACK", run=True)
    assert (listing(root), git(root, "symbolic-ref", "HEAD")) == (before, branch)
    assert git(root, "status", "--porcelain") == status


async def test_a_worker_that_sleeps_for_ever_holds_nobody_up(tmp_path: Path) -> None:
    root = project(tmp_path)
    async with office(root) as job:
        run = await job.go(configured(worker(tmp_path, "time.sleep(10**6)"), limits={"wall_s": 0.5}))
        assert run.state == "BLOCKED"


BARE_DAEMON = """
BEAT = "import signal, time\\nsignal.signal(15, signal.SIG_IGN)\\n" \\
       "while True:\\n    open('calc.py', 'a').write('#'); time.sleep(0.005)"
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for fd in (0, 1, 2): os.dup2(os.open(os.devnull, os.O_RDWR), fd)
        os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", BEAT], {})
    os._exit(0)
size = calc.stat().st_size
while calc.stat().st_size == size: time.sleep(0.005)
say(status="blocked")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers")
async def test_a_daemon_that_has_dropped_every_mark_cannot_spoil_the_rollback(tmp_path: Path) -> None:
    root = project(tmp_path)
    before = listing(root)
    async with office(root) as job:
        await job.go(configured(worker(tmp_path, BARE_DAEMON)))
        found = await job.job()
        assert found.blocked is not None
        assert found.blocked.reason == "worker"
        await job.say("ROLLBACK", run=True)
        assert listing(root) == before
        await asyncio.sleep(0.2)
    assert listing(root) == before


async def test_a_hundred_megabytes_are_cut_off_counted_and_told(tmp_path: Path) -> None:
    root = project(tmp_path)
    script = "piece = b'x' * 1_000_000\nfor _ in range(100): os.write(1, piece)"
    async with office(root) as job:
        await job.go(configured(worker(tmp_path, script)))
        found = await job.job()
    assert found.blocked is not None
    assert found.blocked.reason == "timeout"
    assert "more were seen and not kept" in found.blocked.detail
    kept = sum(path.stat().st_size for path in (root / ".detent/code").rglob("output.log"))
    assert kept <= 64 * 1024 * 1024


async def test_what_lies_outside_is_out_of_reach_as_documented(tmp_path: Path) -> None:
    root = project(tmp_path)
    outside = tmp_path / "outside.txt"
    async with office(root) as job:
        await job.go(configured(worker(tmp_path, f"Path({str(outside)!r}).write_text('x'); say(status='blocked')")))
        await job.say("ROLLBACK", run=True)
    assert outside.exists()
    assert "what it writes into your home and the temporary folders" in Path("docs/reference/coding.md").read_text()
