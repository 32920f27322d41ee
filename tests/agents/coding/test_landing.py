"""A worker works in a copy; what was verified lands in the user's tree; what the user does meanwhile stays theirs."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from detent.agents.coding.job_sandbox import Workplace
from detent.agents.coding.workspace import Repository
from detent.effects.sandbox import find_problem
from tests.agents.coding.world import BAD, GOOD, configured, copy_of, git, listing, office, project, worker

needs_sandbox = pytest.mark.skipif(bool(find_problem("folder")), reason=find_problem("folder"))


async def test_what_the_user_edits_meanwhile_stays_theirs_and_is_merged(tmp_path: Path) -> None:
    root = project(tmp_path)
    (root / "notes.txt").write_text("one\n")
    plan = tmp_path / "plan.md"
    plan.write_text("# P\n\n## Tasks\n- [ ] T-001 (P0) One\n- [ ] T-002 (P1) Two\n")
    script = """
if task == "T-001": calc.write_text(GOOD + "# first\\n")
elif "green light" in sys.stdin.read(): Path("second").write_text("x")
else: say(status="question", question="?")
"""
    async with office(root) as job:
        await job.go(configured(worker(tmp_path, script), plan))
        assert (root / "calc.py").read_text() == GOOD  # nothing lands before all is done
        (root / "notes.txt").write_text("one\nmine\n")
        (root / "calc.py").write_text('"""Mine."""\n' + GOOD)
        run = await job.say("ANSWER", answer="green light")
        found = await job.job()
    assert run.output["outcome"] == "archived", found.blocked
    assert (root / "notes.txt").read_text() == "one\nmine\n"
    assert (root / "calc.py").read_text() == '"""Mine."""\n' + GOOD + "# first\n"
    assert (root / "second").exists()
    assert found.landed is not None
    assert set(found.landed.theirs) == {"calc.py", "notes.txt"}
    assert any("without them: calc.py, notes.txt" in note.text for note in found.log)


async def test_a_conflict_writes_nothing_and_a_person_resolves_it(tmp_path: Path) -> None:
    root = project(tmp_path)
    plan = tmp_path / "plan.md"
    plan.write_text("# P\n\n## Tasks\n- [ ] T-001 (P0) One\n- [ ] T-002 (P1) Two\n")
    script = """
if task == "T-001": calc.write_text(GOOD.replace("a + b", "b + a")); Path("new").write_text("x")
elif "green light" in sys.stdin.read(): Path("second").write_text("x")
else: say(status="question", question="?")
"""
    async with office(root) as job:
        await job.go(configured(worker(tmp_path, script), plan))
        mine = GOOD.replace("a + b", "sum((a, b))")
        (root / "calc.py").write_text(mine)
        before = listing(root)
        run = await job.say("ANSWER", answer="green light")
        blocked = (await job.job()).blocked
        assert run.state == "BLOCKED"
        assert blocked is not None
        assert blocked.reason == "conflict"
        assert "calc.py" in blocked.detail
        assert listing(root) == before
        assert "b + a" in (copy_of(root) / "calc.py").read_text()
        run = await job.say("HUMAN_INTERVENTION", hint="")
        assert run.output["outcome"] == "archived", (await job.job()).blocked
    assert (root / "calc.py").read_text() == mine
    assert (root / "new").exists()


async def test_a_landing_is_taken_back_where_nobody_has_changed_it_since(tmp_path: Path) -> None:
    root = project(tmp_path)
    (root / "old.txt").write_text("old")
    script = (
        "calc.write_text(GOOD + '#\\n'); Path('a').write_text('a'); Path('b').write_text('b'); os.unlink('old.txt')"
    )
    async with office(root) as job:
        await job.go(configured(worker(tmp_path, script)))
        found = await job.job()
    assert found.landed is not None
    (root / "b").write_text("mine by now")
    (root / "c").write_text("mine")
    git(root, "add", "c")
    git(root, "commit", "-qm", "mine")
    repository = await Repository.open(root)
    done = await repository.take_back("job", (found.landed.before, found.landed.after), found.landed.written)
    assert done.left == ("b",)
    assert (root / "calc.py").read_text() == GOOD
    assert (root / "old.txt").read_text() == "old"
    assert not (root / "a").exists()
    assert ((root / "b").read_text(), (root / "c").read_text()) == ("mine by now", "mine")
    assert git(root, "log", "-1", "--format=%s").strip() == "mine"


async def test_a_file_that_is_tracked_although_it_is_ignored_survives(tmp_path: Path) -> None:
    root = project(tmp_path)
    (root / "kept.log").write_text("tracked")
    git(root, "add", "-f", "kept.log")
    git(root, "commit", "-qm", "kept")
    (root / "other.log").write_text("ignored")
    async with office(root) as job:
        run = await job.go(
            configured(worker(tmp_path, "Path('.gitignore').write_text(''); calc.write_text(GOOD + '#')"))
        )
        assert run.output["outcome"] == "archived"
    assert (root / "kept.log").read_text() == "tracked"
    assert (root / "other.log").read_text() == "ignored"


@needs_sandbox
async def test_the_copy_is_seen_at_the_projects_own_path(tmp_path: Path) -> None:
    root = project(tmp_path)
    (root / "node_modules").mkdir()
    (root / "node_modules" / "dep.js").write_text("dep")
    (root / ".gitignore").write_text("node_modules/\n*.log\n__pycache__/\n")
    file = root / "calc.py"
    step = {"name": "there", "run": [sys.executable, "-c", f"assert '# new' in open({str(file)!r}).read()"]}
    script = f"""
