"""Tests of byte models, budgets and the budgeted store."""
