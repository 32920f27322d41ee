"""What commands are built on: the caller, options, reports of runs, questions, and staying with a run."""