Path({str(file)!r}).write_text(GOOD + "# new\\n")
assert Path("node_modules/dep.js").read_text() == "dep"
try:
    Path("node_modules/dep.js").write_text("x")
except OSError:
    say(status="done", summary="read-only")
"""
    async with office(root) as job:
        run = await job.go(configured(worker(tmp_path, script), verify=[step]))
        found = await job.job()
    assert run.output["outcome"] == "archived", found.blocked
    assert found.progress("T-001").summary == "read-only"
    assert (root / "node_modules" / "dep.js").read_text() == "dep"
    assert file.read_text().endswith("# new\n")


async def test_a_changed_check_waits_for_a_person_whose_approval_is_for_these_contents(tmp_path: Path) -> None:
    root = project(tmp_path)
    script = (
        "calc.write_text(GOOD + '#'); Path('check.py').write_text(Path('check.py').read_text() + f'# {attempt}\\n')"
    )
    async with office(root) as job:
        await job.go(configured(worker(tmp_path, script)))
        found = await job.job()
        assert found.blocked is not None
        assert found.blocked.reason == "review"
        evidence = found.progress("T-001").evidence
        assert evidence is not None
        (item,) = evidence.review
        assert (item.path, item.kind) == ("check.py", "config")
        run = await job.say("HUMAN_INTERVENTION", approve=["check.py@000000000000"])
        assert run.state == "BLOCKED"
        run = await job.say("HUMAN_INTERVENTION", approve=[item.name])
        assert run.output["outcome"] == "archived", (await job.job()).blocked
    assert (root / "check.py").read_text().endswith("# 1\n")


async def test_what_was_done_can_be_kept_when_a_job_is_given_up(tmp_path: Path) -> None:
    root = project(tmp_path)
    async with office(root) as job:
        await job.go(configured(worker(tmp_path, "calc.write_text(BAD); say(status='blocked', summary='stuck')")))
        assert (root / "calc.py").read_text() == GOOD
        run = await job.say("ROLLBACK", run=True, keep=True)
        assert run.output["outcome"] == "rolled_back"
        assert (await job.job()).ending == "abandoned, kept"
    assert (root / "calc.py").read_text() == BAD
    (record,) = (root / ".detent/archive").rglob("summary.md")
    assert record.read_text().endswith("\nabandoned, kept\n")


def test_what_the_settings_mean_from_the_project_is_found_where_the_copy_cannot_be_mounted(tmp_path: Path) -> None:
    project, copy = tmp_path / "project", tmp_path / "elsewhere" / "copy"
    for folder in (project / ".venv", copy):
        folder.mkdir(parents=True)
    (copy / "tool").touch()
    open_site = Workplace(str(copy), str(copy), root=str(project))
    beside = str(tmp_path / "worker.py")
    assert open_site.locate([".venv/python", "../worker.py", "a"]) == [str(project / ".venv/python"), beside, "a"]
    assert open_site.locate(["./tool", "sub/../b"]) == ["./tool", "sub/../b"]
    mounted = Workplace(str(copy), str(project), root=str(project))
    assert mounted.locate([".venv/python", "../worker.py"]) == [".venv/python", "../worker.py"]


async def test_work_can_land_in_the_index_except_where_the_user_has_edits(tmp_path: Path) -> None:
    root = project(tmp_path)
    (root / "mine.py").write_text("a = 1\n\n\nb = 2\n")
    git(root, "add", "mine.py")
    git(root, "commit", "-qm", "mine")
    (root / "mine.py").write_text("a = 1  # edited\n\n\nb = 2\n")
    before = git(root, "status", "--porcelain", "-z")
    script = """
