"""The project's tests, in the Test Anything Protocol."""

import sys

from calc import add

cases = {"two and three": add(2, 3) == 5, "nothing": add(0, 0) == 0}
for number, (name, ok) in enumerate(cases.items(), 1):
    print("ok" if ok else "not ok", number, "-", name)
sys.exit(0 if all(cases.values()) else 1)
