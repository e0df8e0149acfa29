"""State that lasts: the stores of the runtime in a journal on disk."""
