"""The write-policy benchmark: which policy keeps what matters when bytes run out."""
