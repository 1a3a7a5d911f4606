"""Seals: what waits for a human, the signature that decides it, and who may sign."""
