"""Report: the default model compared with what a user would take in its place, under every protocol, and a page of tables."""
