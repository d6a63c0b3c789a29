"""docs/adding-a-protocol.md, followed: a made-up protocol from the tests' folder takes part in everything."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from random import Random
from typing import Any

import click
import polars as pl
import pytest
from click.testing import CliRunner, Result

from exporter.cli import main
from exporter.deployments import MARKET, Deployment, KnownContract
from exporter.deployments.networks import NETWORKS
from exporter.history.export import scan_history
from exporter.ledger.codec.scval_encode import address, encode_scval, i128, string, struct_map, symbol, u32, u64, vec
from exporter.ledger.source import RawEntry
from exporter.localnet.chain import Chain
from exporter.localnet.network import LocalNetwork, PlayedAnswers
from exporter.localnet.oracle import ORACLE, Prices
from exporter.localnet.recording import RecordedAnswer
from exporter.localnet.server import create_app, running
from exporter.protocols import PROTOCOLS, register
from exporter.protocols.accrual import AccrualRule
from exporter.protocols.base import Candidate
from exporter.protocols.protocol import (
    Discovery,
    Getters,
    MarketEvents,
    PoolEntries,
    PriceRule,
    Protocol,
    RateModel,
    Words,
)
from tests.localnet.direct_source import DirectSource
from tests.protocols.made_ledger import contract, entry, instance, stellar_asset
from tests.protocols.pawn import NAME, PAWN, WASM_HASH, YEAR
from tests.protocols.protocol_facts import missing_facts
from tests.protocols.room import room_made
from tests.protocols.world import World
from tools.recording.__main__ import parts_of

LEDGER, NOW = 60_000_000, 1_790_000_000
SHOP, OPENED, GUILD = (contract(label) for label in ("shop", "opened shop", "guild"))
TOKENS = {symbol: contract(symbol) for symbol in ("USDC", "XLM")}
DEPLOYMENT = Deployment(
    NAME,
    "main",
    tuple(KnownContract(item, role, "a test", date(2026, 11, 18)) for item, role in ((SHOP, MARKET), (GUILD, "guild"))),
)


POOL = struct_map(
    {
        "decimals": u32(7),
        "held": i128(700 * 10**7),
        "lent": i128(300 * 10**7),
        "rate": u32(1_000),
        "time": u64(NOW - YEAR),
    }
)
"""It lent 300 of 1000 at 10 percent, a year ago."""


def network() -> LocalNetwork:
    """A ledger with a listed shop of two pools, and one that an event named."""
    written = [*Prices(dict.fromkeys(TOKENS.values(), 2 * 10**14), NOW, Random(1)).history().items()]
    written += map(stellar_asset, TOKENS)
    answers = []
    for shop in (SHOP, OPENED):
        storage = [(symbol("Name"), string("Corner")), (symbol("Oracle"), address(ORACLE))]
        written += [instance(shop, storage, WASM_HASH)]
        written += [entry(shop, symbol("Tokens"), vec(*map(address, TOKENS.values())))]
        for token in TOKENS.values():
            written += [entry(shop, vec(symbol("Pool"), address(token)), POOL)]
            answers += [RecordedAnswer(shop, "pool", [encode_scval(address(token))], encode_scval(POOL))]
    entries = {key: RawEntry(data, LEDGER - 9, LEDGER + 10**6) for key, data in written}
    chain = Chain(entries, start_ledger=LEDGER, start_time=NOW - 5)
    chain.close([], close_time=NOW, events=[(GUILD, (symbol("opened"),), address(OPENED))])
    return LocalNetwork(chain, NETWORKS["local"].passphrase, 23, PlayedAnswers(answers, LEDGER + 1))


@pytest.fixture
def registered() -> Iterator[None]:
    """Register the protocol, with the deployments that are known."""
    local = NETWORKS["local"]
    register(PAWN, {"local": [DEPLOYMENT]})
    yield
    NETWORKS["local"] = local
    del PROTOCOLS[NAME]


def invoke(*arguments: str) -> Result:
    """The result of the command line, run in this process."""
    return CliRunner().invoke(main, arguments, env={"EXPORTER_NETWORK": "local"}, catch_exceptions=False)


@pytest.mark.usefixtures("registered")
def test_a_protocol_by_the_recipe_works_in_every_command(tmp_path: Path) -> None:
    """Lists and events find its markets; run, site, history and both checks have it, and the exporter is untouched."""
    out = tmp_path / "public"
    with running(create_app(network())) as url:
        done = invoke("run", "--rpc-url", url, "--out", str(out))
        compared = invoke("check", "--on-chain", "--rpc-url", url, "--out", str(out))
    checked = invoke("check", str(out))
    assert (0, 0, 0) == (done.exit_code, compared.exit_code, checked.exit_code), done.output + compared.output
    assert "8 fields (pawn 8) of 4 pools compared" in compared.output

    def document(name: str) -> Any:
        return json.loads((out / "v1" / f"{name}.json").read_text())

    place = f"assets/{OPENED}/{TOKENS['USDC']}"
    expected = {"total_borrowed": "3300000000", "utilization_bps": 3203, "borrow_apy_bps": 1000}
    assert expected.items() <= document(place).items()
    assert ("Corner", "active", "206000") == tuple(
        document(place)[name] for name in ("market_name", "market_status", "tvl_usd_cents")
    )
    assert (True, None) == tuple(document(place)["operations"][name] for name in ("can_borrow", "can_supply"))
    assert "7000000000" == document(place)["liquidity"]["available_to_borrow"]
    rows = scan_history(str(out)).filter(pl.col("market") == OPENED, pl.col("token_address") == TOKENS["USDC"])
    assert [(3_300_000_000, True)] == rows.select("total_borrowed", "can_borrow").collect().rows()
    assert 2 == document(f"markets/{SHOP}")["pool_count"]
    assert [("Pawn", 2)] == [
        (item["title"], item["market_count"]) for item in document("protocols")["data"] if item["protocol"] == NAME
    ]
    assert all(name in (out / "markets.html").read_text() for name in ("Corner", SHOP, OPENED))


def test_room_is_made_before_pools_are_read() -> None:
    """Whoever follows the made-up protocol announces the pools before reading them."""
    candidates = [Candidate(NAME, shop) for shop in (SHOP, OPENED)]
    reading, made = room_made(PAWN, DirectSource(network()), candidates, [DEPLOYMENT])

    assert (sum(len(market.members) for market in reading.markets),) == made.pools
    assert made.keys - made.keys_before >= sum(made.pools)


@pytest.mark.usefixtures("registered")
def test_what_a_protocol_lacks_is_named(tmp_path: Path) -> None:
    """Without its facts, its module for the recording, or its recorded market, one is told which file to write."""
    assert [NAME] == missing_facts()
    with pytest.raises(click.ClickException, match=r"tools/recording/pawn\.py is missing"):
        parts_of(NAME, tmp_path)
    with pytest.raises(AssertionError, match=r"no market of pawn: write tools/recording/pawn\.py"):
        World(NAME)


def test_names_that_are_taken() -> None:
    """A protocol takes no other's name, and brings deployments of its own only, to networks that are known."""
    with pytest.raises(ValueError, match="a protocol blend is registered already"):
        register(PROTOCOLS["blend"])
    with pytest.raises(ValueError, match="no network lunar is known"):
        register(PAWN, {"lunar": [DEPLOYMENT]})
    with pytest.raises(ValueError, match="a deployment of blend cannot come with pawn"):
        register(PAWN, {"local": [Deployment("blend", "v9")]})
    assert NAME not in PROTOCOLS


