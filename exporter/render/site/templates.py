"""Where the templates are, and the one environment that renders them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path

import jinja2

from exporter.numbers.wording import counted
from exporter.render.site import cells, text
from exporter.render.site.text import SYMBOL_LENGTH
from exporter.tree.files import FileKind, RenderedFile

_CELLS = (
    cells.address, cells.code, cells.fact, cells.figure, cells.money, cells.name, cells.rate, cells.status,
    cells.tokens, cells.use,
)  # fmt: skip


def template_folder() -> Path:
    """Where the templates are: inside the installed package, or beside it in a source checkout."""
    package = Path(str(files("exporter")))
    installed = package / "_site_templates"
    return installed if installed.is_dir() else package.parent / "site_templates"


@cache
def environment() -> jinja2.Environment:
    """The environment of the web pages: everything is escaped, and a name that is not defined is an error."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(template_folder()),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= {
        "percent": text.percent,
        "exact_percent": text.exact_percent,
        "dollars": text.dollars,
        "exact_dollars": text.exact_dollars,
        "count": text.count,
        "counted": counted,
        "compounded": text.compounded,
        "size": text.size,
        "harmless": text.harmless,
        "cut": text.cut,
        "words": text.words,
        "short": text.short_address,
        "prose": text.prose,
    }
    made.globals |= {
        "amount": text.amount,
        "exact_amount": text.exact_amount,
        "fixed_point": text.fixed_point,
        "price": text.price,
        "yields": text.yields,
        "moment": text.moment,
        **{function.__name__: function for function in _CELLS},
        "symbol_length": SYMBOL_LENGTH,
    }
    return made


# The files that pages load: the style sheet, the script and the icon, the same in every run of a version.

STATIC_FOLDER = "static"


def static_files() -> Iterator[RenderedFile]:
    """Every file of the templates' folder ``static``, as it is."""
    folder = template_folder() / STATIC_FOLDER
    for path in sorted(folder.iterdir()):
        yield RenderedFile(f"{STATIC_FOLDER}/{path.name}", path.read_bytes(), FileKind.DOCUMENT)
