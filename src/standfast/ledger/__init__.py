"""The ledger: an append-only chain of entries, each naming the hash of the one before it."""
