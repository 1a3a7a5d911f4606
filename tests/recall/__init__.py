"""Tests of ``memory.read``."""
