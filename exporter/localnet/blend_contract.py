"""The stand-in for the code of Blend's v2 pools: the one view of a reserve, computed from the chain's state alone.

``get_reserve(asset)`` gives the struct {asset, config, data, scalar}: the stored ``ResConfig``, the ``ResData``
brought to the ledger's time, and 10^decimals. The pools of v1 have no such view. The math is that of `blend_reserve`,
which is written apart from the exporter's. Not known is how the contract fails for an asset that is no reserve; here
it is what unwrapping a missing value ends as.
"""

from __future__ import annotations

from typing import Any

from exporter.ledger import scval
from exporter.ledger.scval import ScVal
from exporter.ledger.scval_encode import address, i128, struct_map, symbol, u64, vec
from exporter.localnet.blend_reserve import V2, Reserve, ReserveConfig
from exporter.localnet.contracts import MISSING_FUNCTION, WRONG_ARGUMENTS, Host, TrapError, storage_of

_UNWRAPPED_NONE = "Error(WasmVm, InvalidAction)"
_DATA_FIELDS = ("b_rate", "b_supply", "backstop_credit", "d_rate", "d_supply", "ir_mod")


def run_pool(host: Host, contract: str, function: str, arguments: tuple[ScVal, ...]) -> ScVal:
    """The code of a v2 pool: ``get_reserve(asset)``."""
    instance = host.instance(contract)
    if function != "get_reserve":
        raise TrapError(MISSING_FUNCTION)
    if len(arguments) != 1:
        raise TrapError(WRONG_ARGUMENTS)
    kind, asset = arguments[0]
    if kind != scval.ADDRESS:
        raise TrapError("Error(Value, UnexpectedType)")
    pool_config = storage_of(instance, symbol("Config"))
    config = host.data(contract, vec(symbol("ResConfig"), address(asset)))
    data = host.data(contract, vec(symbol("ResData"), address(asset)))
    if pool_config is None or config is None or data is None:
        raise TrapError(_UNWRAPPED_NONE)
    settings, state = _fields(config), _fields(data)
    reserve = Reserve(
        generation=V2,
        token=asset,
        config=ReserveConfig(**settings),
        take_rate=_fields(pool_config)["bstop_rate"],
        **state,
    )
    reserve.accrue(host.timestamp)
    accrued = {name: i128(getattr(reserve, name)) for name in _DATA_FIELDS}
    return struct_map(
        {
            "asset": address(asset),
            "config": config,
            "data": struct_map(accrued | {"last_time": u64(reserve.last_time)}),
            "scalar": i128(10 ** settings["decimals"]),
        }
    )


def _fields(value: ScVal) -> dict[str, Any]:
    """A struct's fields with the payloads of their values."""
    return {name: payload for (_, name), (_, payload) in value[1]}
