"""The papers' experiments: settings, published numbers, verdicts."""
