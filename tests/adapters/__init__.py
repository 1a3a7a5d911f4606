"""Tests of memory behind the interfaces of agent frameworks."""
