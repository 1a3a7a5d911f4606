"""Loops that run agents, evaluate them and shorten their prompts, with what they need: prompts, mailboxes, providers, evals."""
