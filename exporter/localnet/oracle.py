"""The only oracle of a recorded network: Reflector's code 4.1 as on mainnet, with simulated prices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Final

from exporter.deployments.networks import derived_address
from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import (
    TEMPORARY,
    ContractData,
    data_key,
    decode_contract_data,
    encode_contract_data,
    instance_key,
    instance_of,
)
from exporter.ledger.codec.scval import WASM, ContractInstance, ScVal
from exporter.ledger.codec.scval_encode import INSTANCE_KEY, address, i128, string, symbol, u32, u64, vec
from exporter.localnet.recording import Recording

ORACLE: Final = derived_address("recorded network oracle")
CODE: Final = bytes.fromhex("df88820e231ad8f3027871e5dd3cf45491d7b7735e785731466bfc2946008608")
DECIMALS: Final = 14
RESOLUTION: Final = 300  # seconds
RECORDS: Final = 4  # number of updates that a mean looks back, and one more


def instance(tokens: Sequence[str], time: int) -> tuple[bytes, bytes]:
    """The key and the data of the oracle's instance after an update at a time in unix seconds."""
    storage = [
        (string("admin"), address(ORACLE)),
        (string("assets"), vec(*(vec(symbol("Stellar"), address(token)) for token in tokens))),
        (string("base_asset"), vec(symbol("Other"), symbol("USD"))),
        (string("decimals"), u32(DECIMALS)),
        (string("last_timestamp"), u64(time * 1_000)),
        (string("period"), u64(86_400_000)),
        (string("resolution"), u32(RESOLUTION * 1_000)),
        *((address(token), u32(index)) for index, token in enumerate(tokens)),
    ]
    content = ContractInstance(WASM, CODE, None, tuple(storage))
    return _entry(INSTANCE_KEY, (scval.CONTRACT_INSTANCE, content))


def price_entries(prices: Sequence[int], time: int) -> Iterator[tuple[bytes, bytes]]:
    """The keys and the data of the prices of one update, in the order of the assets."""
    for index, price in enumerate(prices):
        yield _entry((scval.U128, time * 1_000 << 64 | index), i128(price), TEMPORARY)


class Prices:
    """The prices of tokens in US dollars, with 14 decimals. They move at random around the first prices."""

    def __init__(self, first: Mapping[str, int], time: int, random: Random) -> None:
        self.tokens, self.now = list(first), list(first.values())
        self._first = list(self.now)
        self._random = random
        self.updated = time // RESOLUTION * RESOLUTION

    @classmethod
    def recorded(cls, recording: Recording, time: int, random: Random) -> Prices:
        entries = {item.key: item.data for item in recording.entries}
        storage = dict(instance_of(decode_contract_data(entries[instance_key(ORACLE)])).storage or ())
        stamp = storage[string("last_timestamp")][1]
        prices = {}
        for index, (_, (_, token)) in enumerate(asset[1] for asset in storage[string("assets")][1]):
            key = data_key(ORACLE, (scval.U128, stamp << 64 | index), TEMPORARY)
            prices[token] = int(decode_contract_data(entries[key]).value[1])
        return cls(prices, time, random)

    def of(self, token: str) -> int:
        return self.now[self.tokens.index(token)]

    def history(self) -> dict[bytes, bytes]:
        return self._written(range(self.updated - (RECORDS - 1) * RESOLUTION, self.updated + 1, RESOLUTION))

    def advance(self, time: int) -> dict[bytes, bytes]:
        """The entries that the oracle writes up to a time in unix seconds, if an update is due.

        Only the last few updates are written, because nobody looks at older ones.
        """
        newest = time // RESOLUTION * RESOLUTION
        due = range(max(self.updated, newest - RECORDS * RESOLUTION) + RESOLUTION, newest + 1, RESOLUTION)
        if not due:
            return {}
        hours = min((newest - self.updated) / 3_600, 24)
        self.now = [self._moved(*pair, hours) for pair in zip(self.now, self._first, strict=True)]
        self.updated = newest
        return self._written(due)

    def _written(self, times: Iterable[int]) -> dict[bytes, bytes]:
        prices = {key: data for time in times for key, data in price_entries(self.now, time)}
        return prices | dict([instance(self.tokens, self.updated)])

    def _moved(self, price: int, first: int, hours: float) -> int:
        if first == 10**DECIMALS:
            return first + first * self._random.randint(-4, 4) // 10_000
        step = self._random.gauss(0, 0.004) * hours**0.5 - 0.002 * hours * (price / first - 1)
        return max(int(price * (1 + step)), 1)


def _entry(key: ScVal, value: ScVal, durability: int = 1) -> tuple[bytes, bytes]:
    data = encode_contract_data(ContractData(ORACLE, key, durability, value))
    return data_key(ORACLE, key, durability), data
