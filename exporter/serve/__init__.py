"""Answers requests for a published tree: preview server, rules for edges, and the server for assistants."""
