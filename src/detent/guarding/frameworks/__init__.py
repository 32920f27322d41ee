"""Guarded functions as tools of agent frameworks; each module imports its framework when it is used."""
