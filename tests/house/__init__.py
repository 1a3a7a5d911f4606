"""Tests of the house itself: names, sizes, contracts, papers."""
