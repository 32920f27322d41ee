"""Agents: machines with their views, prompts and glue; they do not know each other."""
