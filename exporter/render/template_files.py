"""The folder of the templates, and an environment for the ones that need nothing of the site's.

This module imports no protocol, so that a command that renders one small text starts quickly.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import TypeVar

import jinja2


def template_folder() -> Path:
    """Where the templates are: inside the installed package, or next to it in a source checkout."""
    package = Path(str(files("exporter")))
    installed = package / "_site_templates"
    return installed if installed.is_dir() else package.parent / "site_templates"


_Environment = TypeVar("_Environment", bound=jinja2.Environment)


def environment_of(kind: type[_Environment]) -> _Environment:
    """An environment without filters of its own: everything is escaped, and a name that is not defined is an error."""
    return kind(
        loader=jinja2.FileSystemLoader(template_folder()),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
