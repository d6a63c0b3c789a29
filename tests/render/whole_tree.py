"""A whole published tree, made by the job itself against an embedded network of all protocols."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path

from exporter.localnet.player import DEFAULT_START_LEDGER, DEFAULT_START_TIME, RecordedNetwork
from tests.audit.trees import Files, tree_of, write
from tests.job_runs import leaving_out_pages
from tests.localnet.recorded import BLEND_V1, BLEND_V2, pools_of, with_rewards, with_status, without_oracle
from tests.made_once import once

HOURS = 5
"""Between ledgers, so that a few runs close pages of the shorter buckets."""


def publish_tree(folder: Path, *protocols: str, runs: int = 3, pages: bool = True) -> None:
    """Publish some runs over the markets of protocols (all), one a ledger, into a folder; without web pages if wanted.

    Of Blend's v2 pools one is archived and one unread; the v1 market is frozen, and its pools have no price.
    """

    def make() -> Files:
        with nullcontext() if pages else leaving_out_pages():
            return _published(protocols, runs)

    what = "tree" if pages else "tree without pages"
    write(once(f"{what} of {runs} {' '.join(protocols)}", make), folder)


def _published(protocols: Sequence[str], runs: int) -> Files:
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
    flags = {"output__page_sizes": [1, 2, 5, 50], "schedule__interval": "60m"}
    return tree_of(network, *protocols, runs=runs, apart=timedelta(0), flags=flags)
