"""Makes houses.csv: 506 invented houses, with the faults that real files have. The same seed gives the same file.

python make_houses.py houses.csv
"""

import csv
import math
import random
import sys
from datetime import date, timedelta
from pathlib import Path

SEED = 20_260_101
ROWS = 500
DOUBLED = 6
HEADER = ["house_id", "sold_on", "district", "area_m2", "rooms", "built", "condition", "garage", "garden_m2",
          "distance_km", "energy_class", "currency", "remarks", "price"]  # fmt: skip
DISTRICTS = {"Harbour": 1.25, "Old Town": 1.15, "Hillside": 1.05, "Westfield": 0.92, "Mills": 0.8}
CONDITIONS = {"new": 1.12, "good": 1.0, "fair": 0.9, "poor": 0.76}
REMARKS = ("quiet street", "close to the tram", "needs a new kitchen", "view over the river", "", "", "")


def house(number: int, draw: random.Random) -> list[str]:
    """One house; its price follows from the rest, and from luck."""
    district = draw.choices(list(DISTRICTS), weights=[2, 2, 3, 4, 3])[0]
    area = round(min(320.0, max(38.0, draw.lognormvariate(4.65, 0.35))), 1)
    rooms = max(1, round(area / 27 + draw.gauss(0, 0.7)))
    built = draw.randint(1905, 2024)
    condition = draw.choices(list(CONDITIONS), weights=[1 + (built > 2010) * 4, 5, 3, 1 + (built < 1960)])[0]
    garage = draw.random() < 0.25 + 0.002 * area
    garden = round(draw.expovariate(1 / 180)) if draw.random() < 0.7 else 0
    distance = round(abs(draw.gauss(4.5, 3.0)) + 0.2, 2)
    sold = date(2021, 1, 1) + timedelta(days=draw.randrange(1700))
    energy = "ABCDEFG"[min(6, max(0, round((2024 - built) / 22 + draw.gauss(0, 0.8))))]
    worth = 52_000 + 2_050 * area**0.98 + 9_000 * math.sqrt(rooms) + 14_000 * garage + 42 * garden
    worth *= (
        DISTRICTS[district] * CONDITIONS[condition] * (1 - 0.012 * distance) * (1 + 0.00006 * (sold.year - 2021) * 365)
    )
    price = round(worth * math.exp(draw.gauss(0, 0.055)), -2)
    remark = draw.choice(REMARKS)
    row = [f"H{number:05d}", sold.isoformat(), district, f"{area}", f"{rooms}", f"{built}", condition,
           "yes" if garage else "no", f"{garden}", f"{distance}", energy, "EUR", remark, f"{price:.0f}"]  # fmt: skip
    for column, share in ((5, 0.03), (9, 0.04), (10, 0.08)):
        if draw.random() < share:
            row[column] = ""
    return row


def main(path: str) -> None:
    """Write the file."""
    draw = random.Random(SEED)  # noqa: S311  # nothing secret is drawn
    rows = [house(number, draw) for number in range(1, ROWS + 1)]
    rows += [list(rows[draw.randrange(ROWS)]) for _ in range(DOUBLED)]
    with Path(path).open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEADER, *rows])


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else str(Path(__file__).with_name("houses.csv")))
