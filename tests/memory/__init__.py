"""Memory and its runs, through the public names."""
