"""`exporter plan` names the markets of the lists, of the operator, and those remembered in the output."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from exporter.config import load
from exporter.deployments.networks import NETWORKS, network_id
from exporter.discovery.known_markets import KnownMarket
from exporter.job.known_markets_file import MEMORY_KEY, save_memory
from exporter.job.plan import describe
from exporter.stores.folder import FolderStore
from tests.job.test_known_markets_file import B, known, memory_of
from tests.protocols.made_ledger import contract

MAINNET = NETWORKS["mainnet"]


def plan(folder: Path, **flags: Any) -> list[str]:
    values = {"output.uri": str(folder)} | {key.replace("__", "."): value for key, value in flags.items()}
    return [line.strip() for line in describe(load(None, values, environment={}), None)]


def remember(folder: Path, passphrase: str, *markets: KnownMarket) -> None:
    save_memory(FolderStore(folder), memory_of(*markets, network=network_id(passphrase)))


def listed(protocol: str) -> int:
    return sum(len(item.markets) for item in MAINNET.deployments if item.protocol == protocol)


def test_settings_are_printed_as_they_are_written(tmp_path: Path) -> None:
    """Every setting is in the plan as a configuration file would have it, with its origin; an RPC is its host."""
    markets = [{"protocol": "blend", "address": contract("A")}]
    rpc = {"network__rpc_urls": ["https://rpc.example/secret"], "network__rpc_headers": {"X-Key": "secret"}}
    lines = plan(tmp_path, markets=markets, **rpc)
    settings = lines[1 : lines.index("reads")]
    written = [line.partition("   #")[0] for line in settings if not line.endswith(" = not set")]

    assert "network.passphrase = not set" in settings
    assert 'network.rpc_urls = ["rpc.example"]   # command line' in settings
    assert 'network.rpc_headers = "1 entry, not shown"   # command line' in settings
    assert "network.prefer_checkpoint = false" in written
    assert str(tmp_path) == tomllib.loads("\n".join(written))["output"]["uri"]
    assert [{"protocol": "blend", "address": contract("A")}] == tomllib.loads("\n".join(written))["markets"]


def test_where_more_is_looked_for(tmp_path: Path) -> None:
    """Events and pools that no contract lists are printed, unless only the operator's own markets are read."""
    more = ["blend: more from events that its contracts publish", "xoxno: 31 known pools that no contract lists"]

    assert set(more) <= set(plan(tmp_path))
    assert set(more).isdisjoint(plan(tmp_path, discovery__enabled=False))
    assert [] == list(tmp_path.iterdir())


def test_what_earlier_runs_found(tmp_path: Path) -> None:
    """Findings of earlier runs on this network are counted by kind, and are among the markets of a run."""
    remember(tmp_path, NETWORKS["testnet"].passphrase, known())
    nothing = plan(tmp_path)
    pool = known(contract("X"), protocol="xoxno", pool="9-x")
    markets = known(), known(B), known(contract("C"), confirmed=False), known(pool.address, protocol="xoxno"), pool
    remember(tmp_path, MAINNET.passphrase, *markets)
    lines = plan(tmp_path)

    assert any(line.startswith("remembered from earlier runs: 0 markets, and 0 pools") for line in nothing)
    assert f"blend: {listed('blend')} known markets, 0 named in [[markets]]" in nothing
    assert (
        "remembered from earlier runs: 3 markets, and 1 pool that nothing on the chain lists; 1 more were named by "
        "events and never read"
    ) in lines
    assert f"blend: {listed('blend') + 3} known markets, 0 named in [[markets]]" in lines
    assert f"xoxno: {listed('xoxno') + 1} known markets, 0 named in [[markets]]" in lines
    assert not any("remembered" in line for line in plan(tmp_path, discovery__enabled=False))


def test_memory_that_cannot_be_read(tmp_path: Path) -> None:
    """A broken memory is named in the plan, which goes on."""
    FolderStore(tmp_path).put_new(MEMORY_KEY, b"no memory")
    lines = plan(tmp_path)

    assert any(line.startswith(f"{MEMORY_KEY} cannot be read") for line in lines)
    assert "nothing is published there yet" in lines


def test_what_is_excluded_is_not_read(tmp_path: Path) -> None:
    """Excluded markets are not among those that a run reads."""
    market = next(item.markets[0] for item in MAINNET.deployments if item.protocol == "slender")
    counted = (f"slender: {listed('slender') - gone} known market" for gone in (0, 1))
    lines = plan(tmp_path), plan(tmp_path, exclude=[market])

    assert all(any(line.startswith(text) for line in each) for text, each in zip(counted, lines, strict=True))
