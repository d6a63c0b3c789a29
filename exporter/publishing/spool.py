"""Rendered documents wait here until everything that they point to is in the store."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType

from exporter.errors import StoreError

MEMORY_BYTES = 32 * 1024 * 1024
"""Up to so many bytes wait in memory; more go to an unnamed file in the folder for temporary files."""


class Spool:
    """A queue of (key, bytes) that is filled once and then read once, in the same order.

    Use it as a context manager; leaving it discards what it holds.
    """

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=memory_bytes)  # noqa: SIM115 - closed by __exit__
        self._lengths: list[tuple[str, int]] = []

    def __enter__(self) -> Spool:
        """Begin."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Discard everything."""
        self._file.close()

    def __len__(self) -> int:
        """Count the files that were added."""
        return len(self._lengths)

    def add(self, key: str, data: bytes) -> None:
        """Add a file.

        Raises:
            StoreError: the folder for temporary files is full or cannot be written.
        """
        with _reported():
            self._file.write(data)
        self._lengths.append((key, len(data)))

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        """Give every file, in the order in which they were added."""
        with _reported():
            self._file.seek(0)
        for key, length in self._lengths:
            with _reported():
                data = self._file.read(length)
            if len(data) != length:
                raise StoreError(f"the temporary file that held {key} was cut short; run again")
            yield key, data


@contextmanager
def _reported() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"cannot keep the rendered documents in {tempfile.gettempdir()}: {error.strerror}; free space there, or "
            "set TMPDIR to another folder"
        ) from error
