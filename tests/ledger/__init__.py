"""Tests of the ledger: chain, tree, notes, checkpoints and receipts."""
