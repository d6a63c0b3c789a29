"""Renders the web pages, with `site_templates`: what their tables, charts and sentences say."""
