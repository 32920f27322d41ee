"""How notebooks are spoken of on the terminal."""

from detent.kit.terminal.manner import Manner

MANNER = Manner(has_own_retry=True)
