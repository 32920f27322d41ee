"""Programs that `./run bench postgres` starts several of: each does the same steps in its own way."""
