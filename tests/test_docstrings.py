"""Docstrings that are shown at run time are there however Python was started."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from exporter import docstrings as docstrings_module
from exporter.docstrings import docstrings
from exporter.render.openapi import MODULES_WITH_MODELS

SHOWN = """
import hashlib
import msgspec
from click import Context
from exporter.cli import main
from exporter.render.openapi import openapi_document
print(hashlib.sha256(msgspec.json.encode(openapi_document())).hexdigest())
program = Context(main, **main.context_settings)
for command in main.commands.values():
    print(command.get_help(Context(command, parent=program)))
"""


def test_the_source_has_what_python_has() -> None:
    """The restored docstrings are those that a usual Python keeps."""
    expected = []
    for module in (*MODULES_WITH_MODELS, docstrings_module):
        for names, text in docstrings(module):
            target: object = module
            for name in names:
                target = getattr(target, name)
            expected.append((module.__name__, names, target.__doc__, text))
    assert len(expected) > len(MODULES_WITH_MODELS)
    assert [] == [(module, names) for module, names, kept, text in expected if kept != text]


@pytest.mark.slow
def test_without_docstrings_the_same_is_shown() -> None:
    """The API's description has the same bytes, and each command the same help."""
    shown = [
        subprocess.run(  # our own Python
            [sys.executable, *flags, "-c", SHOWN],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        ).stdout
        for flags in ([], ["-OO"])
    ]
    assert shown[0] == shown[1]
    assert "Read every market at one ledger and publish the tree." in shown[0]
