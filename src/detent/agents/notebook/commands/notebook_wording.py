"""How notebooks are spoken of on the terminal."""

from detent.agents.notebook.notebook_file import find_written
from detent.kit.terminal.run_wording import Manner

MANNER = Manner(has_own_retry=True, files=find_written)
