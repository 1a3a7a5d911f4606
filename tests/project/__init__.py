"""Tests of the project itself: public names, file sizes, the documentation."""
