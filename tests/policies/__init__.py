"""Tests of the write policies."""
