"""Make files and names of a folder outlive a power cut, at the price of one wait for many files."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Collection, Iterable
from functools import cache
from pathlib import Path

FEW = 4
"""Up to so many paths are made durable one by one; a whole file system is not bothered for them."""


def make_durable(files: Collection[Path], folders: Collection[Path]) -> None:
    """Return when the bytes of these files and the names in these folders are on the disk.

    Many paths on Linux cost one ``syncfs`` for each file system they are on; elsewhere, and for few paths, each
    is made durable with its own ``fsync``.

    Raises:
        OSError: the disk reported an error; what was written must be taken as lost.
    """
    sync_file_system = _sync_file_system()
    if sync_file_system is not None and len(files) + len(folders) > FEW:
        for folder in _one_for_each_device({file.parent for file in files} | set(folders)):
            sync_file_system(folder)
        return
    for path in (*files, *folders):
        _with_descriptor(path, os.fsync)


def _one_for_each_device(folders: Iterable[Path]) -> list[Path]:
    return list({folder.stat().st_dev: folder for folder in folders}.values())


@cache
def _sync_file_system() -> Callable[[Path], None] | None:
    """Find ``syncfs`` in the C library; Python has no name for it. None where there is none."""
    try:
        syncfs = ctypes.CDLL(None, use_errno=True).syncfs
    except (AttributeError, OSError):
        return None

    def sync(descriptor: int) -> None:
        if syncfs(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    return lambda folder: _with_descriptor(folder, sync)


def _with_descriptor(path: Path, action: Callable[[int], None]) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        action(descriptor)
    finally:
        os.close(descriptor)
