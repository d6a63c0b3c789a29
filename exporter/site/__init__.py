"""The web site for people: pages rendered once a run from the templates in ``site_templates`` (docs/site.md)."""

from __future__ import annotations

from exporter.render.site.pages import SiteFacts, render_site
from exporter.render.site.templates import template_folder

__all__ = ["SiteFacts", "render_site", "template_folder"]
