"""The judge and its floors: named checks that decide what a text may become."""
