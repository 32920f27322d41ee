"""Hosts drive runs: event in, journal, advance, commands out, effects, outcome, event in.

`open_host` and `open_reader` give a home's host and reader; whoever uses them knows only the port.
"""

from detent.host.opening import open_host, open_reader
from detent.host.port import Host, Reader
from detent.host.reading import Summary
from detent.host.standing import Standing

__all__ = ["Host", "Reader", "Standing", "Summary", "open_host", "open_reader"]
