"""The server: the seven verbs over HTTP, streams of what happens, and the page that shows it."""

from detent.surfaces.server.openapi import document
from detent.surfaces.server.service import Served, ServePlan, serving

__all__ = ["ServePlan", "Served", "document", "serving"]
