"""Hosts drive runs: event in, journal, advance, commands out, effects, outcome, event in."""

from detent.host.port import Host, Summary

__all__ = ["Host", "Summary"]
