"""What the notebook's effects declare, known without loading them."""

from detent.core.effect_type import Declared

# No limit of the host's: a cell has its own, and a planner's is its connection's.
_AGAIN = Declared(kind="idempotent", timeout_s=0.0, scope="run", settle_s=0.0)
# Nothing can be in flight after a crash: the kernel of a dead detent is ended before anybody asks.
_ONCE = Declared(kind="irreversible", timeout_s=0.0, scope="run", settle_s=0.0)

DECLARED = {
    "notebook.plan": _AGAIN,
    "notebook.generate": _AGAIN,
    "notebook.act": _AGAIN,
    "notebook.once": _ONCE,
    "notebook.record": _AGAIN,
    "notebook.next": _AGAIN,
    "notebook.confirm": _AGAIN,
}
