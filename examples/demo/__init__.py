"""What `./run demo` shows."""
