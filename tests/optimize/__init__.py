"""Tests of the loops, and of what they need."""
