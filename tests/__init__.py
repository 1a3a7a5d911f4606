"""The second reader of the code."""
