"""The adapters with the real frameworks, which are too heavy for every environment."""
