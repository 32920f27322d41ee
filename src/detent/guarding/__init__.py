"""Contracts for any Python function: `detent.guard` puts the tools of somebody's agent behind the journal."""

from detent.guarding.function_guard import FunctionGuard, guard
from detent.guarding.guarded_function import CallOptions, Ticket

__all__ = ["CallOptions", "FunctionGuard", "Ticket", "guard"]