calc.write_text(GOOD + "#\\n"); Path("new").write_text("n")
Path("mine.py").write_text(Path("mine.py").read_text() + "c = 3\\n")
"""
    async with office(root) as job:
        await job.go(configured(worker(tmp_path, script), workspace={"land": "staged"}))
        found = await job.job()
    assert found.landed is not None
    assert set(found.landed.staged) == {"calc.py", "new"}
    assert git(root, "diff", "--cached", "--name-only").split() == ["calc.py", "new"]
    assert (root / "mine.py").read_text() == "a = 1  # edited\n\n\nb = 2\nc = 3\n"
    assert any("not staged, because you have edits in them: mine.py" in note.text for note in found.log)
    repository = await Repository.open(root)
    done = await repository.take_back("job", (found.landed.before, found.landed.after), found.landed.written)
    await repository.stage([path for path in found.landed.staged if path not in done.left])
    assert git(root, "status", "--porcelain", "-z") == before


async def test_work_can_land_on_a_branch_alone(tmp_path: Path) -> None:
    root = project(tmp_path)
    async with office(root) as job:
        await job.go(configured(worker(tmp_path, "calc.write_text(GOOD + '#')"), workspace={"land": "branch"}))
    assert (root / "calc.py").read_text() == GOOD
    assert git(root, "show", "detent/job:calc.py") == GOOD + "#"


async def test_a_new_file_that_no_checkpoint_can_hold_is_refused_by_name(tmp_path: Path) -> None:
    root = project(tmp_path)
    with (root / "mine.bin").open("wb") as file:
        file.truncate(60_000_000)  # the user's own is nobody's fault
    script = "calc.write_text(GOOD + '#'); open('huge.bin', 'wb').truncate(60_000_000)"
    async with office(root) as job:
        run = await job.go(configured(worker(tmp_path, script)))
        blocked = (await job.job()).blocked
        assert blocked is not None
        assert (run.state, blocked.reason) == ("BLOCKED", "too_large")
        assert "huge.bin (57 MiB)" in blocked.detail
        assert "mine.bin" not in blocked.detail
        await job.say("ROLLBACK", run=True)
    assert not (root / "huge.bin").exists()


async def test_in_place_what_steers_git_is_put_back_and_told(tmp_path: Path) -> None:
    root = project(tmp_path)
    git(root, "tag", "v1")
    (root / "aside").write_text("set aside")
    git(root, "add", "aside")
    git(root, "stash", "-q", "--", "aside")

    def steering() -> object:
        refs = [line for line in git(root, "for-each-ref").splitlines() if "refs/detent/" not in line]
        files = [(root / ".git" / name).read_bytes() for name in ("config", "info/exclude")]
        return refs, files, git(root, "stash", "list"), sorted((root / ".git/hooks").iterdir())

    before = steering()
    script = """
import subprocess
for line in ("stash drop -q", "tag -d v1", "tag evil", "branch evil", "config core.fsmonitor evil", "pack-refs --all"):
    subprocess.run(["git", *line.split()], check=True, capture_output=True)
Path(".git/info/exclude").write_text("*")
Path(".git/hooks/post-checkout").write_text("x")
Path("calc.py").write_text(GOOD + "#")
"""
    async with office(root) as job:
        await job.go(configured(worker(tmp_path, script), workspace={"use": "in_place"}))
        found = await job.job()
    assert steering() == before
    assert any("the worker changed these in `.git`; they were put back" in note.text for note in found.log)
    assert (root / "calc.py").read_text() == GOOD + "#"
    git(root, "fsck")


def make_submodule(root: Path) -> None:
    library = root.parent / "library"
    library.mkdir()
    git(library, "init", "-q", "-b", "main")
    (library / "x").write_text("1")
    git(library, "add", "-A")
    git(library, "commit", "-qm", "first")
    git(root, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(library), "more")


def make_sparse(root: Path) -> None:
    for name in ("more", "less"):
        (root / name).mkdir()
        (root / name / "x").write_text("1")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "two folders")
    git(root, "sparse-checkout", "set", "--cone", "more")


def make_filtered(root: Path) -> None:
    """As LFS does: what is committed is a pointer, what is worked with is the content."""
    store = root.parent / "store"
    for name, deed in (("clean", f"cat > '{store}'; cksum < '{store}'"), ("smudge", f"cat > /dev/null; cat '{store}'")):
        script = root.parent / name
        script.write_text(f"#!/bin/sh\n{deed}\n")
        script.chmod(0o755)
        git(root, "config", f"filter.lfs.{name}", str(script))
    git(root, "config", "filter.lfs.required", "true")
    (root / ".gitattributes").write_text("more/* filter=lfs\n")
    (root / "more").mkdir()
    (root / "more" / "x").write_text("1")
    git(root, "add", "-A")


@pytest.mark.parametrize("make", [make_submodule, make_sparse, make_filtered])
async def test_submodules_sparse_checkouts_and_large_files_are_worked_on_as_they_lie(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    root = project(tmp_path)
    make(root)
    git(root, "commit", "-qm", "more", "--allow-empty")
    script = "assert Path('more/x').read_text() == '1' and not Path('less').exists()\nPath('more/x').write_text('2')"
    async with office(root) as here:
        run = await here.go(configured(worker(tmp_path, script)))
        assert run.output["outcome"] == "archived", (await here.job()).blocked
    assert (root / "more" / "x").read_text() == "2"
    assert git(root, "status", "--porcelain").split() in (["M", "more"], ["M", "more/x"])
    assert not (root / "less").exists()