def test_recipe_names_everything(project_root: Path) -> None:
    """The recipe speaks of every field of the interface, and of its groups."""
    recipe = (project_root / "docs" / "adding-a-protocol.md").read_text()
    groups = {"": Protocol, "words.": Words, "prices.": PriceRule, "discovery.": Discovery, "getters.": Getters}
    groups |= {
        "rate_model.": RateModel,
        "discovery.events.": MarketEvents,
        "discovery.pool_entries.": PoolEntries,
        "accrual.": AccrualRule,
    }
    names = [f"{prefix}{name}" for prefix, group in groups.items() for name in group.__struct_fields__]

    assert [] == [name for name in names if f"`{name}`" not in recipe]


EXAMPLES = {"localnet/player.py", "localnet/demo.py", "tree/values.py"}
"""The simulated network that has copies of Blend's markets, the demo on it, and the API's example of a name."""


def test_only_its_own_package_knows_a_protocol(project_root: Path) -> None:
    """No other module names a protocol or imports its package: what it needs is a field of the protocol."""
    package = project_root / "exporter"
    knowing = set[str]()
    for path in package.rglob("*.py"):
        parts = path.relative_to(package).parts
        if parts[0] == "protocols" and (parts[1] in PROTOCOLS or parts[1] == "__init__.py"):
            continue
        source = path.read_text("utf-8")
        if not any(name in source for name in PROTOCOLS):
            continue
        for node in ast.walk(ast.parse(source)):
            words = [str(node.value)] if isinstance(node, ast.Constant) else []
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("exporter.protocols."):
                words = (node.module or "").split(".")
            if PROTOCOLS.keys() & set(words):
                knowing.add("/".join(parts))

    assert EXAMPLES == knowing
