"""Where the templates are, and the one environment that renders them."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path

import jinja2

from exporter.site import cells, numbers, text
from exporter.site.text import SYMBOL_LENGTH
from exporter.wording import counted

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
        "percent": numbers.percent,
        "exact_percent": numbers.exact_percent,
        "dollars": numbers.dollars,
        "exact_dollars": numbers.exact_dollars,
        "count": numbers.count,
        "counted": counted,
        "compounded": numbers.compounded,
        "size": numbers.size,
        "harmless": text.harmless,
        "cut": text.cut,
        "words": text.words,
        "short": text.short_address,
        "prose": text.prose,
    }
    made.globals |= {
        "amount": numbers.amount,
        "exact_amount": numbers.exact_amount,
        "fixed_point": numbers.fixed_point,
        "price": numbers.price,
        "yields": numbers.yields,
        "moment": numbers.moment,
        **{function.__name__: function for function in _CELLS},
        "symbol_length": SYMBOL_LENGTH,
    }
    return made
