"""Finds the ends of XDR structures: passes over ledger entries, values and results without taking them apart.

Inside a ledger's meta only opaque data has its length in front, so whoever wants the tenth entry must know the arms
of the nine before it. A type is a `Walk`: it takes the bytes and the position at which a structure begins, and gives
the position after it. None recurses with the depth of what it passes over, and each step moves forward, so the work is
bounded by the length of the bytes. An arm that is not known raises `DecodeError`, and `struct.error` says that the
bytes end too early.

Layouts are those of Stellar-ledger-entries.x, Stellar-contract.x, Stellar-transaction.x, Stellar-SCP.x and
Stellar-contract-config-setting.x up to protocol 30.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from exporter.errors import DecodeError

Walk: TypeAlias = Callable[[bytes, int], int]
Part: TypeAlias = int | Walk
"""A type: a walk over it, or its size in bytes if that never differs."""

word: Final = struct.Struct(">I").unpack_from
signed: Final = struct.Struct(">i").unpack_from


def opaque(data: bytes, position: int) -> int:
    """Variable opaque data or a string: its length, its bytes, and zeros up to a multiple of four."""
    (length,) = word(data, position)
    end = position + 4 + length
    padded = (end + 3) & ~3
    if padded > len(data):
        raise DecodeError("the bytes end inside opaque data")
    if padded != end and any(data[end:padded]):
        raise DecodeError("opaque data is not padded with zeros")
    return int(padded)


def count_at(data: bytes, position: int, least: int) -> int:
    """The length of an array whose items have ``least`` bytes or more; one that cannot fit raises `DecodeError`."""
    (count,) = word(data, position)
    if count * least > len(data) - position - 4:
        raise DecodeError(f"an array of {count} items does not fit into the bytes that are left")
    return int(count)


def _after(part: Part, data: bytes, position: int) -> int:
    return position + part if isinstance(part, int) else part(data, position)


def in_turn(*parts: Part) -> Walk:
    """A struct: its fields in their order."""

    def walk(data: bytes, position: int) -> int:
        for part in parts:
            position = position + part if isinstance(part, int) else part(data, position)
        return position

    return walk


def union(what: str, arms: Mapping[int, Part]) -> Walk:
    """A union: the number of its arm, and the arm."""

    def walk(data: bytes, position: int) -> int:
        (kind,) = word(data, position)
        if kind not in arms:
            raise DecodeError(f"unknown {what}: {kind}")
        return _after(arms[kind], data, position + 4)

    return walk


def optional(part: Part) -> Walk:
    """A value that may be absent."""

    def walk(data: bytes, position: int) -> int:
        return _after(part, data, position + 4) if word(data, position)[0] else position + 4

    return walk


def array(item: Part, least: int = 4) -> Walk:
    """An array of any length; its items have ``least`` bytes or more."""

    def walk(data: bytes, position: int) -> int:
        count = count_at(data, position, least)
        position += 4
        for _ in range(count):
            position = _after(item, data, position)
        return position

    return walk


_ACCOUNT: Final = 36  # PublicKey: its type, always 0, and 32 bytes
_ADDRESSES: Final = {0: 36, 1: 32, 2: 40, 3: 36, 4: 32, 5: 40}
"""Account, contract, muxed account, claimable balance (with its own type), liquidity pool, muxed contract."""

address: Final = union("kind of address", _ADDRESSES)
asset: Final = union(
    "kind of asset", {0: 0, 1: 4 + _ACCOUNT, 2: 12 + _ACCOUNT, 3: 32}
)  # a trust line has the same form
_executable: Final = union("kind of executable", {0: 32, 1: 0, 2: in_turn(address, opaque)})

_VEC, _MAP, _ADDRESS, _INSTANCE = 16, 17, 18, 19
_OPAQUES: Final = frozenset({13, 14, 15, 22})
_FIXED = {0: 8, 1: 4, 2: 12, 3: 8, 4: 8, 5: 12, 6: 12, 7: 12, 8: 12, 9: 20, 10: 20, 11: 36, 12: 36, 20: 4, 21: 12}
"""Sizes in bytes, with the kind in front, of the values whose size never differs."""


def value(data: bytes, position: int, count: int = 1) -> int:
    """This many SCVals, one after the other."""
    fixed, opaques, addresses, read = _FIXED, _OPAQUES, _ADDRESSES, word
    while count:  # every step moves forward, so the loop ends with the bytes
        count -= 1
        (kind,) = read(data, position)
        size = fixed.get(kind)
        if size is not None:
            position += size
        elif kind in opaques:
            (size,) = read(data, position + 4)
            position += 8 + ((size + 3) & ~3)
        elif kind == _ADDRESS:
            (arm,) = read(data, position + 4)
            size = addresses.get(arm)
            if size is None:
                raise DecodeError(f"unknown kind of address: {arm}")
            position += 8 + size
        elif kind in (_VEC, _MAP, _INSTANCE):
            position = _executable(data, position + 4) if kind == _INSTANCE else position + 4
            (there,) = read(data, position)
            position += 4
            if there:
                (size,) = read(data, position)
                count += size if kind == _VEC else 2 * size
                position += 4
        else:
            raise DecodeError(f"unknown kind of value: {kind}")
    if position > len(data):
        raise DecodeError("the bytes end inside a value")
    return position


def contract_data_key_end(data: bytes, position: int) -> int:
    """The part of a contract data entry that is its key: from the contract through the durability."""
    return value(data, address(data, position)) + 4


def _predicate(data: bytes, position: int) -> int:
    count = 1
    while count:
        count -= 1
        (kind,) = word(data, position)
        if kind in (1, 2, 3):  # and, or, not
            count += count_at(data, position + 4, 4)
            position += 8
        else:
            position = _simple_predicate(data, position)
    return position


_simple_predicate: Final = union("kind of predicate", {0: 0, 4: 8, 5: 8})

_signer: Final = in_turn(union("kind of signer", {0: 32, 1: 32, 2: 32, 3: in_turn(32, opaque)}), 4)
_account_ids: Final = array(optional(_ACCOUNT))
_account_v3: Final = union("extension of an account", {0: 0, 3: 4 + 4 + 8})
_account_v2: Final = union("extension of an account", {0: 0, 2: in_turn(8, _account_ids, _account_v3)})
_any_account: Final = in_turn(
    _ACCOUNT + 8 + 8 + 4,
    optional(_ACCOUNT),
    4,
    opaque,
    4,
    array(_signer),
    union("extension of an account", {0: 0, 1: in_turn(16, _account_v2)}),
)
_usual_account: Final = struct.Struct(">56xI4xI4xII16xI8xII").unpack_from
_USUAL_ACCOUNT: Final = (0, 0, 0, 1, 2, 0, 3)
"""An account without an inflation destination, a home domain, signers and sponsors of these, in the newest form."""


def _account(data: bytes, position: int) -> int:
    if position + 116 <= len(data) and _usual_account(data, position) == _USUAL_ACCOUNT:
        return position + 132
    return _any_account(data, position)


_trustline_v2: Final = union("extension of a trust line", {0: 0, 2: 8})
_trustline: Final = in_turn(
    _ACCOUNT, asset, 8 + 8 + 4, union("extension of a trust line", {0: 0, 1: in_turn(16, _trustline_v2)})
)
_offer: Final = in_turn(_ACCOUNT + 8, asset, asset, 8 + 8 + 4, union("extension of an offer", {0: 0}))
_claimable_balance: Final = in_turn(
    36,
    array(in_turn(4 + _ACCOUNT, _predicate)),
    asset,
    8,
    union("extension of a claimable balance", {0: 0, 1: 8}),
)

_costs: Final = array(4 + 8 + 8, 20)
_frozen_keys: Final = array(opaque)
_hashes: Final = array(32, 32)
_SETTING_SIZES = {0: 4, 1: 28, 2: 84, 3: 8, 4: 12, 5: 16, 8: 4, 9: 4, 10: 48, 11: 4, 13: 16, 14: 4, 15: 12, 16: 20}
_setting: Final = union(
    "setting of the network",
    {
        **_SETTING_SIZES,
        6: _costs,
        7: _costs,
        12: array(8, 8),  # the window of state sizes
        17: _frozen_keys,
        18: in_turn(_frozen_keys, _frozen_keys),
        19: _hashes,  # numbers of transactions that may touch them
        20: in_turn(_hashes, _hashes),
    },
)

_ENTRIES: Final[tuple[Part, ...]] = (
    _account,
    _trustline,
    _offer,
    in_turn(_ACCOUNT, opaque, opaque, union("extension of a data entry", {0: 0})),
    _claimable_balance,
    in_turn(32, union("kind of liquidity pool", {0: in_turn(asset, asset, 4 + 32)})),
    in_turn(union("extension of contract data", {0: 0}), contract_data_key_end, value),
    in_turn(union("extension of contract code", {0: 0, 1: 48}), 32, opaque),
    _setting,
    36,  # a time to live
)
_sponsored: Final = in_turn(optional(_ACCOUNT), union("extension of a sponsored ledger entry", {0: 0}))
_entry_end: Final = union("extension of a ledger entry", {0: 0, 1: _sponsored})


def ledger_entry(data: bytes, position: int, kind: int) -> int:
    """A LedgerEntry of a kind: the ledger of its last change, its kind and body, and who sponsors it."""
    if kind >= len(_ENTRIES):
        raise DecodeError(f"unknown kind of ledger entry: {kind}")
    return _entry_end(data, _after(_ENTRIES[kind], data, position + 8))


_KEYS: Final[dict[int, Part]] = {
    0: _ACCOUNT,
    1: in_turn(_ACCOUNT, asset),
    2: _ACCOUNT + 8,
    3: in_turn(_ACCOUNT, opaque),
    4: 36,
    5: 32,
    6: contract_data_key_end,
    7: 32,
    8: 4,
    9: 32,
}
ledger_key: Final = union("kind of ledger key", _KEYS)

_claimed_offers: Final = array(
    in_turn(union("kind of claimed offer", {0: 32 + 8, 1: _ACCOUNT + 8, 2: 32}), asset, 8, asset, 8), 64
)
_path_payment: Final = in_turn(_claimed_offers, _ACCOUNT, asset, 8)
_offer_made: Final = in_turn(_claimed_offers, union("effect of an offer", {0: _offer, 1: _offer, 2: 0}))
_RESULTS: Final[dict[int, Part]] = {
    2: _path_payment,
    3: _offer_made,
    4: _offer_made,
    8: 8,  # account merge
    9: array(_ACCOUNT + 8, 44),  # inflation
    12: _offer_made,
    13: _path_payment,
    14: 36,  # create claimable balance
    24: 32,  # invoke host function
}
"""Results of operations that succeeded. Operations of all other kinds return nothing."""
_LAST_OPERATION: Final = 26
_NO_ISSUER: Final = -9


def _operation_result(data: bytes, position: int) -> int:
    if word(data, position)[0]:  # refused before it was tried
        return position + 4
    (kind,) = word(data, position + 4)
    (code,) = signed(data, position + 8)
    position += 12
    if kind > _LAST_OPERATION:
        raise DecodeError(f"unknown kind of operation: {kind}")
    if code == 0:
        return _after(_RESULTS.get(kind, 0), data, position)
    return asset(data, position) if code == _NO_ISSUER and kind in (2, 13) else position


_operation_results: Final = array(_operation_result)
_SUCCESS, _FAILED, _FEE_BUMP, _FEE_BUMP_FAILED = 0, -1, 1, -13


def result_pair(data: bytes, position: int) -> int:
    """A TransactionResultPair."""
    (code,) = signed(data, position + 32 + 8)
    position += 32 + 8 + 4
    if code in (_FEE_BUMP, _FEE_BUMP_FAILED):
        (inner,) = signed(data, position + 32 + 8)
        position += 32 + 8 + 4
        if inner in (_SUCCESS, _FAILED):
            position = _operation_results(data, position)
        position += 4
    elif code in (_SUCCESS, _FAILED):
        position = _operation_results(data, position)
    return position + 4


def contract_events(
    data: bytes, position: int, head: int, seen: Callable[[bytes, int, int], None] | None = None
) -> int:
    """An array of ContractEvents, each after ``head`` bytes. ``seen`` gets each one's contract id, begin and end."""
    count = count_at(data, position, 20 + head)
    position += 4
    for _ in range(count):
        position += head
        begin = position
        (there,) = word(data, position + 4)
        position += 8 + (32 if there else 0) + 4 + 4
        (topics,) = word(data, position)
        position = value(data, position + 4, topics + 1)
        if seen is not None and there:
            seen(data[begin + 8 : begin + 40], begin, position)
    return position


def quorum_set(data: bytes, position: int, nodes: set[bytes] | None = None) -> int:
    """An SCPQuorumSet with its inner sets; the ids of the validators that they name are added to ``nodes``."""
    count = 1
    while count:
        count -= 1
        validators = count_at(data, position + 4, 36)
        begin, position = position + 8, position + 8 + 36 * validators
        if nodes is not None:
            nodes.update(data[at + 4 : at + 36] for at in range(begin, position, 36))
        count += count_at(data, position, 12)
        position += 4
    return position


_ballot: Final = in_turn(4, opaque)
_STATEMENTS: Final[dict[int, Part]] = {
    0: in_turn(32, _ballot, optional(_ballot), optional(_ballot), 8),  # prepare
    1: in_turn(_ballot, 12 + 32),  # confirm
    2: in_turn(_ballot, 4 + 32),  # externalize
    3: in_turn(32, array(opaque), array(opaque)),  # nominate
}
scp_envelope: Final = in_turn(44, union("kind of consensus statement", _STATEMENTS), opaque)
