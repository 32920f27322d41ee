"""The route table: every address of the API. A part with addresses of its own adds its module's rows here."""

from detent.surfaces.server import (
    assistant,
    coding,
    control,
    definition,
    history,
    hook,
    inbox,
    mind,
    run,
    settling,
    stream,
    workshop,
)
from detent.surfaces.server.route import Route

PARTS = (run, control, history, inbox, settling, definition, stream, hook, assistant, mind, workshop, coding)


def routes() -> tuple[Route, ...]:
    """All rows, in the order in which they are tried."""
    return tuple(route for part in PARTS for route in part.ROUTES)
