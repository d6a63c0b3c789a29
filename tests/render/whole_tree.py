"""A whole published tree, made by the job itself against an embedded network of all protocols."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from exporter.localnet.made import MadeNetwork
from exporter.localnet.runner import running
from exporter.localnet.server import create_app
from exporter.tree.families import family_of
from tests.jobs import run, settings_for

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
HOURS = 5
"""Between ledgers, so that a few runs close pages of the shorter buckets."""


def publish_tree(folder: Path, *, pools: int = 25, runs: int = 3, alula_markets: int = 1) -> None:
    """Publish some runs, one a ledger, into a folder. Some pools are unread, some unpriced."""
    network = MadeNetwork(
        pools=pools,
        archived=1,
        missing=1,
        alula_markets=alula_markets,
        close_seconds=HOURS * 3600,
        prices_per_ledger=50,
    )
    with running(create_app(network)) as url:
        flags = {"output__page_sizes": [1, 2, 5, 50], "schedule__interval_minutes": 60}
        for _ in range(runs):
            run(settings_for(folder, url, **flags), now=NOW)
            network.advance()


def documents_of(folder: Path) -> dict[str, bytes]:
    """Every document of a tree by key; what is JSON of no model of ours is none."""
    return {
        key: path.read_bytes()
        for path in sorted(folder.rglob("*.json"))
        if (family := family_of(key := path.relative_to(folder).as_posix())) is None or family.model is not None
    }
