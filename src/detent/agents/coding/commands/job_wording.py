"""How jobs are spoken of on the terminal."""

from detent.kit.terminal.run_wording import Manner

MANNER = Manner(
    resume=("code", "resume"),
    ways={
        "CONFIRMING": (("code", "confirm"), ("code", "revise", "WISH"), ("code", "cancel")),
        "BLOCKED": (("code", "fix", "HINT"), ("code", "retry"), ("code", "skip"), ("code", "rollback")),
    },
    has_own_retry=True,
)
