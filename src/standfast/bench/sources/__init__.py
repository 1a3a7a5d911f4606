"""Where episodes come from: generators, and importers of real API and documentation histories."""
