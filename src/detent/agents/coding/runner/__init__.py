"""What is loaded into the test runners of projects; nothing of detent can be imported there."""
