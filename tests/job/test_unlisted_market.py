"""A market that anybody deployed, with an oracle of his own, next to the listed ones: it misleads nobody."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest

from exporter.best import NOT_LISTED
from exporter.deployments.networks import derived_address
from exporter.job.unlisted import MIN_POOLS
from exporter.ledger.codec import scval, strkey
from exporter.ledger.codec.entries import data_key, decode_contract_data, encode_contract_data, instance_key
from exporter.localnet.oracle import ORACLE
from exporter.localnet.player import RecordedNetwork
from exporter.localnet.server import Behaviour, create_app, running
from exporter.serve.assistant.answers import Answers
from exporter.stores.tree_sources import open_tree
from tests.audit.test_on_chain import with_getters
from tests.job_runs import on_chain, run, settings_for

ALERTS = Path(__file__).parents[2] / "templates" / "monitoring" / "alerts.yml"
OWN_ORACLE = derived_address("an oracle of a stranger")
NOTE = r'<p class="note">No number here includes .*?</p>\n'
MOST_FURTHER_REQUESTS = 40
"""How many requests `CROWD` markets of strangers may add: those that a run reads ask their oracles."""
TIMES = 10**6
"""How far above the real prices the stranger's oracle is."""


def hostile_market(network: RecordedNetwork, name: str = "a stranger's market", oracle: str = OWN_ORACLE) -> str:
    """Deploy a copy of a Blend pool through the real factory, and let it ask an oracle of its own."""
    market = network.deploy(name)
    known, own = strkey.decode(ORACLE)[1], strkey.decode(oracle)[1]
    written: dict[bytes, bytes | None] = {}
    for key in [key for key in network.chain.known_keys() if known == key[8:40]]:
        data = network.look(key)
        if data is None:
            continue
        item = decode_contract_data(data.replace(known, own))
        if item.value[0] == scval.I128:
            item = item._replace(value=(scval.I128, item.value[1] * TIMES))
        written[data_key(oracle, item.key, item.durability)] = encode_contract_data(item)
    instance = instance_key(market)
    written[instance] = (network.look(instance) or b"").replace(known, own)
    network.close(written)
    return market


def published(folder: Path, network: RecordedNetwork, **flags: Any) -> int:
    """A run that asks the network as it would any RPC, also for the factory's events; gives its exit code."""
    with running(create_app(network)) as url:
        return run(settings_for(folder, url, **flags))[0]


class Trees(NamedTuple):
    """A tree without the stranger's market, one with it, and its address."""

    without: Path
    hostile: Path
    market: str

    def both(self, key: str) -> tuple[Any, Any]:
        return json.loads((self.without / key).read_bytes()), json.loads((self.hostile / key).read_bytes())


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Trees:
    """Two runs of the same ledger, with and without the market; the code of both is 0."""
    folders = [tmp_path_factory.mktemp(name) for name in ("without", "hostile")]
    networks = [RecordedNetwork(), RecordedNetwork()]
    for _ in range(2):
        networks[0].close()
    market = hostile_market(networks[1])
    assert [0, 0] == [published(folder, network) for folder, network in zip(folders, networks, strict=True)]
    return Trees(folders[0], folders[1], market)


def own_of(document: dict[str, Any]) -> dict[str, Any]:
    """A document without its statements about markets that are not listed."""
    return {name: value for name, value in document.items() if not name.startswith("unlisted_")}


def test_its_claims_are_apart(trees: Trees) -> None:
    """Totals of the network, protocols and tokens are as without it; what it claims is given with its counts."""
    (plain, summary), (tokens, hostile) = trees.both("v1/protocol/summary.json"), trees.both("v1/tokens.json")

    parts = [(plain, summary), *zip(plain["protocols"], summary["protocols"], strict=True)]
    assert [own_of(one) for one, _ in parts[1:]] == [own_of(other) for _, other in parts[1:]]
    names = ("market_count", "pool_count", "priced_count", "tvl_usd_cents")
    assert [plain[name] for name in names] == [summary[name] for name in names]
    assert (1, 0) == (summary["unlisted_market_count"], plain["unlisted_market_count"])
    assert summary["unlisted_pool_count"] == summary["unlisted_priced_count"] > 0
    assert int(summary["unlisted_tvl_usd_cents"]) > 10 * int(summary["tvl_usd_cents"])
    assert [own_of(token) for token in tokens["data"]] == [own_of(token) for token in hostile["data"]]


def test_its_pools_are_marked(trees: Trees) -> None:
    """An unlisted market is read and shown in full; flat rows, details, the list of markets and Parquet mark it."""
    (_, markets), (_, rows) = trees.both("v1/markets.json"), trees.both("v1/pools/index.json")
    table = pl.read_parquet(trees.hostile / "v1" / "latest.parquet")
    summary = json.loads((trees.hostile / "v1" / "markets" / f"{trees.market}.json").read_bytes())

    assert [trees.market] == [entry["market"] for entry in markets["data"] if not entry["listed"]]
    assert {trees.market} == {row["market"] for row in rows["data"] if row["listed_reason"] == "not_listed"}
    assert {trees.market} == set(table.filter(~pl.col("listed"))["market"])
    assert (False, "not_listed", None) == tuple(summary[f"listed{name}"] for name in ("", "_reason", "_source"))
    for pool in summary["pools"]:
        assert "listed" not in pool
        detail = json.loads((trees.hostile / "v1" / "assets" / trees.market / f"{pool['pool']}.json").read_bytes())
        assert (False, "not_listed") == (detail["listed"], detail["listed_reason"])


