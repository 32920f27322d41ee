"""What every command says to a program (`--json`): one session per area, with real processes, as transcripts."""

import shlex
import shutil
from pathlib import Path

import pytest

from tests.golden.transcript import Marks, compare, pretty, told
from tests.surfaces.command import Detent

STAGE = Path(__file__).parent / "stage"
SESSIONS = {
    "definitions": """
        version
        schema
        schema policy
        init
        init new.yaml --template approval-release
        validate new.yaml
        validate spend.yaml
        validate bad.yaml
        validate flows.py:TWO
        validate flows.py:NOBODY
        test spend.test.yaml
        test spend.test.yaml --crash
        graph spend.yaml
        graph spend.yaml --format mermaid
        graph flows.py:MAIL --format dot
        run spend.yaml --dry-run --set what=tea --set amount=500
        completion bash
    """,
    "runs": """
        run flows.py:QUICK --id quick --set text=hello
        run flows.py:QUICK --id quick --set text=hello
        run flows.py:BREAKS --id breaks
        run flows.py:PLEA --id plea --set to=ann
        run flows.py:TWO --id two --set to=joe
        run flows.py:FAMILY --id family --set to=kid
        run spend.yaml --id tea --set what=tea --set amount=5
        run spend.yaml --id car --input '{"what": "car", "amount": 5000}'
        run spend.yaml --set what=tea --set amount=much
        run bad.yaml
        run nowhere.yaml
        show quick
        show breaks --why
        show plea --why
        show two
        show family
        show car --why
        show nobody
        log quick
        log tea
        log plea --verify
        log --all --verify
        log quick --export
        graph car
        list
        list --waiting
        list --status failed --limit 1
        watch quick
        watch quick --after 1
        watch tea --after 2
    """,
    "answers": """
        run flows.py:PLEA --id yes --set to=ann
        approve yes --comment fine --by lee
        approve yes
        run flows.py:PLEA --id again --set to=ann
        answer again --outcome use
        run flows.py:PLEA --id no --set to=bob
        reject no working/send/1 --comment never --by lee
        run flows.py:PLEA --id other --set to=eve
        approve other --args '{"to": "eva"}' --patch '{"reviewed": true}'
        run flows.py:FORM --id form
        answer form --data '{"count": "many"}'
        answer form --data '{"count": 3}'
        run flows.py:FAMILY --id family --set to=kid
        approve family
        run flows.py:TWO --id two --set to=joe
        approve two
        run flows.py:DOUBT --id doubt --set to=zoe
        run flows.py:DOUBT --id doubt2 --set to=yan
        run flows.py:DOUBT --id doubt3 --set to=xiu
        answer doubt --outcome happened --result '{"sent": "zoe"}'
        settle
        settle doubt2 --outcome give-up
        settle --all --outcome happened
        show doubt3
        list
    """,
    "moves": """
        run flows.py:MAIL --id mail --set to=ann
        signal mail SEND --id once
        signal mail SEND --id once
        signal mail NONSENSE
        reject mail
        pause mail
        signal mail SEND
        resume mail
        fork mail --at 1 --id fork
        migrate fork flows.py:MAIL_2
        signal fork DROP --data '{"why": "enough"}'
        migrate fork flows.py:MAIL
        cancel mail --reason enough
        cancel mail
        resume
        log fork
        log mail
        run flows.py:QUICK --id quick --set text=old
        prune --older-than 0s --dry-run
        prune --older-than 0s
        list
    """,
    "agents": """
        chat hello --session s1
        chat 'what is 2 + 3?' --session s1
        mcp list
        mcp tools
        notebook list
        notebook show nobody
        notebook status nobody
        code status
        code checkpoints
        code archive list
    """,
}


@pytest.fixture
def detent(tmp_path: Path) -> Detent:
    made = Detent(tmp_path)
    shutil.copytree(STAGE, tmp_path, dirs_exist_ok=True)
    for name in [name for name in made.env if name.startswith("DETENT_") or name.endswith("_API_KEY")]:
        del made.env[name]
    made.env |= {"HOME": str(tmp_path), "DETENT_LANG": "en"}
    return made


def test_doctor_makes_the_same_checks(detent: Detent, tmp_path: Path) -> None:
    detent("run", "flows.py:QUICK", "--id", "quick", "--set", "text=hello")
    said = detent("doctor", "--deep", "--json", code=None).json
    for check in said["checks"]:  # what it finds is about this machine
        check |= {"level": "<level>", "text": "<text>"}
    compare("doctor.txt", pretty(Marks(tmp_path).value(said | {"ok": "<ok>"})))


@pytest.mark.parametrize("area", SESSIONS)
def test_a_session_says_what_it_said(detent: Detent, tmp_path: Path, area: str) -> None:
    marks, lines = Marks(tmp_path), []
    for line in SESSIONS[area].split("\n"):
        if argv := shlex.split(line):
            done = detent(*argv, "--json", code=None)
            assert "Traceback" not in done.err, done
            lines.append(f"$ detent {line.strip()} --json\n{told(done, marks)}\n")
    compare(f"commands-{area}.txt", "".join(lines))
