"""The deployment that docs/scale.md shows: units that systemd takes, and a compose file whose parts fit together."""

import re
import shutil
import subprocess
from pathlib import Path

import click
import pytest
import yaml

from detent.surfaces.cli.program import program

DEPLOY = Path(__file__).parents[1] / "docs" / "deploy"
UNITS = sorted(DEPLOY.glob("*.service"))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    copies = []
    for unit in UNITS:
        text = re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", unit.read_text(), flags=re.M)
        copy = tmp_path / unit.name.replace("@.", "@1.")
        copy.write_text(re.sub(r"^User=.*\n", "", text, flags=re.M))
        copies.append(str(copy))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *copies], capture_output=True, text=True, check=False
    )
    about = [line for line in done.stderr.splitlines() if str(tmp_path) in line or "detent" in line]
    assert not about, about


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_the_units_call_commands_that_exist(unit: Path) -> None:
    (line,) = re.findall(r"^ExecStart=\S+/detent (.*)$", unit.read_text(), flags=re.M)
    check_command(line.split())


def test_the_parts_of_the_compose_file_fit_together() -> None:
    found = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    assert set(found) == {"services", "volumes", "secrets"}
    for name, service in found["services"].items():
        assert ("image" in service) != ("build" in service), name
        assert set(service.get("depends_on", ())) <= set(found["services"])
        assert set(service.get("secrets", ())) <= set(found["secrets"])
        if service["command"][0] == "detent":
            check_command(service["command"][1:])
            address = service["environment"]["DETENT_HOME"]
            assert address.split("@")[1].split("/")[0] in found["services"], "the database is one of them"
            assert ":" not in address.removeprefix("postgresql://").split("@")[0], "no password in an address"


def check_command(words: list[str]) -> None:
    """A command line of detent is one that it would take."""
    command: click.Command = program()
    while isinstance(command, click.Group):
        found = command.get_command(click.Context(command), words[0])
        assert found is not None, words
        command, words = found, words[1:]
    options = {name for parameter in command.params for name in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= options
