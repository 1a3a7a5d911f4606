"""Where episodes come from: generators, and importers of real histories."""
