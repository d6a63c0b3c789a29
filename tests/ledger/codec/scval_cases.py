"""ScVals of every kind for property tests, and their stellar-sdk objects, built value by value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from stellar_sdk import Address, xdr
from stellar_sdk import scval as sdk

from exporter.ledger.codec import scval, strkey
from exporter.ledger.codec.scval import ContractInstance, ScVal

u32s = st.integers(0, 2**32 - 1)
u64s = st.integers(0, 2**64 - 1)
i64s = st.integers(-(2**63), 2**63 - 1)
hashes = st.binary(min_size=32, max_size=32)
symbols = st.from_regex(r"\A[a-zA-Z0-9_]{0,32}\Z")
contracts = hashes.map(strkey.encode_contract)
addresses = st.one_of(
    contracts,
    hashes.map(lambda key: strkey.encode(strkey.ACCOUNT, key)),
    st.binary(min_size=40, max_size=40).map(lambda body: strkey.encode(strkey.MUXED_ACCOUNT, body)),
    hashes.map(lambda body: strkey.encode(strkey.CLAIMABLE_BALANCE, b"\0" + body)),
    hashes.map(lambda body: strkey.encode(strkey.LIQUIDITY_POOL, body)),
)

MUXED_CONTRACTS = [
    (
        "WA7QYNF7SOWQ3GLR2BGMZEHXAVIRZA4KVWLTJJFC7MGXUA74P7UJUAAAAAAAAAAAAAWWC",
        "CA7QYNF7SOWQ3GLR2BGMZEHXAVIRZA4KVWLTJJFC7MGXUA74P7UJUWDA",
        0,
    ),
    (
        "WA7QYNF7SOWQ3GLR2BGMZEHXAVIRZA4KVWLTJJFC7MGXUA74P7UJVAAAAAAAAAAAACWJY",
        "CA7QYNF7SOWQ3GLR2BGMZEHXAVIRZA4KVWLTJJFC7MGXUA74P7UJUWDA",
        2**63,
    ),
    (
        "WA3D5KRYM6CB7OWQ6TWYRR3Z4T7GNZLKERYNZGGA5SOAOPIFY6YQGAAAAAAAAAPCIA6IG",
        "CA3D5KRYM6CB7OWQ6TWYRR3Z4T7GNZLKERYNZGGA5SOAOPIFY6YQGAXE",
        123456,
    ),
]
"""Each strkey of a muxed contract with its contract and number, as SEP-23 1.4.0 lists them: the SDK has none yet."""


def _kind(kind: int, payloads: st.SearchStrategy[Any]) -> st.SearchStrategy[ScVal]:
    return payloads.map(lambda payload: (kind, payload))


leaves: st.SearchStrategy[ScVal] = st.one_of(
    _kind(scval.BOOL, st.booleans()),
    _kind(scval.VOID, st.none()),
    _kind(scval.ERROR, st.tuples(st.just(0), u32s) | st.tuples(st.integers(1, 9), st.integers(0, 9))),
    _kind(scval.U32, u32s),
    _kind(scval.I32, st.integers(-(2**31), 2**31 - 1)),
    _kind(scval.U64, u64s),
    _kind(scval.I64, i64s),
    _kind(scval.TIMEPOINT, u64s),
    _kind(scval.DURATION, u64s),
    _kind(scval.U128, st.integers(0, 2**128 - 1)),
    _kind(scval.I128, st.integers(-(2**127), 2**127 - 1)),
    _kind(scval.U256, st.integers(0, 2**256 - 1)),
    _kind(scval.I256, st.integers(-(2**255), 2**255 - 1)),
    _kind(scval.BYTES, st.binary(max_size=40)),
    _kind(scval.STRING, st.binary(max_size=40)),
    _kind(scval.SYMBOL, symbols),
    _kind(scval.ADDRESS, addresses),
    _kind(scval.LEDGER_KEY_CONTRACT_INSTANCE, st.none()),
    _kind(scval.LEDGER_KEY_NONCE, i64s),
    _kind(scval.EXECUTABLE_TAG, st.binary(max_size=40)),
)


def _pairs(values: st.SearchStrategy[ScVal]) -> st.SearchStrategy[tuple[tuple[ScVal, ScVal], ...] | None]:
    return st.none() | st.lists(st.tuples(values, values), max_size=4).map(tuple)


def _instances(values: st.SearchStrategy[ScVal]) -> st.SearchStrategy[ContractInstance]:
    external = st.tuples(addresses, st.binary(max_size=20))
    return st.one_of(
        st.builds(ContractInstance, st.just(scval.WASM), hashes, st.none(), _pairs(values)),
        st.builds(ContractInstance, st.just(scval.STELLAR_ASSET), st.none(), st.none(), _pairs(values)),
        st.builds(ContractInstance, st.just(scval.EXTERNAL_REF), st.none(), external, _pairs(values)),
    )


def _containers(values: st.SearchStrategy[ScVal]) -> st.SearchStrategy[ScVal]:
    return st.one_of(
        _kind(scval.VEC, st.none() | st.lists(values, max_size=4).map(tuple)),
        _kind(scval.MAP, _pairs(values)),
        _kind(scval.CONTRACT_INSTANCE, _instances(values)),
    )


scvals: st.SearchStrategy[ScVal] = st.recursive(leaves, _containers, max_leaves=12)

_LEAF_BUILDERS: dict[int, Callable[[Any], xdr.SCVal]] = {
    scval.BOOL: sdk.to_bool,
    scval.VOID: lambda _payload: sdk.to_void(),
    scval.U32: sdk.to_uint32,
    scval.I32: sdk.to_int32,
    scval.U64: sdk.to_uint64,
    scval.I64: sdk.to_int64,
    scval.TIMEPOINT: sdk.to_timepoint,
    scval.DURATION: sdk.to_duration,
    scval.U128: sdk.to_uint128,
    scval.I128: sdk.to_int128,
    scval.U256: sdk.to_uint256,
    scval.I256: sdk.to_int256,
    scval.BYTES: sdk.to_bytes,
    scval.STRING: sdk.to_string,
    scval.SYMBOL: sdk.to_symbol,
    scval.ADDRESS: sdk.to_address,
}


def to_sdk(value: ScVal) -> xdr.SCVal:
    kind, payload = value
    sdk_kind = xdr.SCValType(kind)
    if kind in _LEAF_BUILDERS:
        return _LEAF_BUILDERS[kind](payload)
    if kind == scval.ERROR:
        error_type, code = payload
        if error_type == 0:
            error = xdr.SCError(xdr.SCErrorType.SCE_CONTRACT, contract_code=xdr.Uint32(code))
        else:
            error = xdr.SCError(xdr.SCErrorType(error_type), code=xdr.SCErrorCode(code))
        return xdr.SCVal(sdk_kind, error=error)
    if kind == scval.VEC:
        return xdr.SCVal(sdk_kind, vec=None if payload is None else xdr.SCVec([to_sdk(item) for item in payload]))
    if kind == scval.MAP:
        return xdr.SCVal(sdk_kind, map=_sdk_map(payload))
    if kind == scval.CONTRACT_INSTANCE:
        instance = xdr.SCContractInstance(_sdk_executable(payload), _sdk_map(payload.storage))
        return xdr.SCVal(sdk_kind, instance=instance)
    if kind == scval.LEDGER_KEY_NONCE:
        return xdr.SCVal(sdk_kind, nonce_key=xdr.SCNonceKey(xdr.Int64(payload)))
    if kind == scval.EXECUTABLE_TAG:
        return xdr.SCVal(sdk_kind, executable_tag=xdr.SCString(payload))
    return xdr.SCVal(sdk_kind)


def _sdk_map(pairs: tuple[tuple[ScVal, ScVal], ...] | None) -> xdr.SCMap | None:
    if pairs is None:
        return None
    return xdr.SCMap([xdr.SCMapEntry(to_sdk(key), to_sdk(item)) for key, item in pairs])


def _sdk_executable(instance: ContractInstance) -> xdr.ContractExecutable:
    kind = xdr.ContractExecutableType(instance.executable)
    if instance.wasm_hash is not None:
        return xdr.ContractExecutable(kind, wasm_hash=xdr.Hash(instance.wasm_hash))
    if instance.external is not None:
        owner, tag = instance.external
        reference = xdr.ContractExecutableExternalRef(Address(owner).to_xdr_sc_address(), xdr.SCString(tag))
        return xdr.ContractExecutable(kind, external_ref=reference)
    return xdr.ContractExecutable(kind)
