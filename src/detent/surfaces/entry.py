"""The program `detent` as a process of its own.

Most commands are short. Until one is found, with all that it imports, nothing is garbage, and at the end everything
goes away with the process: searching for garbage then would take a tenth of a short command's time.
"""

import gc
import sys


def main() -> None:
    """Do what the command line says, and exit."""
    gc.disable()  # until the command's work begins
    try:
        from detent.surfaces.cli import main as called

        code = called()
    except KeyboardInterrupt:  # before there was anything that could be told
        code = 130
    gc.freeze()
    sys.exit(code)
