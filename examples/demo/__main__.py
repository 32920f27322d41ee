"""The demo: an approval that survives a kill, a notebook analysis, a coding job and the assistant.

    ./run demo            asks you
    ./run demo --yes      answers for you
    ./run demo --serve    leaves the page open on those runs
    ./run demo --home postgresql://HOST/DATABASE    keeps the runs in a database

Everything is done with the `detent` command, as you would, and without a key.
"""

import argparse
import os
import sys
import time
from pathlib import Path

from examples.demo.agents import assistant, coding, notebook
from examples.demo.release import release
from examples.demo.stage import DETENT, FOLDER, environment, make_folder, note, tell, use_database


def main() -> int:
    """Tell the stories; 0 when they went as told."""
    parser = argparse.ArgumentParser(prog="./run demo", description="detent in four stories")
    parser.add_argument("--yes", action="store_true", help="answer every question with yes")
    parser.add_argument("--serve", action="store_true", help="leave the page open on these runs")
    parser.add_argument("--home", default="", metavar="postgresql://…", help="keep the runs in this database")
    given = parser.parse_args()
    is_quiet = given.yes or not sys.stdin.isatty()
    begun = time.monotonic()
    make_folder(FOLDER)
    if given.home:
        use_database(given.home)
    done = [release(is_quiet), notebook(), coding(), assistant(is_quiet)]

    tell(f"What happened, in {time.monotonic() - begun:.0f} s")
    for line in done:
        note(f"· {line}")
    where = FOLDER.relative_to(Path.cwd()) if FOLDER.is_relative_to(Path.cwd()) else FOLDER
    if given.home:
        note(f"look: cd {where} && export DETENT_HOME={given.home}; detent list · detent log last · detent serve")
    else:
        note(f"look: cd {where} && detent list · detent log last · detent serve")
        note("the same on a PostgreSQL of yours: ./run demo --home postgresql://HOST/DATABASE")
    if given.serve:
        tell("The page on these runs; Ctrl-C ends it")
        os.chdir(FOLDER)
        os.execve(DETENT, [str(DETENT), "serve"], environment())  # noqa: S606  # what follows is the server itself
    return 0


if __name__ == "__main__":
    sys.exit(main())
