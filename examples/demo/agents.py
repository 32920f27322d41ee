"""The three agents, each with one job that needs no key: a notebook, a repair, a mail."""

import shutil
import subprocess
import sys
import time

from examples.demo.stage import EXAMPLES, FOLDER, WAITS, ask, detent, note, tell

GOAL = "predict price, RMSE < 25000"


def notebook() -> str:
    """A data file and a goal become a notebook that says honestly whether the goal was met."""
    tell("6  A notebook agent analyses a data file; each cell is in the journal before the next one begins")
    shutil.copy(EXAMPLES / "notebook_analysis" / "houses.csv", FOLDER / "houses.csv")
    run_id = f"houses-{time.strftime('%H%M%S')}"
    detent("notebook", "run", "houses.csv", "--goal", GOAL, "--id", run_id)
    detent("notebook", "export", run_id, "--output", "houses.html")
    detent("notebook", "export", run_id, "--output", "houses.ipynb")
    return "a notebook was made from houses.csv: houses.html, houses.ipynb"


def coding() -> str:
    """A bug in a git repository, repaired by a worker that is wrong at first; the tests decide."""
    tell("7  A coding job: plan, checkpoint, worker, checks; the first repair is wrong, and the checks say so")
    example, project = EXAMPLES / "coding_bugfix", FOLDER / "coding" / "project"
    shutil.rmtree(project.parent, ignore_errors=True)
    shutil.copytree(example, project.parent)
    subprocess.run(["git", "init", "--quiet"], cwd=project, check=True)  # noqa: S607
    detent("code", "start", "Make add() add", "--plan", "plan.md", "--yes", folder=project)
    detent("code", "archive", "show", folder=project)
    return "a bug in coding/project was repaired at the second attempt, with evidence"


def assistant(is_quiet: bool) -> str:
    """A mail that is asked about first and sent once, however often it is wanted."""
    tell("8  An assistant wants to send a mail: it asks first, and never sends the same one twice")
    mails = FOLDER / "mails"
    shutil.rmtree(mails, ignore_errors=True)
    mails.mkdir()
    sink = subprocess.Popen(
        [sys.executable, EXAMPLES / "mail" / "sink.py", "0", mails], stdout=subprocess.PIPE, text=True
    )
    try:
        assert sink.stdout is not None
        smtp = {"SMTP_PORT": sink.stdout.readline().split()[-1]}
        wish = f"send a mail to bob@example.com saying hello at {time.strftime('%H:%M:%S')}"
        tools = str(EXAMPLES / "mail" / "mail.py")
        detent("chat", "--session", "demo", "--tools", tools, wish, expect=WAITS, env=smtp)
        ask(is_quiet, "Send it?")
        detent("approve", "last", env=smtp)
        note("the same wish in another conversation:")
        detent("chat", "--session", "another", "--tools", tools, wish, env=smtp)
    finally:
        sink.terminate()
        sink.wait()
    sent = len(list(mails.iterdir()))
    if sent != 1:
        raise SystemExit(f"{sent} mails were sent")
    return "one mail was sent, after a yes, although it was wanted twice: mails/"
