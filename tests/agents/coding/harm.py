"""Random repositories × workers that do harm × kill -9: afterwards the user's repository is byte for byte as it was.

`./run harm [COUNT] [SEED]` plays that many jobs. Each has its own project, its own mix of harm, and dies at random
journal writes and git calls, also while it is rolled back.
"""

import asyncio
import concurrent.futures
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from detent.agents.coding.job import Landed, job_of
from detent.agents.coding.workspace import Repository
from tests.agents.coding.test_crash import COUNTING, Case, played
from tests.agents.coding.world import configured, git, listing, project, worker

HARM = (
    "import shutil; shutil.rmtree('.git', ignore_errors=True)",
    "import shutil; shutil.rmtree('.detent', ignore_errors=True)",
    "run('git clean -fdxq')",
    "run('git stash -u -q; git stash drop -q')",
    "run('git checkout -q -b other; git add -A; git commit -qm stolen; git branch -D main')",
    "run('git tag -f v1; git tag -d v1; git update-ref -d refs/heads/main')",
    "run('git reset -q --hard; git reflog expire --expire=now --all; git gc -q --prune=now')",
    "run('echo \"*\" >> .git/info/exclude; git config core.fsmonitor false; git config core.bare true')",
    "Path('.git/hooks').mkdir(exist_ok=True, parents=True); Path('.git/hooks/post-checkout').write_text('x')",
    "Path('.gitignore').write_text('*\\n')",
    "[os.unlink(p) for p in Path('.').iterdir() if p.is_file() or p.is_symlink()]",
    "calc.unlink(missing_ok=True); calc.mkdir(); (calc / 'x').write_text('x')",
    "Path('a').rename('b') if Path('a').exists() else None",
    "os.symlink(os.getcwd() + '/..', 'up')",
    "Path('sub').mkdir(exist_ok=True); run('git init -q sub; echo x > sub/f')",
    "[os.chmod(p, 0o000) for p in Path('.').iterdir() if p.is_file() and not p.is_symlink()]",
    "Path('big').write_bytes(bytes(60_000_000))",
    "Path(os.environ['DETENT_PROMPT_FILE']).parents[3].joinpath('journal.db').write_text('x')",
    "Path('calc.py').write_text('half')",
    "run('git worktree add -q ../elsewhere; git submodule add -q ./nowhere')",
    "if os.fork() == 0:\n    os.setsid()\n    while True: Path('calc.py').write_text('again')",
)
HEAD = """
import subprocess
def run(line): subprocess.run(line, shell=True, capture_output=True)
def attempt_harm(deed):
    try: exec(deed)
    except OSError: pass
"""


class HarmCase(Case):
    """A random project, and a worker that does it some harm."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.random = folder, random.Random(seed)
        self.root = project(folder)
        self._edit()
        self._grow()
        git(self.root, "tag", "v1")
        (self.root / "aside").write_text("set aside")
        git(self.root, "add", "aside")
        git(self.root, "stash", "-q", "--", "aside")
        deeds = self.random.sample(HARM, self.random.randrange(1, 4))
        body = HEAD + "".join(f"attempt_harm({deed!r})\n" for deed in deeds)
        if self.random.random() < 0.7:
            body += "say(status='blocked', summary='done with it')\n"
        self.settings = configured(worker(folder, body), fix={"attempts": 1, "interruptions": 20})
        wrapper = folder / "bin" / "git"
        wrapper.parent.mkdir()
        counting = COUNTING.format(folder=folder, name="git", deed="", then="")
        wrapper.write_text(f"{counting}exec '{shutil.which('git')}' \"$@\"\n")
        wrapper.chmod(0o755)
        self.deeds, self.was = deeds, self.state()

    def state(self) -> dict[str, Any]:
        """Everything of the user's that a worker could have touched."""
        refs = [line for line in git(self.root, "for-each-ref").splitlines() if "refs/detent/" not in line]
        files = {name: (self.root / ".git" / name).read_bytes() for name in ("config", "HEAD", "info/exclude")}
        hooks = sorted(os.listdir(self.root / ".git" / "hooks"))
        index = git(self.root, "ls-files", "-s", "-z")
        return {"tree": listing(self.root), "refs": refs, "files": files, "hooks": hooks, "index": index,
                "stash": git(self.root, "stash", "list")}  # fmt: skip

    def play(self) -> str:
        """Let it happen; what is not as it was, or nothing."""
        deaths: list[dict[str, Any]] = []
        for _ in range(self.random.randrange(0, 4)):
            kind, most = self.random.choice([("fold", 30), ("git", 120)])
            deaths.append({kind: self.random.randrange(1, most), "after": self.random.random() < 0.5})
        env = {**os.environ, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"}
        (told,) = played([self.script(deaths, is_rolled_back=True)], env)
        self.check_journal()
        outcome = (told.get("output") or {}).get("outcome")
        if outcome == "archived":  # harm that no check minds has landed, and is taken back
            landed = job_of(told["context"]).landed
            assert landed is not None
            asyncio.run(_take_back(self.root, landed))
        elif outcome != "rolled_back":
            return f"it ended as {told.get('state')}: {told.get('context', {}).get('blocked')}"
        now = self.state()
        wrong = [name for name in now if now[name] != self.was[name]]
        git(self.root, "fsck")
        return f"not as it was: {', '.join(wrong)}" if wrong else ""


async def _take_back(root: Path, landed: Landed) -> None:
    repository = await Repository.open(root)
    await repository.take_back("job", (landed.before, landed.after), landed.written, landed.undo)


def play_seed(seed: int) -> str:
    """One case; what went wrong, or nothing."""
    with tempfile.TemporaryDirectory(prefix="detent-harm-") as folder:
        case = HarmCase(Path(folder), seed)
        problem = case.play()
        return f"seed {seed}: {problem}; harm: {case.deeds}" if problem else ""


def main(count: int, seed: int) -> int:
    """Play many, two at a time; how many went wrong."""
    wrong = 0
    with concurrent.futures.ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        for number, problem in enumerate(pool.map(play_seed, range(seed, seed + count)), 1):
            if problem:
                wrong += 1
                sys.stdout.write(f"{problem}\n")
            if number % 10 == 0:
                sys.stdout.write(f"{number - wrong} of {number} so far\n")
                sys.stdout.flush()
    sys.stdout.write(f"{count - wrong} of {count} repositories are as they were\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    sys.exit(main(given[0] if given else 20, given[1] if len(given) > 1 else random.randrange(2**31)))
