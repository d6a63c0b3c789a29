"""The recorded network looks like the market: sizes, rates, utilizations and prices that mainnet has."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import pytest

from exporter.deployments.networks import NETWORKS
from exporter.localnet.market_sizes import market_sizes, size_by_chance
from exporter.localnet.player import NETWORK, RecordedNetwork
from exporter.protocols.movement import NumberField
from tests.localnet.test_player import tables_of
from tests.protocols.protocol_facts import all_facts, recorded_pools

ONE_DOLLAR = {"USDC", "USDT0", "USST"}


@pytest.mark.parametrize(
    ("seed", "days"), [(1, 8), *(pytest.param(seed, 40, marks=pytest.mark.slow) for seed in range(1, 7))]
)
def test_a_demo_looks_like_the_market(seed: int, days: int) -> None:
    """After days of moves each protocol has its size, and each pool a rate and a utilization that a market has.

    No pool owes more than it has: moves round as contracts do.
    """
    network = RecordedNetwork(seed=seed, close_seconds=86_400)
    network.settle(3)
    for _ in range(days):
        network.advance(network.pools)
    rows = list(tables_of(network).pools.iter_rows(named=True))

    dollars = dict.fromkeys(all_facts(), 0)
    for row in rows:
        dollars[row["protocol"]] += int(row["tvl_usd_cents"]) // 100
    assert [] == [
        name for name, facts in all_facts().items() if not facts.dollars[0] <= dollars[name] <= facts.dollars[1]
    ], dollars
    strange = {}
    for row in rows:
        price = Fraction(int(row["oracle_price"]), 10 ** int(row["oracle_decimals"]))
        plausible = (
            2_000 <= row["utilization_bps"] <= 9_500
            and 50 <= row["comparable_supply_apy_bps"] <= row["comparable_borrow_apy_bps"] <= 2_500
            and (row["symbol"] not in ONE_DOLLAR or abs(price - 1) < Fraction(1, 100))
            and not row["shortfall"]
        )
        if not plausible:
            strange[row["market_name"], row["symbol"]] = (
                row["utilization_bps"],
                row["comparable_supply_apy_bps"],
                row["comparable_borrow_apy_bps"],
                float(price),
                row["shortfall"],
            )
    assert {} == strange


def test_a_first_move_gives_the_size() -> None:
    """One move makes each recorded pool as large as the list says, whatever was recorded."""
    network = RecordedNetwork()
    network.settle(1)
    labels = {each.address: item.label for item in NETWORKS[NETWORK].deployments for each in item.contracts}
    by_market = {pool.market: pool.protocol for pool in network.pools}
    listed = sum(size.dollars for sizes in market_sizes().values() for size in sizes.values())
    supplied = sum(map(int, tables_of(network).pools["supplied_usd_cents"]))

    assert recorded_pools() == sum(map(len, market_sizes().values()))
    assert set() == {labels[market] for market in by_market} - market_sizes().keys()
    assert abs(supplied / 100 / listed - 1) < 0.05


def test_only_settling_changes_terms() -> None:
    """A network that goes on from its recording keeps its terms: no run finds them changed."""
    kept, settled = RecordedNetwork(), RecordedNetwork()
    before = tables_of(kept).markets["config_hash"].to_list()
    kept.advance(kept.pools)
    settled.settle(1)

    assert before == tables_of(kept).markets["config_hash"].to_list()
    assert before != tables_of(settled).markets["config_hash"].to_list()


def test_copies_are_smaller_and_strangers_have_a_size() -> None:
    """A copy has a half to a thousandth of its original; a pool in no list gets a random size."""
    original, random = market_sizes()["testnet"]["USDC"], Random(1)
    sizes = [original.smaller(random).dollars for _ in range(100)]

    assert 0.001 <= min(sizes) / original.dollars
    assert max(sizes) / original.dollars <= 0.51
    assert all(40_000 <= size_by_chance(random).dollars <= 60_000_000 for _ in range(100))


def test_a_number_in_a_bitmap() -> None:
    """Bits are read and written without the bits next to them."""
    network = RecordedNetwork()
    pool = next(pool for pool in network.pools if pool.protocol == "k2")
    assert pool.term is not None
    factor, cap = pool.term("reserve_factor"), pool.term("liquidation_threshold")
    before = cap.read(network.look)
    data = factor.write(network.look, 1_234)
    assert data is not None

    def look(key: bytes) -> bytes | None:
        return data if key == pool.key else network.look(key)

    whole = NumberField(factor.key, factor.path)
    assert (1_234, before) == (factor.read(look), cap.read(look))
    assert whole.read(look) - whole.read(network.look) == (1_234 - factor.read(network.look)) << 57
