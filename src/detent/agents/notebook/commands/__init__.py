"""The commands of the notebook agent: `detent notebook …`."""
