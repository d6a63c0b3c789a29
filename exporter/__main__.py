"""``python -m exporter`` is the ``exporter`` command."""

from __future__ import annotations

from exporter.cli import main

main()
