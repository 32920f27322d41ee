"""Native DBOS, by the Python of its own environment: `work ADDRESS NAME`, or `begin ADDRESS RUNS LENGTH`."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from dbos import DBOS, DBOSClient

QUEUE, VERSION = "steps", "bench"


@DBOS.step()
def step(number: int) -> int:
    """Do nothing."""
    return number


@DBOS.workflow()
def chain(length: int) -> int:
    """So many steps, one after the other."""
    for number in range(length):
        step(number)
    return length


def work(address: str, name: str) -> None:
    """A worker, until it is killed."""
    DBOS(
        config={
            "name": "bench",
            "system_database_url": address,
            "application_version": VERSION,
            "executor_id": name,
            "log_level": "ERROR",
        }
    )
    DBOS.launch()
    DBOS.register_queue(QUEUE, polling_interval_sec=0.05)
    print("ready", flush=True)
    threading.Event().wait()


def begin(address: str, runs: int, length: int) -> None:
    """Hand out the runs, when told to."""
    client = DBOSClient(system_database_url=address)
    options = {"queue_name": QUEUE, "workflow_name": chain.__qualname__, "app_version": VERSION}
    print("ready", flush=True)
    sys.stdin.readline()
    with ThreadPoolExecutor(8) as several:
        for _ in several.map(lambda _: client.enqueue(options, length), range(runs)):
            pass


if __name__ == "__main__":
    if sys.argv[1] == "work":
        work(*sys.argv[2:4])
    else:
        begin(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
