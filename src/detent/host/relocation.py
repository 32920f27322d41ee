"""Moving a whole journal out of a home's file into a database: four writes, after each of which a call can go on.

1. The file is marked: nobody moves its runs any more.
2. The database has everything, in one transaction, and says that it is not to be used yet.
3. The file is sealed: it says where the journal went.
4. The database may be used.

So there is no moment at which both can be used, and none at which the next call does not know where it is.
"""

from pathlib import Path

from detent.errors import Refused
from detent.host.address import find_address, find_home
from detent.host.opening import load_postgres
from detent.host.reading import RelocationReport


def move_to_database(home: Path, address: str) -> RelocationReport:
    """Move a home's journal to a database, or finish that; nobody else may use the home."""
    from detent.host.embedded.journal_departure import Departure  # noqa: PLC0415  # see `opening`

    if find_address(home):
        raise Refused(f"{home} has its journal in a database already")
    arrivals = load_postgres("journal_arrival")
    departure = Departure(home)
    try:
        going, has_left = departure.target
        if going and going != address:
            if has_left:
                raise Refused(f"{home} was moved to {going}")
            raise Refused(f"{home} is being moved to {going}; finish that, or give it up with --cancel")
        target = find_home(address)
        arrival = arrivals.Arrival(target)
        try:
            head = departure.head
            state = arrival.find_state(head.journal)
            if (state == "live" and not has_left) or (state == "none" and has_left):
                raise Refused(f"{arrival.name} does not fit {home}: only one of them can have the journal")
            if not going:
                arrival.clear()  # of an earlier move, which was given up
                departure.mark(address)
                state = "none"
            if state == "none":
                arrival.take(departure.tables(), head, home)
            arrival.take_artefacts(departure.artefacts)
            copied, left = departure.copy_files(target)
            if not has_left:
                departure.seal(address)
            arrival.open()
        finally:
            arrival.close()
        return RelocationReport(str(target), head.runs, head.events, head.claims, head.head, copied, left)
    finally:
        departure.close()


def cancel_move(home: Path) -> str:
    """Give up a move that was not finished; where it was going. What may be in the database cannot be used."""
    from detent.host.embedded.journal_departure import Departure  # noqa: PLC0415  # see `opening`

    departure = Departure(home)
    try:
        going, has_left = departure.target
        if has_left or not going:
            raise Refused(f"no move of {home} is under way")
        departure.unmark()
        return going
    finally:
        departure.close()
