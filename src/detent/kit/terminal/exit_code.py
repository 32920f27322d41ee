"""Exit codes: 0 completed, 1 failed, 2 usage, definition or refused, 3 waiting, 4 rejected or cancelled."""

FAILED, MISTAKE, INTERRUPTED = 1, 2, 130
DEBUG = "DETENT_DEBUG"  # where it is set, whatever goes wrong shows its traceback
