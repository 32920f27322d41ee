"""Chinese for the sentences of errors: what is raised in English, with `{}` for each value, and `{0}`, `{1}` in Chinese."""
