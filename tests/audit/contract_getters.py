"""Getters that no recording has, answered from entries: of Blend's v2 pools with interest, and of Alula's pools."""

from __future__ import annotations

from collections.abc import Collection
from random import Random

from exporter.ledger.codec import scval
from exporter.ledger.codec.entries import ContractData, decode_contract_data, instance_key, instance_of, variant_key
from exporter.ledger.codec.fields import named
from exporter.ledger.codec.scval import ScVal, decode_scval
from exporter.ledger.codec.scval_encode import address, encode_scval, i128, struct_map, symbol, u32, vec
from exporter.ledger.source import ContractCall
from exporter.localnet.chain import Chain
from exporter.localnet.mover import Draft, Mover
from exporter.localnet.network import Simulation
from exporter.localnet.player import RecordedNetwork
from exporter.protocols.blend.layout import reserve_config_key, reserve_data_key
from tests.localnet.recorded import BLEND_V2, LISTED, pools_of
from tests.protocols.judged import names_of, plain, published

ALULA = next(market for protocol, market in LISTED if protocol == "alula")
_STALE = "HostError: Error(Contract, #501)\n\nEvent log (newest first):\n"


class ContractGetters:
    """The answers of the network's contracts, with these getters.

    ``clock`` is how many seconds after its ledger's close a call runs; ``refused`` are tokens whose price Alula's
    market takes for stale.
    """

    def __init__(self, network: RecordedNetwork, *, clock: int = 0, refused: Collection[str] = ()) -> None:
        self.clock, self.refused = clock, refused
        self._others = network.contracts
        self._mover = Mover(Random(1), network.prices)
        self._reserves = {pool.token: pool for pool in pools_of(network, BLEND_V2)}

    def simulate(self, chain: Chain, ledger: int, call: ContractCall) -> Simulation:
        if call.function == "get_reserve" and call.contract == BLEND_V2:
            return self._reserve(chain, ledger, call.arguments[0][1])
        if call.contract == ALULA and call.function == "get_pool_data":
            return self._alula(chain, ledger, call.arguments[0][1])
        return self._others.simulate(chain, ledger, call)

    def _reserve(self, chain: Chain, ledger: int, token: str) -> Simulation:
        footprint = {
            key: chain.entry(key, ledger)
            for key in (reserve_config_key(BLEND_V2, token), reserve_data_key(BLEND_V2, token), instance_key(BLEND_V2))
        }
        draft = Draft(lambda key: None if (entry := chain.entry(key, ledger)) is None else entry.data)
        config, data = list(footprint)[:2]
        reserve, time = self._reserves[token], chain.close_time(ledger) + self.clock
        self._mover.accrue(reserve, draft, time)
        draft.put(reserve.time, time)
        settings = decode_contract_data(draft.look(config) or b"").value
        answer = {
            "asset": address(token),
            "config": settings,
            "data": decode_contract_data(draft.look(data) or b"").value,
            "scalar": i128(10 ** _numbers(settings)["decimals"]),
        }
        return Simulation(encode_scval(struct_map(answer)), None, footprint)

    def _alula(self, chain: Chain, ledger: int, token: str) -> Simulation:
        if token in self.refused:
            return Simulation(None, _STALE, {})
        state = named(instance_of(_data(chain, ledger, instance_key(ALULA))).storage)
        quote = ContractCall(state["Oracle"][1], "lastprice", (vec(symbol("Stellar"), address(token)),))
        price = self._others.simulate(chain, ledger, quote)
        key = variant_key(ALULA, "Pool", address(token))
        footprint = {each: chain.entry(each, ledger) for each in (instance_key(ALULA), key, *price.footprint)}
        pool = _pool_data(_data(chain, ledger, key).value, decode_scval(price.result or b""))
        return Simulation(encode_scval(pool), None, footprint)


def _data(chain: Chain, ledger: int, key: bytes) -> ContractData:
    entry = chain.entry(key, ledger)
    assert entry is not None
    return decode_contract_data(entry.data)


plain("alula")  # reads the recording, which cannot be done within the loop of a server


def _pool_data(pool: ScVal, price: ScVal) -> ScVal:
    """The answer of the getter. The entry has numbers that no rate depends on, and that the exporter does not read."""
    known = set(names_of(plain("alula").state))
    found = published("alula", {name: number for name, number in _numbers(pool).items() if name in known}, 0)
    yields = {f"{side}_bps": u32(found[f"{side}_apy_bps"]) for side in ("borrow", "supply")}
    return struct_map(
        {
            "apy": struct_map(yields),
            "d_token_rate_ceil_bps": i128(found["borrow_index"]),
            "j_token_rate_floor_bps": i128(found["supply_index"]),
            "oracle_asset_price": i128(_numbers(price)["price"]),
            "pool": pool,
            "total_supply": i128(found["total_supplied"]),
        }
    )


def _numbers(value: ScVal) -> dict[str, int]:
    """The numbers of a struct and of the structs in it, by their names."""
    kind, content = value
    found: dict[str, int] = {}
    for part in content or () if kind == scval.VEC else ():
        found |= _numbers(part)
    for (_, name), item in content or () if kind == scval.MAP else ():
        found |= {name: item[1]} if isinstance(item[1], int) else _numbers(item)
    return found
