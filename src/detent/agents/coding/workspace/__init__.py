"""Checkpoints of a work tree and the way back to them, on private refs of the project's own repository.

Nothing here touches HEAD, a branch, the index, the stash or a hook, except a rollback and a commit, whose business it
is. Not put back, and said so where it matters: times, owners, extended attributes, hard links, ignored files, files
above the cap.
"""

from detent.agents.coding.workspace.checkpoint_record import Checkpoint
from detent.agents.coding.workspace.commit import Committed
from detent.agents.coding.workspace.difference import Change
from detent.agents.coding.workspace.git_command import GitFailed
from detent.agents.coding.workspace.repository import Repository
from detent.agents.coding.workspace.rollback import Rollback, RollbackFailed
from detent.agents.coding.workspace.snapshot import Uncaptured

__all__ = ["Change", "Checkpoint", "Committed", "GitFailed", "Repository", "Rollback", "RollbackFailed", "Uncaptured"]
