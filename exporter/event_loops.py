"""Functions of the library that block, so that no event loop may run in their thread."""

from __future__ import annotations

import asyncio

from exporter.errors import ConfigError


def refuse_running_loop(function: str) -> None:
    """Raise `ConfigError` if an event loop runs in this thread, as in a notebook. ``function`` would block it."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise ConfigError(
        f"exporter.{function} blocks, and an event loop runs in this thread, as in a notebook; call it in another "
        f"thread: await asyncio.to_thread(exporter.{function}, ...)"
    )
