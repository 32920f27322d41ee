"""The people file of a home: where it is, reading it anew when it has changed, and writing it.

It lies inside the home, beside the journal, and not beside the policy: the home is private (0700) and out of the reach
of steps, and whoever can write this file can be anybody.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from detent.errors import DefinitionError, JournalError, Refused
from detent.whole_file import write_whole

PEOPLE_FILE = "detent.people.yaml"  # the same as `host.people` says, which would import machines for it

if TYPE_CHECKING:
    from detent.core.people import People

TOKEN_VARIABLE = "DETENT_TOKEN"  # the name of a variable


def people_file(home: Path) -> Path:
    """Where a home keeps its people."""
    return home / PEOPLE_FILE


def has_people(home: Path) -> bool:
    """Whether a home knows people; one that cannot be looked at does."""
    try:
        os.lstat(people_file(home))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


class PeopleFile:
    """The people of one home, as the file says now; with the token that this process brings, if any."""

    def __init__(self, home: Path, token: str = "") -> None:
        self.path, self.token = people_file(home), token
        self._place = str(self.path)
        self._stamp: tuple[int, int, int] | None = None
        self._read: People | None = None

    def current(self) -> "People | None":
        """The people; None where there is no file. One that cannot be read is an error, never nobody."""
        try:
            found = os.lstat(self._place)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise DefinitionError(f"cannot be read: {error.strerror}", self._place) from None
        stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
        if self._read is None or stamp != self._stamp:
            from detent.define.people import load_people

            self._read, self._stamp = load_people(self.path), stamp
        return self._read

    def check(self, people: "People") -> None:
        """Refuse people who could not be read again, with a sentence."""
        from detent.define.document import read_document
        from detent.define.people import compile_people, write_people
        from detent.define.problem import BrokenDefinition

        try:
            found = compile_people(read_document(write_people(people), PEOPLE_FILE))
        except BrokenDefinition as error:
            raise Refused("; ".join(problem.text for problem in error.problems)) from None
        if found != people:
            raise Refused("these people cannot be written down")

    def write(self, people: "People") -> None:
        """Write the file, whole or not at all, readable by its owner only."""
        from detent.define.people import write_people

        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(self.path, write_people(people).encode(), is_durable=True)
        except OSError as error:
            raise JournalError(f"cannot write {self.path}: {error.strerror}") from None
