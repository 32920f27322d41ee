"""`./run bench analysis`: builtin:analysis on public data sets that packages carry, and on one nasty file.

Every run goes through the real journal and a real kernel. It must end without an error, and say of its goal what
`is_met` says here: goals that cannot be reached are among them, and must be called not met with the measured figure.
"""

import asyncio
import importlib
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from bench.figure import Figure
from detent.agents.notebook.brief import Brief, KernelBrief
from detent.agents.notebook.cell import Cell
from detent.agents.notebook.machine import NOTEBOOK
from detent.agents.notebook.service import Notebooks
from detent.core.run import Run
from detent.host.embedded.host import EmbeddedHost

SECONDS_MAX = 300.0  # of a whole run; every candidate has its own bound of about a minute
RUN = "survey"


class Case(NamedTuple):
    """A data set, a goal, and whether the goal can be reached."""

    name: str
    write: Callable[[Path], Path]
    goal: str
    is_met: bool | None  # None: nobody can tell


class Ended(NamedTuple):
    """How a run went."""

    run: Run
    cells: tuple[Cell, ...]
    seconds: float

    @property
    def failed(self) -> list[str]:
        """What cells raised."""
        return [f"{cell.id}: {cell.error}" for cell in self.cells if cell.type == "code" and cell.ran != "ok"]


def from_sklearn(name: str, rows: int = 0) -> Callable[[Path], Path]:
    """A data set of scikit-learn as a CSV file."""

    def write(folder: Path) -> Path:
        datasets = importlib.import_module("sklearn.datasets")  # it has no types, and takes a while
        frame = getattr(datasets, f"load_{name}")(as_frame=True).frame
        path = folder / f"{name}.csv"
        (frame.sample(rows, random_state=0) if rows else frame).to_csv(path, index=False)
        return path

    return write


def from_statsmodels(name: str) -> Callable[[Path], Path]:
    """A data set of statsmodels as the CSV file it is."""

    def write(folder: Path) -> Path:
        path = folder / f"{name}.csv"
        path.write_bytes((files("statsmodels.datasets") / name / f"{name}.csv").read_bytes())
        return path

    return write


def nasty(folder: Path) -> Path:
    """Semicolons, Latin-1, German dates and numbers, free text, constant, empty and id columns, doubled rows, gaps."""
    draw = random.Random(7)
    words = [
        "schöne",
        "helle",
        "Wohnung",
        "nahe",
        "Fluß",
        "großem",
        "Balkon",
        "Küche",
        "für",
        "Gäste",
        "über",
        "Dächern",
    ]
    lines = ["Lfd_Nr;Datum;Straße;Fläche;Währung;Leer;Beschreibung;Gebühr;Umsatz"]
    for number in range(1, 241):
        area = draw.uniform(20, 140)
        fee = draw.choice(["ja", "nein", ""])
        turnover = area * 91 + (400 if fee == "ja" else 0) + draw.gauss(0, 350)
        cells = [
            f"{number}",
            f"{draw.randint(1, 28):02d}.{draw.randint(1, 12):02d}.{draw.randint(2019, 2024)}",
            draw.choice(["Gänsemarkt", "Königstraße", "Am Wall"]),
            f"{area:.1f}".replace(".", ",") if draw.random() > 0.05 else "k.A.",
            "EUR",
            "",
            " ".join(draw.choices(words, k=draw.randint(6, 14))),
            fee,
            f"{turnover:,.2f}".replace(",", " ").replace(".", ",").replace(" ", "."),
        ]
        lines += [";".join(cells)] * (2 if number % 60 == 0 else 1)
    path = folder / "nasty.csv"
    path.write_bytes("\r\n".join(lines).encode("latin-1"))
    return path


def houses(_folder: Path) -> Path:
    """The file of the example."""
    return Path(__file__).parent.parent / "examples" / "notebook_analysis" / "houses.csv"


CASES = (
    Case("iris", from_sklearn("iris"), "classify target with accuracy > 90%", is_met=True),
    Case("wine", from_sklearn("wine"), "predict target, F1 at least 0.95", is_met=True),
    Case("diabetes", from_sklearn("diabetes"), "predict target, R² > 0.4", is_met=True),
    Case("diabetes, impossible", from_sklearn("diabetes"), "predict target with R2 >= 0.95", is_met=False),
    Case("breast cancer", from_sklearn("breast_cancer"), "predict target: AUC ≥ 0.98 and accuracy of 95%", is_met=True),
    Case("digits, 600 rows", from_sklearn("digits", 600), "识别 target，准确率不低于 99.99%", is_met=False),
    Case("linnerud, 20 rows", from_sklearn("linnerud"), "predict Weight, RMSE < 10", is_met=None),
    Case("engel", from_statsmodels("engel"), "predict foodexp, RMSE below 150", is_met=True),
    Case("anes96", from_statsmodels("anes96"), "classify vote, accuracy > 85 %", is_met=True),
    Case("statecrime", from_statsmodels("statecrime"), "predict murder, MAE < 2", is_met=True),
    Case("fair", from_statsmodels("fair"), "describe the groups in this table", is_met=True),
    Case("sunspots", from_statsmodels("sunspots"), "forecast SUNACTIVITY, RMSE < 30", is_met=True),
    Case("spector, white space", from_statsmodels("spector"), "classify GRADE, F1 > 0.95", is_met=False),
    Case("nasty file", nasty, "predict Umsatz with MAPE < 0.5 %", is_met=False),
    Case("houses", houses, "predict price, RMSE < 25000", is_met=True),
)


async def analysed(folder: Path, data_file: Path, goal: str, **more: Any) -> Ended:
    """One run of builtin:analysis to its end, its cells at work in a folder beside the home."""
    variables = {"problem_description": goal, "data_file": str(data_file.absolute())}
    kernel, home = KernelBrief(cwd=str(folder), threads=1), folder / ".detent"
    brief = Brief(goal=goal, variables=variables, kernel=kernel, **more)
    begun = time.monotonic()
    async with Notebooks(home) as notebooks, EmbeddedHost(home, notebooks.effects()) as host:
        await host.start(NOTEBOOK, brief.input(), run_id=RUN)
        await host.signal(RUN, "START_WORKFLOW")
        run = await host.settled(RUN)
        return Ended(run, notebooks.book(RUN).notebook.cells, time.monotonic() - begun)


def survey() -> Iterator[Figure]:
    """All data sets, one after the other."""
    for case in CASES:
        with tempfile.TemporaryDirectory(prefix="survey-") as folder:
            home = Path(folder)
            ended = asyncio.run(analysed(home, case.write(home), case.goal))
        is_right = ended.run.state == "workflow_completed" and ended.run.output.get("achieved") is case.is_met
        is_fine = is_right and not ended.failed and ended.seconds <= SECONDS_MAX
        said = str(ended.run.output.get("reason") or ended.run.error or "")
        bar = f"{'met' if case.is_met else 'not met'}, no error: {said} {'; '.join(ended.failed)}".strip()
        seconds = round(ended.seconds, 1)
        yield Figure("analysis", case.name, seconds, "s", SECONDS_MAX, round(seconds / SECONDS_MAX, 2), bar, is_fine)


GROUPS = {"analysis": survey}
