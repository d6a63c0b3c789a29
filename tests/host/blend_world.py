"""A real Blend market on the real host: the market of the testnet archive, with users, prices and time of our own.

Everything that happens to the market is a call of its deployed code. What is set by hand is money: the users'
balances of tokens, as entries; and the ends of the entries' lives, so that months can pass without restoring.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

from exporter.ledger.codec import scval, strkey
from exporter.ledger.codec.entries import (
    CONFIG_SETTING,
    ContractData,
    data_key,
    decode_contract_data,
    encode_contract_data,
    instance_key,
    instance_of,
)
from exporter.ledger.codec.fields import Fields
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address, i128, struct_map, symbol, u32, vec
from exporter.ledger.source import RawEntry
from exporter.past.archive.checkpoint import HistoryArchive
from exporter.protocols.blend.layout import reserve_config_key, reserve_data_key
from tests.host.machine import LedgerInfo, Machine, Outcome
from tests.past.archive.archive_snapshot import CheckpointState, snapshot_of, state_at
from tests.recorded_entries import decode_data_key

POOL = "CCLBPEYS3XFK65MYYXSBMOGKUI4ODN5S7SUZBGD7NALUQF64QILLX5B5"
CHECKPOINT = 10047
SETTINGS = tuple(struct.pack(">II", CONFIG_SETTING, number) for number in range(16))
"""The keys of the network's settings for contracts: costs, limits, times to live."""

USERS = tuple(strkey.encode(strkey.CONTRACT, sha256(b"user %d" % number).digest()) for number in range(8))
"""Contracts, whose balances are contract data; they have no code, and authorise everything."""

BACKSTOP_DEPOSITOR = "GAQ3OLLBLCO2DZZJHKB2GJNDI445NYNIOP7SMPRDYRUMWWR7YRF2CYVO"
"""Who has nearly all of what is in the market's backstop."""

SUPPLY, WITHDRAW, SUPPLY_COLLATERAL, WITHDRAW_COLLATERAL, BORROW, REPAY = range(6)
FILL_LIQUIDATION = 6
LIQUIDATION = 0

MUCH = 10**24
NEVER = 2**32 - 1


Call = tuple[str, str, tuple[ScVal, ...]]
"""A contract, a function of it, and arguments."""


@dataclass(frozen=True)
class Step:
    """A transaction: what it calls, and how long after the one before, in seconds and in ledgers."""

    seconds: int
    ledgers: int
    contract: str
    function: str
    arguments: tuple[ScVal, ...]


def real_state(archive: HistoryArchive) -> CheckpointState:
    """Everything that contracts are at the archive's last checkpoint, and the network's settings."""
    return state_at(archive, CHECKPOINT, others=SETTINGS)


def start_machine(machine: Machine, state: CheckpointState) -> None:
    """Give a host the whole state of a checkpoint, and put it at that ledger."""
    snapshot = snapshot_of(state)
    machine.put(snapshot.entries)
    machine.put_others(state.others)
    machine.at(LedgerInfo(snapshot.ledger, snapshot.close_time, snapshot.network_id, snapshot.protocol_version))


class World:
    """The market on a host that has the archive's state. ``entries`` is what the host has, kept in step with it."""

    def __init__(self, machine: Machine, state: CheckpointState) -> None:
        self.machine = machine
        start_machine(machine, state)
        self.entries: dict[bytes, RawEntry] = {}
        storage = _storage(state.entries, POOL)
        self.admin: str = storage["Admin"][1]
        self.backstop: str = storage["Backstop"][1]
        self.blnd: str = storage["BLNDTkn"][1]
        self.oracle: str = Fields.of(storage["Config"], "Config").address("oracle")
        self.lp: str = _storage(state.entries, self.backstop)["BToken"][1]
        self.assets: list[str] = [item[1] for item in machine.call(POOL, "get_reserve_list").given()[1]]
        lasting = {
            key: RawEntry(entry.data, entry.last_modified, NEVER)
            for key, entry in state.entries.items()
            if entry.live_until is not None and entry.live_until >= machine.info.ledger
        }
        for user in USERS:
            for token in self.assets:
                lasting |= balance_entry(token, user, MUCH, machine.info.ledger)
            lasting |= _entry(self.lp, _balance_key(user), i128(10**16), machine.info.ledger)
        # Other pools' entries cannot be reached from this market's.
        machine.put(lasting)
        self.entries, self.info = dict(lasting), machine.info
        self._must("set_data", self.oracle, *self._oracle_data())
        self._must("set_price_stable", self.oracle, vec(*[i128(10**7)] * len(self.assets)))
        self._start = (dict(self.entries), self.info)
        machine.mark()

    def restart(self) -> None:
        """Bring the market back to the archive's state."""
        entries, self.info = self._start
        self.entries = dict(entries)
        self.machine.back()
        self.machine.at(self.info)

    def transact(self, step: Step) -> Outcome:
        """Let the time pass, and run a transaction; everybody authorises what is asked for."""
        self.info = self.info.after(step.seconds, step.ledgers)
        self.machine.at(self.info)
        outcome = self.machine.call(step.contract, step.function, *step.arguments, authorised=True, commit=True)
        for key, entry in outcome.changes.items():
            if entry is None:
                self.entries.pop(key, None)
            elif key[:4] == b"\0\0\0\x06" and decode_data_key(key).key[0] != scval.LEDGER_KEY_NONCE:
                self.entries[key] = RawEntry(entry[4:-4], self.info.ledger, outcome.ends.get(key))
        return outcome

    def value(self, contract: str, key: ScVal) -> ScVal | None:
        entry = self.entries.get(data_key(contract, key))
        return None if entry is None else decode_contract_data(entry.data).value

    def config(self) -> Fields:
        return Fields.of(_storage(self.entries, POOL)["Config"], "Config")

    def reserve(self, asset: str) -> tuple[RawEntry, RawEntry]:
        return self.entries[reserve_config_key(POOL, asset)], self.entries[reserve_data_key(POOL, asset)]

    def positions(self, user: str) -> dict[str, dict[int, int]]:
        """A user's shares by reserve index: of ``collateral``, ``liabilities`` and ``supply``."""
        found = self.value(POOL, vec(symbol("Positions"), address(user)))
        if found is None:
            return {"collateral": {}, "liabilities": {}, "supply": {}}
        return {name[1]: {index[1]: shares[1] for index, shares in held[1]} for name, held in found[1]}

    def backstop_shares(self, user: str) -> int:
        """What a user has in the market's backstop and has not asked back."""
        key = vec(symbol("UserBalance"), struct_map({"pool": address(POOL), "user": address(user)}))
        found = self.value(self.backstop, key)
        return 0 if found is None else Fields.of(found, "UserBalance").i128("shares")

    def _oracle_data(self) -> tuple[ScVal, ...]:
        assets = vec(*(vec(symbol("Stellar"), address(asset)) for asset in self.assets))
        return address(self.admin), vec(symbol("Other"), symbol("USD")), assets, u32(7), u32(300)

    def _must(self, function: str, contract: str, *arguments: ScVal) -> None:
        outcome = self.transact(Step(0, 0, contract, function, arguments))
        assert outcome.error is None, outcome.message


