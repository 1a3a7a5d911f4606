"""Tests of the web console: its pages over HTTP, and in a real browser."""
