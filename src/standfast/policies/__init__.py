"""Write policies: what to keep when bytes run out. The same objects run in production and in the benchmark."""
