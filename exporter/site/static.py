"""The files that pages load: the style sheet, the script and the icon, the same in every run of a version."""

from __future__ import annotations

from collections.abc import Iterator

from exporter.files import FileKind, RenderedFile
from exporter.site.templates import template_folder

STATIC_FOLDER = "static"


def static_files() -> Iterator[RenderedFile]:
    """Every file of the templates' folder ``static``, as it is."""
    folder = template_folder() / STATIC_FOLDER
    for path in sorted(folder.iterdir()):
        yield RenderedFile(f"{STATIC_FOLDER}/{path.name}", path.read_bytes(), FileKind.DOCUMENT)
