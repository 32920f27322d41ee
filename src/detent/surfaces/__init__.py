"""Surfaces: command line, server, MCP. Each parses, calls one verb and renders; the rules are further down."""
