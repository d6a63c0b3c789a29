"""The made emissions, backstops and Comet's pool: in the contracts' form, moving, and in nobody's way."""

from __future__ import annotations

from random import Random

import pytest

from exporter.ledger.codec.entries import decode_contract_data
from exporter.ledger.codec.scval import ScVal
from exporter.localnet.blend_rewards import Emission, MadeComet
from exporter.localnet.made import MadeNetwork

DAY = 86_400


def values(network: MadeNetwork, name: str) -> list[ScVal]:
    """What stands under the keys of a name."""
    state = network.chain.state(network.chain.latest)
    kept = {key for key, _ in network.blend_rewards.first_entries(network.markets, network.chain.latest)}
    decoded = [decode_contract_data(state[key].data) for key in kept]
    return [data.value for data in decoded if str(data.key).find(f"'{name}'") > 0]


def fields(value: ScVal) -> dict[str, int]:
    """A struct of numbers."""
    return {name: number for (_, name), (_, number) in value[1]}


@pytest.fixture(scope="module")
def network() -> MadeNetwork:
    """Both generations, moved on by thirty ledgers of a day."""
    made = MadeNetwork(pools=80, seed=3, close_seconds=DAY)
    for _ in range(30):
        made.advance()
    return made


def test_the_forms_of_both_generations(network: MadeNetwork) -> None:
    """v1 keeps the pace apart from the state, v2 keeps both in one entry, and both the part of each pool."""
    assert {("eps", "expiration")} == {tuple(fields(value)) for value in values(network, "EmisConfig")}
    assert {("index", "last_time"), ("eps", "expiration", "index", "last_time")} == {
        tuple(fields(value)) for value in values(network, "EmisData")
    }
    balances = [fields(value) for value in values(network, "PoolBalance")]
    assert {("q4w", "shares", "tokens")} == {tuple(balance) for balance in balances}
    assert all(0 <= balance["q4w"] <= balance["shares"] <= balance["tokens"] for balance in balances)


def test_the_first_pool_goes_on_paying(network: MadeNetwork) -> None:
    """It takes what it is given before a week is over; of the others some have run out after a month."""
    time = network.chain.close_time(network.chain.latest)
    first, *others = network.blend_rewards.insured.values()
    renewed = [item for item in (first.paid, *first.sides.values()) if item and item.renewed]

    assert renewed
    assert all(item.expiration > time for item in renewed)
    assert all(item.expiration < time for insured in others for item in insured.sides.values())


def test_an_index_grows_until_the_end() -> None:
    """A share's part of what is paid grows by fl(seconds * eps * 10^7 / shares), and not beyond the expiration."""
    emission = Emission(eps=300, expiration=100, last_time=40)
    emission.move(50, 7)
    assert (10 * 300 * 10**7 // 7, 50) == (emission.index, emission.last_time)
    emission.move(200, 7)
    emission.move(300, 7)

    assert (10 * 300 * 10**7 // 7 + 50 * 300 * 10**7 // 7, 100) == (emission.index, emission.last_time)


def test_trades_keep_the_weights() -> None:
    """Whoever takes BLND brings USDC, such that BLND^4 * USDC stays what it was, but for rounding."""
    comet = MadeComet("C", "B", "U")
    before = comet.blnd**4 * comet.usdc
    moves, random = set(), Random(1)
    for _ in range(50):
        comet.trade(random)
        moves.add(comet.usdc)

    assert len(moves) > 10
    assert abs(comet.blnd**4 * comet.usdc - before) < before // 10**9


def test_the_rest_of_a_network_is_the_same() -> None:
    """Which reserves there are, and how they move, does not hang on what they are paid."""
    first, second = (MadeNetwork(pools=12, seed=4) for _ in range(2))
    second.blend_rewards.insured.clear()
    second.blend_rewards._renewing.clear()
    for _ in range(5):
        first.advance()
        second.advance()

    assert first.markets == second.markets
