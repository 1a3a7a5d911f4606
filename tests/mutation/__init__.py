"""Mutation testing of the core modules: ``make mutants``."""