def requests(*wanted: tuple[int, str, int]) -> ScVal:
    """The requests of one submit: (kind, asset or user, amount)."""
    return vec(
        *(
            struct_map({"address": address(of), "amount": i128(amount), "request_type": u32(kind)})
            for kind, of, amount in wanted
        )
    )


def submit(user: str, *wanted: tuple[int, str, int]) -> Call:
    return POOL, "submit", (address(user), address(user), address(user), requests(*wanted))


def _bool(value: bool) -> ScVal:
    return (scval.BOOL, value)


def _storage(entries: Mapping[bytes, RawEntry], contract: str) -> dict[str, ScVal]:
    instance = instance_of(decode_contract_data(entries[instance_key(contract)].data))
    return {key[1]: value for key, value in instance.storage or () if key[0] == scval.SYMBOL}


def _balance_key(holder: str) -> ScVal:
    return vec(symbol("Balance"), address(holder))


def _balance(amount: int) -> ScVal:
    return struct_map({"amount": i128(amount), "authorized": _bool(True), "clawback": _bool(False)})


def balance_entry(token: str, holder: str, amount: int, ledger: int) -> dict[bytes, RawEntry]:
    """The entry in which a Stellar asset contract keeps what a contract holds."""
    return _entry(token, _balance_key(holder), _balance(amount), ledger)


def _entry(contract: str, key: ScVal, value: ScVal, ledger: int) -> dict[bytes, RawEntry]:
    data = encode_contract_data(ContractData(contract, key, 1, value))
    return {data_key(contract, key): RawEntry(data, ledger, NEVER)}


def ruin(world: World, chance: random.Random) -> list[Step]:
    """The backstop's depositor leaves, what a user owes becomes dear, and the debt ends as nobody's."""
    day = 86_400
    lender, borrower, filler = chance.sample(USERS, 3)
    kept, owed = chance.sample(world.assets[:4], 2)
    shares, depositor = max((world.backstop_shares(user), user) for user in (*USERS, BACKSTOP_DEPOSITOR))
    leave = (address(depositor), address(POOL), i128(shares))
    before = [10**7] * len(world.assets)
    prices = [5 * 10**7 if asset == owed else 10**7 for asset in world.assets]
    auction = u32(LIQUIDATION), address(borrower), vec(address(owed)), vec(address(kept)), u32(100)
    calls: list[tuple[int, int, Call]] = [
        (60, 1, (POOL, "set_status", (u32(0),))),
        (60, 1, (world.oracle, "set_price_stable", (vec(*map(i128, before)),))),
        (5, 1, submit(lender, (SUPPLY, owed, 10**13))),
        (5, 1, submit(borrower, (SUPPLY_COLLATERAL, kept, 10**13), (BORROW, owed, 6 * 10**12))),
        (60, 10, (world.backstop, "queue_withdrawal", leave)),
        (18 * day, 20_000, (world.backstop, "withdraw", leave)),
        (5, 1, (world.oracle, "set_price_stable", (vec(*map(i128, prices)),))),
        (5, 1, (POOL, "new_auction", auction)),
        (2_100, 401, submit(filler, (FILL_LIQUIDATION, borrower, 100))),
        (5, 1, (POOL, "bad_debt", (address(borrower),))),
        (3_000, 500, (POOL, "bad_debt", (address(world.backstop),))),
    ]
    return [Step(seconds, ledgers, *call) for seconds, ledgers, call in calls]
