"""A real Blend market on the real host: the market of the testnet archive, with users, prices and time of our own.

Everything that happens to the market is a call of its deployed code. What is set by hand is money: the users'
balances of tokens, as entries; and the ends of the entries' lives, so that months can pass without restoring.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable, Mapping
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
from tests.entries import decode_data_key
from tests.host.blend_judge import Sample
from tests.host.machine import LedgerInfo, Machine, Outcome
from tests.past.archive.archive_snapshot import CheckpointState, snapshot_of, state_at

POOL = "CCLBPEYS3XFK65MYYXSBMOGKUI4ODN5S7SUZBGD7NALUQF64QILLX5B5"
CHECKPOINT = 10047
SETTINGS = tuple(struct.pack(">II", CONFIG_SETTING, number) for number in range(16))
"""The keys of the network's settings for contracts: costs, limits, times to live."""

USERS = tuple(strkey.encode(strkey.CONTRACT, sha256(b"user %d" % number).digest()) for number in range(8))
"""Contracts, whose balances are contract data; they have no code, and authorise everything."""

BACKSTOP_DEPOSITOR = "GAQ3OLLBLCO2DZZJHKB2GJNDI445NYNIOP7SMPRDYRUMWWR7YRF2CYVO"
"""Who has nearly all of what is in the market's backstop."""

