"""Memory behind the interfaces that agent frameworks bring along. One framework a file; each is an extra."""
