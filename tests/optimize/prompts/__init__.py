"""Tests of the prompts: rendering, and one contract over the three overrides stores."""
