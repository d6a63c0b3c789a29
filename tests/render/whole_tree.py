"""A whole published tree, made by the job itself against an embedded network of all protocols."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from exporter.localnet.player import DEFAULT_START_LEDGER, DEFAULT_START_TIME, RecordedNetwork
from exporter.localnet.runner import running
from exporter.localnet.server import create_app
from exporter.tree.families import family_of
from tests.jobs import run, settings_for
from tests.localnet.recorded import BLEND_V1, BLEND_V2, only, pools_of, with_rewards, with_status, without_oracle
from tests.once import once

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
HOURS = 5
"""Between ledgers, so that a few runs close pages of the shorter buckets."""


def publish_tree(folder: Path, *protocols: str, runs: int = 3) -> None:
    """Publish some runs over the markets of protocols (all), one a ledger, into a folder.

    Of Blend's v2 pools two are unread; the v1 market is frozen, and its pools have no price.
    """
    for key, data in once(f"tree of {runs} {' '.join(protocols)}", lambda: _published(protocols, runs)).items():
        (folder / key).parent.mkdir(parents=True, exist_ok=True)
        (folder / key).write_bytes(data)


def _published(protocols: Sequence[str], runs: int) -> dict[str, bytes]:
    archived, missing, *_ = (pool.key for pool in pools_of(RecordedNetwork(), BLEND_V2))
    step = HOURS * 3600
    network = RecordedNetwork(
        start_ledger=DEFAULT_START_LEDGER - 2,
        start_time=DEFAULT_START_TIME - 2 * step,
        close_seconds=step,
        archived=[archived],
        without=[missing],
    )
    network.close(without_oracle(network, BLEND_V1) | with_rewards(network, BLEND_V1))
    network.close(with_status(network, BLEND_V1, 4))
    with running(create_app(network)) as url:
        flags: dict[str, Any] = {"output__page_sizes": [1, 2, 5, 50], "schedule__interval_minutes": 60}
        flags |= only(*protocols) if protocols else {}
        with TemporaryDirectory() as folder:
            for _ in range(runs):
                run(settings_for(Path(folder), url, **flags), now=NOW)
                network.advance()
            files = [path for path in Path(folder).rglob("*") if path.is_file()]
            return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def documents_of(folder: Path) -> dict[str, bytes]:
    """Every document of a tree by key; what is JSON of no model of ours is none."""
    return {
        key: path.read_bytes()
        for path in sorted(folder.rglob("*.json"))
        if (family := family_of(key := path.relative_to(folder).as_posix())) is None or family.model is not None
    }
