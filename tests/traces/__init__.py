"""Tests of traces: recorded, kept, compared and played again."""
