"""The server: the seven verbs over HTTP, streams of what happens, and the page that shows it."""

from detent.surfaces.server.openapi import document
from detent.surfaces.server.service import Plan, Served, serving

__all__ = ["Plan", "Served", "document", "serving"]
