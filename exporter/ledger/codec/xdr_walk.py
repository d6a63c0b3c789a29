"""Where XDR structures end: passing over ledger entries, values and results without taking them apart.

Nothing inside a ledger's meta is length-prefixed but opaque data, so whoever wants the tenth entry must know the arms
of the nine before it. Every function takes the bytes and the position at which a structure begins, and gives the
position after it. None recurses, whatever the depth of what it passes over, and each step moves forward, so the work is
bounded by the length of the bytes. An arm that is not known raises `DecodeError`: nothing is guessed.

Layouts are those of Stellar-ledger-entries.x, Stellar-contract.x, Stellar-transaction.x and
Stellar-contract-config-setting.x up to protocol 30.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from exporter.errors import DecodeError

word: Final = struct.Struct(">I").unpack_from
signed: Final = struct.Struct(">i").unpack_from

_ACCOUNT: Final = 36  # PublicKey: its type, always 0, and 32 bytes
_ASSETS: Final = {0: 4, 1: 4 + 4 + _ACCOUNT, 2: 4 + 12 + _ACCOUNT, 3: 4 + 32}  # native, 4 letters, 12, pool share
_ADDRESSES: Final = {0: 40, 1: 36, 2: 44, 3: 40, 4: 36, 5: 44}
"""Account, contract, muxed account, claimable balance (with its own type), liquidity pool, muxed contract."""

_BYTES, _STRING, _SYMBOL, _VEC, _MAP, _ADDRESS, _INSTANCE, _TAG = 13, 14, 15, 16, 17, 18, 19, 22
_OPAQUES: Final = frozenset({_BYTES, _STRING, _SYMBOL, _TAG})
_CONTAINERS: Final = frozenset({_VEC, _MAP})
_FIXED: Final = {
    0: 8,
    1: 4,
    2: 12,
    3: 8,
    4: 8,
    5: 12,
    6: 12,
    7: 12,
    8: 12,
    9: 20,
    10: 20,
    11: 36,
    12: 36,
    20: 4,
    21: 12,
}
"""Sizes, with the kind before, of the values that always have the same."""


def size_at(sizes: dict[int, int], data: bytes, position: int, what: str) -> int:
    """The size of a union of which each arm has a fixed one."""
    (kind,) = word(data, position)
    try:
        return sizes[kind]
    except KeyError:
        raise DecodeError(f"unknown kind of {what}: {kind}") from None


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


def address(data: bytes, position: int) -> int:
    """An SCAddress."""
    return position + size_at(_ADDRESSES, data, position, "address")


def value(data: bytes, position: int, count: int = 1) -> int:
    """This many SCVals, one after the other."""
    fixed, opaques, containers, addresses, read = _FIXED, _OPAQUES, _CONTAINERS, _ADDRESSES, word
    while count:  # each step moves forward, so the end of the bytes ends it
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
            position += 4 + size
        elif kind in containers:
            (there,) = read(data, position + 4)
            position += 8
            if there:
                (size,) = read(data, position)
                count += size if kind == _VEC else 2 * size
                position += 4
        elif kind == _INSTANCE:
            position = _executable(data, position + 4)
            (there,) = read(data, position)
            position += 4
            if there:
                (size,) = read(data, position)
                count += 2 * size
                position += 4
        else:
            raise DecodeError(f"unknown kind of value: {kind}")
    if position > len(data):
        raise DecodeError("the bytes end inside a value")
    return position


def _executable(data: bytes, position: int) -> int:
    (kind,) = word(data, position)
    if kind == 0:  # wasm hash
        return position + 36
    if kind == 1:  # the built-in contract of a classic asset
        return position + 4
    if kind == 2:  # of another contract's code, by a tag (CAP-85)
        return opaque(data, address(data, position + 4))
    raise DecodeError(f"unknown kind of executable: {kind}")


def asset(data: bytes, position: int) -> int:
    """An Asset or a TrustLineAsset."""
    return position + size_at(_ASSETS, data, position, "asset")


def optional_account(data: bytes, position: int) -> int:
    """An AccountID that may be there."""
    (there,) = word(data, position)
    return position + 4 + (_ACCOUNT if there else 0)


def _extension(data: bytes, position: int, what: str, most: int = 0) -> int:
    (kind,) = word(data, position)
    if kind > most:
        raise DecodeError(f"unknown extension of {what}: {kind}")
    return int(kind)


_usual_account: Final = struct.Struct(">56xI4xI4xII16xI8xII").unpack_from
_USUAL_ACCOUNT: Final = (0, 0, 0, 1, 2, 0, 3)
"""An account without an inflation destination, a home domain, signers and sponsors of these, in the newest form."""


def _account(data: bytes, position: int) -> int:
    if position + 116 <= len(data) and _usual_account(data, position) == _USUAL_ACCOUNT:
        return position + 132
    position = optional_account(data, position + _ACCOUNT + 8 + 8 + 4)
    position = opaque(data, position + 4) + 4
    (signers,) = word(data, position)
    position += 4
    for _ in range(_bounded(signers, 20, "signers")):
        (kind,) = word(data, position)
        if kind > 3:
            raise DecodeError(f"unknown kind of signer: {kind}")
        position = (opaque(data, position + 36) if kind == 3 else position + 36) + 4
    if _extension(data, position, "an account", 1):
        position += 4 + 16
        (kind,) = word(data, position)
        if kind not in (0, 2):
            raise DecodeError(f"unknown extension of an account: {kind}")
        if kind == 2:
            (sponsors,) = word(data, position + 12)
            position += 16
            for _ in range(_bounded(sponsors, 20, "sponsors")):
                position = optional_account(data, position)
            (kind,) = word(data, position)
            if kind not in (0, 3):
                raise DecodeError(f"unknown extension of an account: {kind}")
            if kind == 3:
                position += 4 + 4 + 8
    return position + 4


def _trustline(data: bytes, position: int) -> int:
    position = asset(data, position + _ACCOUNT) + 8 + 8 + 4
    if word(data, position)[0]:
        _extension(data, position, "a trust line", 1)
        position += 4 + 16
        (kind,) = word(data, position)
        if kind not in (0, 2):
            raise DecodeError(f"unknown extension of a trust line: {kind}")
        if kind == 2:
            position += 8
    return position + 4


def _offer(data: bytes, position: int) -> int:
    position = asset(data, asset(data, position + _ACCOUNT + 8)) + 8 + 8 + 4
    if word(data, position)[0]:
        _extension(data, position, "an offer")
    return position + 4


def _data(data: bytes, position: int) -> int:
    position = opaque(data, opaque(data, position + _ACCOUNT))
    _extension(data, position, "a data entry")
    return position + 4


_PREDICATES = {0: 4, 4: 12, 5: 12}  # unconditional, before an absolute time, before a relative one


def _claimable_balance(data: bytes, position: int) -> int:
    (claimants,) = word(data, position + 36)
    position += 40
    for _ in range(_bounded(claimants, 10, "claimants")):
        position += 4 + _ACCOUNT
        count = 1
        while count:
            count -= 1
            (kind,) = word(data, position)
            if kind in (1, 2, 3):  # and, or, not
                (size,) = word(data, position + 4)
                count += _bounded(size, 2 if kind < 3 else 1, "predicates")
                position += 8
            else:
                position += size_at(_PREDICATES, data, position, "predicate")
    position = asset(data, position) + 8
    if _extension(data, position, "a claimable balance", 1):
        position += 8
    return position + 4


def _liquidity_pool(data: bytes, position: int) -> int:
    if word(data, position + 32)[0]:
        raise DecodeError("unknown kind of liquidity pool")
    return asset(data, asset(data, position + 36)) + 4 + 32


def contract_data_key_end(data: bytes, position: int) -> int:
    """The part of a contract data entry that is its key: from the contract through the durability."""
    return value(data, address(data, position)) + 4


def _contract_data(data: bytes, position: int) -> int:
    _extension(data, position, "contract data")
    return value(data, contract_data_key_end(data, position + 4))


def _contract_code(data: bytes, position: int) -> int:
    if _extension(data, position, "contract code", 1):
        position += 48  # two extension points and ten counts
    return opaque(data, position + 4 + 32)


_SETTINGS: Final = {
    0: 4,
    1: 28,
    2: 84,
    3: 8,
    4: 12,
    5: 16,
    8: 4,
    9: 4,
    10: 48,
    11: 4,
    13: 16,
    14: 4,
    15: 12,
    16: 20,
}
"""Sizes of the settings of the network that always have the same."""


def _config_setting(data: bytes, position: int) -> int:
    (kind,) = word(data, position)
    position += 4
    if kind in _SETTINGS:
        return position + _SETTINGS[kind]
    if kind in (6, 7):  # cost parameters: an extension and two i64 each
        return position + 4 + 20 * _bounded(word(data, position)[0], 1024, "cost parameters")
    if kind == 12:  # the window of state sizes
        return position + 4 + 8 * _bounded(word(data, position)[0], 1 << 20, "samples")
    if kind in (17, 18):  # frozen ledger keys, and their changes
        for _ in range(kind - 16):
            (keys,) = word(data, position)
            position += 4
            for _ in range(_bounded(keys, (len(data) - position) // 4, "frozen keys")):
                position = opaque(data, position)
        return position
    if kind in (19, 20):  # transactions that may touch them, and their changes
        for _ in range(kind - 18):
            (hashes,) = word(data, position)
            position += 4 + 32 * hashes
        return position
    raise DecodeError(f"unknown setting of the network: {kind}")


def _ttl(_: bytes, position: int) -> int:
    return position + 36


_ENTRIES: Final[tuple[Callable[[bytes, int], int], ...]] = (
    _account,
    _trustline,
    _offer,
    _data,
    _claimable_balance,
    _liquidity_pool,
    _contract_data,
    _contract_code,
    _config_setting,
    _ttl,
)


def ledger_entry(data: bytes, position: int, kind: int) -> int:
    """A LedgerEntry of a kind: the ledger of its last change, its kind and body, and who sponsors it."""
    if kind >= len(_ENTRIES):
        raise DecodeError(f"unknown kind of ledger entry: {kind}")
    position = _ENTRIES[kind](data, position + 8)
    (extension,) = word(data, position)
    if extension:
        _extension(data, position, "a ledger entry", 1)
        position = optional_account(data, position + 4)
        _extension(data, position, "a sponsored ledger entry")
    return position + 4


_KEY_SIZES: Final = {0: 4 + _ACCOUNT, 2: 4 + _ACCOUNT + 8, 4: 4 + 36, 5: 4 + 32, 7: 4 + 32, 8: 8, 9: 4 + 32}


def ledger_key(data: bytes, position: int) -> int:
    """A LedgerKey."""
    (kind,) = word(data, position)
    if kind == 6:
        return contract_data_key_end(data, position + 4)
    if kind == 1:
        return asset(data, position + 4 + _ACCOUNT)
    if kind == 3:
        return opaque(data, position + 4 + _ACCOUNT)
    return position + size_at(_KEY_SIZES, data, position, "ledger key")


def _bounded(count: int, most: int, what: str) -> int:
    if count > most:
        raise DecodeError(f"{count} {what}, where {most} is the most")
    return count


def count_at(data: bytes, position: int, least: int) -> int:
    """The length of an array whose items have ``least`` bytes or more; one that cannot fit raises `DecodeError`."""
    (count,) = word(data, position)
    if count * least > len(data) - position - 4:
        raise DecodeError(f"an array of {count} items does not fit into the bytes that are left")
    return int(count)


_OFFER_OPERATIONS: Final = frozenset({3, 4, 12})
_PATH_OPERATIONS: Final = frozenset({2, 13})
_LAST_OPERATION: Final = 26
_NO_ISSUER: Final = -9
_CLAIMED: Final = {0: 32 + 8, 1: _ACCOUNT + 8, 2: 32}


def _claimed_offers(data: bytes, position: int) -> int:
    count = count_at(data, position, 64)
    position += 4
    for _ in range(count):
        position += 4 + size_at(_CLAIMED, data, position, "claimed offer")
        position = asset(data, asset(data, position) + 8) + 8
    return position


def _operation_result(data: bytes, position: int) -> int:
    if word(data, position)[0]:  # refused before it was tried
        return position + 4
    (kind,) = word(data, position + 4)
    (code,) = signed(data, position + 8)
    position += 12
    if kind > _LAST_OPERATION:
        raise DecodeError(f"unknown kind of operation: {kind}")
    if kind in _PATH_OPERATIONS:
        if code == 0:
            return asset(data, _claimed_offers(data, position) + _ACCOUNT) + 8
        return asset(data, position) if code == _NO_ISSUER else position
    if code != 0:
        return position
    if kind in _OFFER_OPERATIONS:
        position = _claimed_offers(data, position)
        (effect,) = word(data, position)
        if effect > 2:
            raise DecodeError(f"unknown effect of an offer: {effect}")
        return position + 4 if effect == 2 else _offer(data, position + 4)
    if kind == 8:  # account merge
        return position + 8
    if kind == 9:  # inflation
        return position + 4 + count_at(data, position, 44) * 44
    if kind == 14:  # create claimable balance
        return position + 36
    if kind == 24:  # invoke host function
        return position + 32
    return position


_SUCCESS, _FAILED, _FEE_BUMP, _FEE_BUMP_FAILED = 0, -1, 1, -13


def result_pair(data: bytes, position: int) -> tuple[int, bool]:
    """A TransactionResultPair, and whether the transaction succeeded."""
    position += 32 + 8
    (code,) = signed(data, position)
    position += 4
    if code in (_FEE_BUMP, _FEE_BUMP_FAILED):
        position += 32 + 8
        (inner,) = signed(data, position)
        position += 4
        if inner in (_SUCCESS, _FAILED):
            position = _operation_results(data, position)
        position += 4
    elif code in (_SUCCESS, _FAILED):
        position = _operation_results(data, position)
    return position + 4, code in (_SUCCESS, _FEE_BUMP)


def _operation_results(data: bytes, position: int) -> int:
    count = count_at(data, position, 4)
    position += 4
    for _ in range(count):
        position = _operation_result(data, position)
    return position


def contract_events(
    data: bytes, position: int, head: int = 0, seen: Callable[[bytes, int, int], None] | None = None
) -> int:
    """An array of ContractEvents, each after ``head`` bytes of what wraps it.

    ``seen`` gets each that has a contract: its id, and where the event begins and ends.
    """
    (count,) = word(data, position)
    if not count:
        return position + 4
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


def scp_envelope(data: bytes, position: int) -> int:
    """An SCPEnvelope."""
    (kind,) = word(data, position + 44)
    position += 48
    ballot = 4  # a counter, before an opaque value
    match kind:
        case 0:  # prepare
            position = opaque(data, position + 32 + ballot)
            for _ in range(2):
                (there,) = word(data, position)
                position += 4
                if there:
                    position = opaque(data, position + ballot)
            position += 8
        case 1:  # confirm
            position = opaque(data, position + ballot) + 12 + 32
        case 2:  # externalize
            position = opaque(data, position + ballot) + 4 + 32
        case 3:  # nominate
            position += 32
            for _ in range(2):
                count = count_at(data, position, 4)
                position += 4
                for _ in range(count):
                    position = opaque(data, position)
        case _:
            raise DecodeError(f"unknown kind of consensus statement: {kind}")
    return opaque(data, position)
