"""Agents built on the engine: each is a machine, its views, and the glue to its effects."""

__all__: list[str] = []
