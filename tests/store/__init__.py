"""Tests of the store: one contract over all backends, and the proofs that it loses nothing."""
