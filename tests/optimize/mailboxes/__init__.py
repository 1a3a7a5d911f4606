"""Tests of the mailboxes: laws over both backends, and faults that a server and a network can have."""