def different_files(trees: Trees) -> list[str]:
    """The keys of listed markets' files, and of yields, that are not byte for byte as without strangers."""
    keys = [
        path.relative_to(trees.without)
        for pattern in ("v1/markets/C*.json", "v1/assets/C*/*.json", "v1/yields/*.json", "markets/C*.*", "pools/C*/*.*")
        for path in sorted(trees.without.glob(pattern))
    ]

    assert len(keys) > 40
    return [str(key) for key in keys if (trees.without / key).read_bytes() != (trees.hostile / key).read_bytes()]


def test_files_of_listed_markets_are_the_same(trees: Trees) -> None:
    """Documents of every listed market and its pools are byte for byte as without it; so are the yields."""
    assert [] == different_files(trees)


def test_the_first_screen_is_the_same(trees: Trees) -> None:
    """An unlisted market changes nothing on the overview but one sentence that counts it."""
    pages = [(folder / "index.html").read_text() for folder in (trees.without, trees.hostile)]

    assert [0, 1] == [len(re.findall(NOTE, page)) for page in pages]
    assert pages[0] == re.sub(NOTE, "", pages[1])
    for page in ("markets.html", "pools.html", f"markets/{trees.market}.html"):
        assert "anybody can create such a market" in (trees.hostile / page).read_text()


def test_assistants_rank_listed_markets_alone(trees: Trees) -> None:
    """The best place to lend is the same, and the pools that are left out are counted with the reason."""
    rows = trees.both("v1/pools/index.json")[1]["data"]
    usdc = next(row["token_address"] for row in rows if (row["market"], row["symbol"]) == (trees.market, "USDC"))

    async def answer(folder: Path) -> dict[str, Any]:
        async with open_tree(str(folder)) as source:
            return await Answers(source).best_rate(usdc, limit=50)

    plain, hostile = (asyncio.run(answer(folder)) for folder in (trees.without, trees.hostile))
    assert (plain["pools"], plain["tokens"]) == (hostile["pools"], hostile["tokens"])
    assert [None, 1] == [given["left_out"].get(NOT_LISTED) for given in (plain, hostile)]


def test_it_moves_no_alarm(trees: Trees) -> None:
    """An unlisted market changes no metric that an alert of templates/monitoring asks for, except a run's time."""
    asked = set(re.findall(r"lending_\w+", (ALERTS).read_text()))
    lines = [
        {line for line in (folder / "metrics.txt").read_text().splitlines() if line.split(" ")[0] in asked}
        for folder in (trees.without, trees.hostile)
    ]

    assert 5 == len(lines[0])
    assert lines[0] == lines[1]


CROWD = 100


@pytest.mark.slow
def test_a_crowd_with_oracles_of_their_own(tmp_path: Path) -> None:
    """A crowd of unlisted markets costs a bounded number of requests, and changes nothing of listed markets."""
    alone, crowded = RecordedNetwork(), RecordedNetwork()
    strangers = [hostile_market(crowded, f"market {n}", derived_address(f"oracle {n}")) for n in range(CROWD)]
    while alone.chain.latest < crowded.chain.latest:
        alone.close()
    folders, requests = (tmp_path / "alone", tmp_path / "crowded"), list[Counter[str]]()
    for folder, network in zip(folders, (alone, crowded), strict=True):
        behaviour = Behaviour()
        with running(create_app(network, behaviour)) as url:
            assert 0 == run(settings_for(folder, url))[0]
        requests.append(Counter(behaviour.counts))
    plain = Trees(folders[0], folders[1], strangers[0])
    (one, other), (tokens, others) = plain.both("v1/protocol/summary.json"), plain.both("v1/tokens.json")
    status = plain.both("v1/system/status.json")[1]
    pages = [(folder / "index.html").read_text() for folder in folders]

    assert CROWD == other["unlisted_market_count"] + sum(status["skipped_counts"].values())
    assert 0 < other["unlisted_market_count"] <= MIN_POOLS
    assert requests[1].total() <= requests[0].total() + MOST_FURTHER_REQUESTS
    names = ("market_count", "pool_count", "priced_count", "tvl_usd_cents")
    assert [one[name] for name in names] == [other[name] for name in names]
    assert [own_of(token) for token in tokens["data"]] == [own_of(token) for token in others["data"]]
    assert [] == different_files(plain)
    assert pages[0] == re.sub(NOTE, "", pages[1])


def test_the_check_on_chain_leaves_it_alone() -> None:
    """The contracts of listed markets are asked alone, so that a stranger's market can neither slow nor end that."""
    networks = with_getters(), with_getters()
    hostile_market(networks[1])
    checks = []
    for network in networks:
        with running(create_app(network)) as url:
            checks.append(on_chain(settings_for(None, url)))

    assert checks[0].without
    assert checks[0].without == checks[1].without
    assert [(checks[0].pools, checks[0].compared)] == [(checks[1].pools, checks[1].compared)]


def test_naming_it_lists_it(tmp_path: Path) -> None:
    """The operator may list what he likes: then it is in the totals, and the reason says who lists it."""
    network = RecordedNetwork()
    market = hostile_market(network)
    code = published(tmp_path, network, markets=[{"protocol": "blend", "address": market}])
    document = json.loads((tmp_path / "v1" / "markets" / f"{market}.json").read_bytes())
    summary = json.loads((tmp_path / "v1" / "protocol" / "summary.json").read_bytes())

    assert (0, True, "configured") == (code, document["listed"], document["listed_reason"])
    assert 0 == summary["unlisted_market_count"]
