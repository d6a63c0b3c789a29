"""Clients that others generate from the API's description, against a served tree."""
