"""The commands of the coding agent: `detent code …`."""
