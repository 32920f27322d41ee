"""The coding lifecycle: from a requirement to a verified, archived change in a git repository."""
