"""A soak test: random work on indexes, disturbed in every way we know, with every answer compared with a plain model."""
