"""Agents: machines of the seed documents with their views, prompts and glue; they do not know each other."""
