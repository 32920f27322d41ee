"""Checkpoints of a work tree and the way back to them, on private refs of the project's own repository.

Nothing here touches HEAD, a branch, the index, the stash or a hook, except a rollback and a commit, whose business it
is. Not put back, and said so where it matters: times, owners, extended attributes, hard links, ignored files, files
above the cap.
"""

from detent.effects.git.command import GitFailed
from detent.effects.git.commit import Committed
from detent.effects.git.difference import Change
from detent.effects.git.record import Checkpoint
from detent.effects.git.repository import Repository
from detent.effects.git.rollback import Rollback, RollbackFailed
from detent.effects.git.snapshot import Uncaptured

__all__ = ["Change", "Checkpoint", "Committed", "GitFailed", "Repository", "Rollback", "RollbackFailed", "Uncaptured"]
