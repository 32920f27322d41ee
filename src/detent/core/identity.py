"""Who does something, and how that is known.

A name alone is only claimed. An identity says what vouches for the name, and whether somebody else speaks for it:
"ann for kim" counts as kim's word, and neither of the two is heard a second time.
"""

from typing import Literal

import msgspec

# `step`: something that an effect has started; `unknown`: a program of which the kernel does not show if it is one;
# `mcp`, `hook` and `trigger`: a program under a name of its own; `detent`: a run moves another one. Everybody else is a
# person.
Known = Literal[
    "claimed", "os_user", "token", "ssh", "proxy", "session", "mcp", "hook", "trigger", "step", "unknown", "detent"
]  # fmt: skip


class Identity(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A name with what vouches for it."""

    name: str = ""  # for whom it counts
    known: Known = "claimed"
    spoken_by: str = ""  # who says it, where that is somebody else
    is_checked: bool = False  # the kernel was asked where it comes from: another process, and no step; never kept

    def __str__(self) -> str:
        """As people read it: "ann", or "ann for kim"."""
        return f"{self.spoken_by} for {self.name}" if self.spoken_by else self.name

    @property
    def speaker(self) -> str:
        """Who says it."""
        return self.spoken_by or self.name

    @property
    def is_nobodys(self) -> bool:
        """Whether it is a program behind which no person stands, whatever name it gives."""
        return self.known in ("step", "unknown")

    @property
    def known_by(self) -> str:
        """As the journal keeps it: nothing for a name that is only claimed, as before there were people."""
        return "" if self.known == "claimed" else self.known


By = str | Identity
"""What every verb takes for who does it; a plain name is a claimed one."""


def identity_of(by: By) -> Identity:
    """An identity, of a claimed name too."""
    return by if isinstance(by, Identity) else Identity(by)


def voices(by: str, spoken_by: str) -> frozenset[str]:
    """Everybody who is heard in one answer: whoever speaks, and whoever it counts for."""
    return frozenset(name for name in (by, spoken_by) if name)
