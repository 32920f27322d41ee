"""What surfaces and agents are built on: agents as values, language and words, a terminal, HTTP routes."""
