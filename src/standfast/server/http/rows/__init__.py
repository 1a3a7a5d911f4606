"""Rows of the table of routes: what a row is, and those of what stands beside memory."""
