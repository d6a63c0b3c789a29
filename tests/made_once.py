"""Values that are made once, by the first worker of a test run that needs them, and shared by all workers."""

from __future__ import annotations

import fcntl
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

shared_folder: Path | None = None
"""The folder that all workers of this run have; set before the first test."""
_made: dict[str, Any] = {}
trees_are_whole = True
"""False while runs leave out the web pages (fixture `without_pages`). Nothing is shared then."""


def once(name: str, make: Callable[[], T]) -> T:
    """The result of ``make``, made by the first worker that asks for it under this name. Nobody may change it."""
    assert trees_are_whole, f"a test without web pages may not make the {name} that all tests share"
    if name not in _made:
        _made[name] = make() if shared_folder is None else _shared(shared_folder / name, make)
    made: T = _made[name]
    return made


def _shared(path: Path, make: Callable[[], object]) -> object:
    with path.open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        if not (data := file.read()):
            data = pickle.dumps(make())
            file.write(data)
    return pickle.loads(data)
