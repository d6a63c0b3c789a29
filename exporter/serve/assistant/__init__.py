"""An MCP server: an assistant asks it about a published tree (docs/assistants.md).

`answers` has the questions, `histories` reads time buckets for them, `form` has what every answer looks like, `dates`
what people call times, `mistakes` what is said of a call that cannot be made, and `server` joins them with the SDK,
which is an extra and imported late.
"""

from __future__ import annotations

import asyncio

from exporter.errors import ConfigError


def serve(uri: str) -> None:
    """Serve a tree until standard input ends. Raises `ConfigError` (also without the SDK), `SourceError`."""
    try:
        import mcp.server  # noqa: F401
    except ImportError:
        raise ConfigError(
            "exporter mcp needs the MCP SDK; install the exporter with the extra: lending-markets-exporter[mcp]"
        ) from None

    from exporter.serve.assistant.answers import Answers
    from exporter.serve.assistant.server import server_of
    from exporter.stores.tree_sources import open_tree

    async def run() -> None:
        async with open_tree(uri) as source:
            answers = Answers(source)
            await answers.status()  # a tree without a run is reported now, not with every question
            await server_of(answers).run_stdio_async()

    asyncio.run(run())
