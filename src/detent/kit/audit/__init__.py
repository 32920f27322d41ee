"""The audit: who allowed what, what a changed policy would have done, and which rules people's answers suggest."""