SUPPLY, WITHDRAW, SUPPLY_COLLATERAL, WITHDRAW_COLLATERAL, BORROW, REPAY = range(6)
FILL_LIQUIDATION, FILL_BAD_DEBT, FILL_INTEREST, DELETE_LIQUIDATION = range(6, 10)
LIQUIDATION, BAD_DEBT, INTEREST = range(3)

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

    def __init__(self, machine: Machine, state: CheckpointState, extra_reserves: int = 2) -> None:
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
        self.spare = _stellar_assets(state.entries, (*self.assets, self.blnd))[:extra_reserves]
        lasting = {
            key: RawEntry(entry.data, entry.last_modified, NEVER)
            for key, entry in state.entries.items()
            if entry.live_until is not None and entry.live_until >= machine.info.ledger
        }
        for user in USERS:
            for token in (*self.assets, *self.spare):
                lasting |= balance_entry(token, user, MUCH, machine.info.ledger)
            lasting |= _entry(self.lp, _balance_key(user), i128(10**16), machine.info.ledger)
        # Other pools' entries cannot be reached from this market's.
        machine.put(lasting)
        self.oracle_assets = [*self.assets, *self.spare]
        self.entries, self.info = dict(lasting), machine.info
        self._must("set_data", self.oracle, *self._oracle_data())
        self.prices = [10**7] * len(self.oracle_assets)
        self._must("set_price_stable", self.oracle, vec(*map(i128, self.prices)))
        self._start = (dict(self.entries), self.info)
        machine.mark()

    def restart(self) -> None:
        """Bring the market back to the archive's state."""
        entries, self.info = self._start
        self.entries = dict(entries)
        self.machine.back()
        self.machine.at(self.info)
        self.prices = [10**7] * len(self.oracle_assets)
        self.assets = [item[1] for item in self.machine.call(POOL, "get_reserve_list").given()[1]]

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
        if outcome.error is None and step.function == "set_reserve":
            self.assets = [item[1] for item in self.machine.call(POOL, "get_reserve_list").given()[1]]
        return outcome

    def touched(self, outcome: Outcome) -> list[str]:
        """The assets whose reserve's state or configuration a transaction wrote."""
        keys = {asset: {reserve_data_key(POOL, asset), reserve_config_key(POOL, asset)} for asset in self.assets}
        return [asset for asset, own in keys.items() if own & outcome.changes.keys()]

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

    def has_auction(self, kind: int, user: str) -> bool:
        """Whether an auction of that kind is under way for a user."""
        key = vec(symbol("Auction"), struct_map({"auct_type": u32(kind), "user": address(user)}))
        return any(data_key(POOL, key, durability) in self.entries for durability in (0, 1))

    def samples(self, seconds: int, where: str, assets: Iterable[str], free_of: str | None = None) -> list[Sample]:
        """What the deployed code says of reserves after further seconds, in which nothing happens.

        ``free_of``: the reserve of which the contract is asked for what ``gulp`` computes, too.
        """
        later = self.info.after(seconds, max(1, seconds // 5))
        self.machine.at(later)
        rate = self.config().u32("bstop_rate")
        samples = []
        for asset in assets:
            config, data = self.reserve(asset)
            outcome = self.machine.call(POOL, "get_reserve", address(asset))
            free = self._free(asset, outcome.result) if asset == free_of and outcome.result else None
            entries = POOL, asset, later.close_time, config, data, rate
            answer = outcome.result, outcome.error, free
            samples.append(Sample(f"{where}, {asset} after {seconds} s", *entries, *answer))
        return samples

    def _free(self, asset: str, reserve: ScVal) -> int | None:
        """The total supply less the total liabilities, from ``gulp`` of a pool that holds more than that."""
        key = data_key(asset, _balance_key(POOL))
        self.machine.put(balance_entry(asset, POOL, 10**37, self.info.ledger))
        outcome = self.machine.call(POOL, "gulp", address(asset))
        self.machine.put({key: self.entries.get(key)})
        if outcome.result is None:
            return None
        credit = Fields.of(reserve, "get_reserve").struct("data").i128("backstop_credit")
        return 10**37 - int(outcome.result[1]) - credit

    def _oracle_data(self) -> tuple[ScVal, ...]:
        assets = vec(*(vec(symbol("Stellar"), address(asset)) for asset in self.oracle_assets))
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


def configuration(decimals: int, enabled: bool = True, supply_cap: int = 2**127 - 1, **numbers: int) -> ScVal:
    """A reserve's configuration, whose rates rise quickly unless ``numbers`` say otherwise."""
    usual = {"c_factor": 9_000_000, "decimals": decimals, "index": 0, "l_factor": 9_000_000, "max_util": 9_900_000}
    usual |= {"r_base": 5_000, "r_one": 300_000, "r_two": 2_000_000, "r_three": 10_000_000, "reactivity": 1_000}
    fields = {name: u32(number) for name, number in (usual | numbers).items()}
    return struct_map({**fields, "enabled": _bool(enabled), "supply_cap": i128(supply_cap)})


def _storage(entries: Mapping[bytes, RawEntry], contract: str) -> dict[str, ScVal]:
    instance = instance_of(decode_contract_data(entries[instance_key(contract)].data))
    return {key[1]: value for key, value in instance.storage or () if key[0] == scval.SYMBOL}


def _stellar_assets(entries: Mapping[bytes, RawEntry], known: Iterable[str]) -> list[str]:
    """The Stellar asset contracts of a state but the known ones, in the order of their names."""
    found = []
    for key, entry in entries.items():
        if key[:4] == b"\0\0\0\x06" and key.endswith(b"\0\0\0\x14\0\0\0\x01"):
            data = decode_contract_data(entry.data)
            if instance_of(data).executable == scval.STELLAR_ASSET and data.contract not in known:
                found.append(data.contract)
    return sorted(found)


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


@dataclass
class Player:
    """Chooses transactions, by chance but so that most of them are possible; the seed decides everything."""

    world: World
    seed: int

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.queued: dict[str, int] = {}
        self._count = 0
        self._plan: list[Step] = self._low_targets() if self.seed % 2 else []

    def step(self) -> Step:
        """The next transaction. With every fourth seed, the market is ruined when it has seen some."""
        self._count += 1
        if self.seed % 4 == 3 and self._count == 25:
            self._plan = self._ruin()
        if self._plan:
            return self._plan.pop(0)
        seconds = self.pause()
        ledgers = max(1, min(seconds // 5, 20_000))
        kind = self.chance.choices(list(_CHOICES), list(_CHOICES.values()))[0]
        if self.world.config().u32("status") > 1 and self.chance.random() < 0.3:
            kind = "status"
        contract, function, arguments = getattr(self, f"_{kind}")()
        if function == "set_reserve":
            seconds, ledgers = max(seconds, 604_801), max(ledgers, 1000)
        fills = (FILL_LIQUIDATION, FILL_BAD_DEBT, FILL_INTEREST)
        if function == "submit" and any(f"'request_type'), (3, {fill}))" in str(arguments[-1]) for fill in fills):
            ledgers = self.chance.choice([1, 100, 200, 201, 300, 400, 450])
        return Step(seconds, ledgers, contract, function, arguments)

    def pause(self) -> int:
        """How many seconds pass: mostly few, sometimes months."""
        day = 86_400
        scale = self.chance.choices([0, 60, 7_200, 3 * day, 14 * day, 90 * day], [2, 40, 25, 18, 10, 5])[0]
        return self.chance.randint(0, scale)

    def _low_targets(self) -> list[Step]:
        """Two reserves get a low target, above which their rates rise quickly."""
        steps = []
        for asset in self.chance.sample(self.world.assets[:4], 2):
            low = configuration(7, util=self.chance.choice([500_000, 1_000_000, 3_000_000]))
            steps += [
                Step(60, 12, POOL, "queue_set_reserve", (address(asset), low)),
                Step(604_801, 1_000, POOL, "set_reserve", (address(asset),)),
            ]
        return steps

    def _ruin(self) -> list[Step]:
        """The backstop's depositor leaves, what a user owes becomes dear, and the debt ends as nobody's."""
        world, day = self.world, 86_400
        lender, borrower, filler = self.chance.sample(USERS, 3)
        kept, owed = self.chance.sample(world.assets[:4], 2)
        shares, depositor = max((world.backstop_shares(user), user) for user in (*USERS, BACKSTOP_DEPOSITOR))
        leave = (address(depositor), address(POOL), i128(shares))
        before = [10**7] * len(world.prices)
        world.prices = [5 * 10**7 if asset == owed else 10**7 for asset in world.oracle_assets]
        calls: list[tuple[int, int, Call]] = [
            (60, 1, (POOL, "set_status", (u32(0),))),
            (60, 1, (world.oracle, "set_price_stable", (vec(*map(i128, before)),))),
            (5, 1, submit(lender, (SUPPLY, owed, 10**13))),
            (5, 1, submit(borrower, (SUPPLY_COLLATERAL, kept, 10**13), (BORROW, owed, 6 * 10**12))),
            (60, 10, (world.backstop, "queue_withdrawal", leave)),
            (18 * day, 20_000, (world.backstop, "withdraw", leave)),
            (5, 1, (world.oracle, "set_price_stable", (vec(*map(i128, world.prices)),))),
            (5, 1, self._new_auction(LIQUIDATION, borrower, [owed], [kept], 100)),
            (2_100, 401, submit(filler, (FILL_LIQUIDATION, borrower, 100))),
            (5, 1, (POOL, "bad_debt", (address(borrower),))),
            (3_000, 500, (POOL, "bad_debt", (address(world.backstop),))),
        ]
        return [Step(seconds, ledgers, *call) for seconds, ledgers, call in calls]

    def _user(self) -> str:
        return self.chance.choice(USERS)

    def _asset(self) -> str:
        return self.chance.choice(self.world.assets)

    def _amount(self, asset: str) -> int:
        config, _ = self.world.reserve(asset)
        decimals = Fields.of(decode_contract_data(config.data).value, "ResConfig").u32("decimals")
        if self.seed % 2:  # with every other seed the reserves stay small next to what is borrowed
            one: int = 10**decimals
            return one + int(self._total(asset, "b_supply", "b_rate") * 0.3 * self.chance.random())
        amount: float = 10 ** self.chance.uniform(max(0, decimals - 4), min(decimals + 6, 22))
        return int(amount) + self.chance.randint(0, 9)

    def _total(self, asset: str, shares: str, rate: str) -> int:
        data = Fields.of(decode_contract_data(self.world.reserve(asset)[1].data).value, "ResData")
        return data.i128(shares) * data.i128(rate) // 10**12

    def _part(self, whole: int) -> int:
        """All of something, a part, or more than all."""
        if self.chance.random() < 0.25:
            return whole * 2 + 10
        return max(1, int(whole * self.chance.random() ** 2))

    def _holding(self, *names: str) -> tuple[str, int, str, int] | None:
        """Some user's position: user, reserve index, what it is, shares."""
        held = [
            (user, index, name, shares)
            for user in USERS
            for name, by_index in self.world.positions(user).items()
            if name in names
            for index, shares in by_index.items()
        ]
        return self.chance.choice(held) if held else None

    def _supply(self) -> Call:
        asset = self._asset()
        kind = self.chance.choice([SUPPLY, SUPPLY_COLLATERAL, SUPPLY_COLLATERAL])
        return submit(self._user(), (kind, asset, self._amount(asset)))

    def _withdraw(self) -> Call:
        held = self._holding("supply", "collateral")
        if held is None:
            return self._supply()
        user, index, name, shares = held
        kind = WITHDRAW if name == "supply" else WITHDRAW_COLLATERAL
        return submit(user, (kind, self.world.assets[index], self._part(shares)))

    def _borrow(self) -> Call:
        held = self._holding("collateral")
        if held is None:
            return self._supply()
        user, _, _, _ = held
        asset = self._asset()
        left = max(self._total(asset, "b_supply", "b_rate") - self._total(asset, "d_supply", "d_rate"), 1)
        worth = sum(
            shares * self._price_of(self.world.assets[index])
            for index, shares in self.world.positions(user)["collateral"].items()
        )
        most = min(left, max(worth // self._price_of(asset), 1))
        amount = max(
            1, int(most * self.chance.choice([0.5, 0.8, 0.95] if self.seed % 2 else [0.01, 0.1, 0.3, 0.5, 0.7, 0.9]))
        )
        if self.chance.random() < 0.3:  # a leveraged user
            return submit(user, (SUPPLY_COLLATERAL, asset, amount * 3), (BORROW, asset, amount))
        return submit(user, (BORROW, asset, amount))

    def _repay(self) -> Call:
        held = self._holding("liabilities")
        if held is None:
            return self._borrow()
        user, index, _, shares = held
        return submit(user, (REPAY, self.world.assets[index], self._part(shares)))

    def _donate(self) -> Call:
        asset = self._asset()
        return asset, "transfer", (address(self._user()), address(POOL), i128(self._amount(asset) // 100 + 1))

    def _gulp(self) -> Call:
        return POOL, "gulp", (address(self._asset()),)

    def _status(self) -> Call:
        status = self.world.config().u32("status")
        if status == 4 or (status > 1 and self.chance.random() < 0.6):
            return POOL, "set_status", (u32(self.chance.choice([0, 0, 3])),)
        if self.chance.random() < 0.5:
            return POOL, "update_status", ()
        return POOL, "set_status", (u32(self.chance.choice([0, 0, 2, 3, 4])),)

    def _price(self, index: int | None = None, by: float | None = None) -> Call:
        asset = self._asset() if index is None else self.world.assets[index]
        at = self.world.oracle_assets.index(asset)
        factor = by or self.chance.choice([0.3, 0.6, 0.85, 0.95, 1.05, 1.2, 1.6, 3])
        self.world.prices[at] = min(max(int(self.world.prices[at] * factor), 1), 10**13)
        return self.world.oracle, "set_price_stable", (vec(*map(i128, self.world.prices)),)

    def _auction(self) -> Call:
        assets = self.world.assets
        kind = self.chance.choices([LIQUIDATION, BAD_DEBT, INTEREST], [6, 2, 3])[0]
        if kind == INTEREST:
            lot = self.chance.sample(assets, self.chance.randint(1, min(3, len(assets))))
            return self._new_auction(kind, self.world.backstop, [self.world.lp], lot, 100)
        if kind == BAD_DEBT:
            bid = [assets[index] for index in self.world.positions(self.world.backstop)["liabilities"]]
            return self._new_auction(kind, self.world.backstop, bid or assets[:1], [self.world.lp], 100)
        owing = [user for user in USERS if self.world.positions(user)["liabilities"]]
        if not owing:
            return self._borrow()
        user = self.chance.choice(owing)
        positions = self.world.positions(user)
        if self.chance.random() < 0.5:  # so that somebody can be liquidated
            return self._price(self.chance.choice(list(positions["liabilities"])), 3)
        percent = self.chance.choice([10, 25, 50, 75, 90, 100, 100])
        bid = [assets[index] for index in positions["liabilities"]]
        lot = [assets[index] for index in positions["collateral"]]
        return self._new_auction(kind, user, bid, lot, percent)

    def _price_of(self, asset: str) -> int:
        return self.world.prices[self.world.oracle_assets.index(asset)]

    @staticmethod
    def _new_auction(kind: int, user: str, bid: list[str], lot: list[str], percent: int) -> Call:
        arguments = (u32(kind), address(user), vec(*map(address, bid)), vec(*map(address, lot)), u32(percent))
        return POOL, "new_auction", arguments

    def _fill(self) -> Call:
        under_way = [(FILL_LIQUIDATION, user) for user in USERS if self.world.has_auction(LIQUIDATION, user)]
        for kind, fill in ((BAD_DEBT, FILL_BAD_DEBT), (INTEREST, FILL_INTEREST)):
            if self.world.has_auction(kind, self.world.backstop):
                under_way.append((fill, self.world.backstop))
        if not under_way:
            return self._auction()
        kind, user = self.chance.choice(under_way)
        if kind == FILL_LIQUIDATION and self.chance.random() < 0.1:
            return submit(user, (DELETE_LIQUIDATION, user, 0))
        filler = self.chance.choice([other for other in USERS if other != user])
        wanted = [(kind, user, self.chance.choice([10, 50, 100, 100, 100]))]
        if kind != FILL_INTEREST:  # whoever fills takes debt on, and has to be good for it
            wanted.insert(0, (SUPPLY_COLLATERAL, self.world.assets[0], 10**15))
        return submit(filler, *wanted)

    def _bad_debt(self) -> Call:
        owing = [
            user
            for user in (*USERS, self.world.backstop)
            if self.world.positions(user)["liabilities"] and not self.world.positions(user)["collateral"]
        ]
        return POOL, "bad_debt", (address(self.chance.choice(owing or [*USERS])),)

    def _pool(self) -> Call:
        rate = self.chance.choice([0, 1, 1_000_000, 2_000_000, 9_999_999, self.chance.randint(0, 9_999_999)])
        arguments = u32(rate), u32(self.chance.choice([4, 8, 60])), i128(self.chance.choice([0, 10**7]))
        return POOL, "update_pool", arguments

    def _reserve(self) -> Call:
        if self.queued and self.chance.random() < 0.8:
            asset = self.queued.popitem()[0]
            return POOL, "set_reserve", (address(asset),)
        asset = self.chance.choice([*self.world.assets, *self.world.spare])
        self.queued[asset] = 1
        pick, between = self.chance.choice, self.chance.randint
        if asset in self.world.assets:
            config = Fields.of(decode_contract_data(self.world.reserve(asset)[0].data).value, "ResConfig")
            decimals = config.u32("decimals")
        else:
            decimals = pick([0, 6, 7, 9, 18])
        util = pick([0, 1, 5_000_000, 9_000_000, between(0, 9_000_000)])
        # Together with r_base the first two have to fit into 32 bits: test_blend_numbers.py has what happens otherwise.
        rates = sorted(pick([0, 1, between(0, 10**6), between(0, 10**8), 2**31 - 10**7]) for _ in range(3))
        changed = configuration(
            decimals,
            c_factor=pick([0, 5_000_000, 9_000_000, 10**7]),
            enabled=self.chance.random() < 0.9,
            l_factor=pick([5_000_000, 9_000_000, 10**7]),
            max_util=pick([10**7, max(util + 1, 9_500_000)]),
            r_base=pick([1_000, 5_000, 9_999_999]),
            r_one=rates[0],
            r_two=rates[1],
            r_three=pick([rates[2], rates[2], 2**32 - 1]),
            reactivity=pick([0, 1, 50, 1_000]),
            supply_cap=pick([2**127 - 1, 10**20]),
            util=util,
        )
        return POOL, "queue_set_reserve", (address(asset), changed)


_CHOICES = {"supply": 20, "withdraw": 13, "borrow": 22, "repay": 13, "donate": 2, "gulp": 3, "status": 5}
_CHOICES |= {"price": 6, "auction": 7, "fill": 8, "bad_debt": 2, "pool": 2, "reserve": 5}
