"""Tests of the providers, against a small server of our own and, in `make test-all`, a real model."""
