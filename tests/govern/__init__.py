"""Tests of governance."""
