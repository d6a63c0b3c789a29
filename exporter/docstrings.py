"""Restores docstrings that Python leaves out (``PYTHONOPTIMIZE=2``, ``python -OO``), if they are used at run time.

Help texts, the API's description and the assistant's tools are made from docstrings, and a published file must not
depend on how Python was started.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import click


def restore(*modules: ModuleType) -> None:
    """Set the docstrings of all classes, methods, functions and commands in these modules again, from their source."""
    if sys.flags.optimize < 2:
        return
    for module in modules:
        for names, text in docstrings(module):
            target: Any = module
            for name in names:
                target = getattr(target, name)
            if isinstance(target, click.Command):
                target.help = target.help or inspect.cleandoc(text)
            else:
                target.__doc__ = text


def docstrings(module: ModuleType) -> Iterator[tuple[tuple[str, ...], str]]:
    """The docstrings in a module's source, each with the names that lead from the module to its object."""
    yield from _below(ast.parse(inspect.getsource(module)), ())


def _below(parent: ast.Module | ast.ClassDef, above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    for node in parent.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names = (*above, node.name)
            text = ast.get_docstring(node, clean=False)
            if text is not None and not _is_property(node):
                yield names, text
            if isinstance(node, ast.ClassDef):
                yield from _below(node, names)


def _is_property(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a definition is a property, whose docstring cannot be set and is shown nowhere."""
    return any("property" in ast.unparse(decorator) for decorator in node.decorator_list)
