"""Tests of the write-policy benchmark."""
