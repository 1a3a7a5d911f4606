"""A secret put into every parameter of every door leaves no trace on the disk."""
