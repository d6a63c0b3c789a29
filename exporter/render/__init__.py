"""Renders the frames of a run: every document, list, feed and web page as bytes."""
