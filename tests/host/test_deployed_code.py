"""Slender's pool and Reflector's oracle on the host: what their deployed code answers from entries is what we compute.

The wasm files are not in the repository; they are in the folder of real data (scripts/suite real --fetch DIR).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from exporter import exact
from exporter.errors import ExactError
from exporter.ledger.codec.entries import code_key
from exporter.ledger.codec.scval import decode_scval
from exporter.ledger.codec.scval_encode import address, encode_opaque, encode_scval, i128, symbol, u32, u64, vec
from exporter.ledger.source import ContractCall, RawEntry
from exporter.past.lake.replay import ReplayedState
from exporter.protocols import storage_answers
from exporter.protocols.slender import math
from exporter.protocols.slender.layout import WASM_HASH, cash_key
from tests.host.blend_world import NEVER
from tests.host.machine import LedgerInfo, Machine
from tests.ledger.storage_rules.test_reflector import REAL_ORACLE, RELEASE_4, written_state
from tests.protocols.places import RESERVE, SLENDER, XLM, field
from tests.protocols.world import World

NOW = World("slender").time
RATES = ("lender_ar", "lender_ir", "borrower_ar", "borrower_ir")

Reserve = dict[str, int]
"""A reserve's numbers: rates by their field names, ``last_update``, ``s_supply``, ``debt_supply`` and ``cash``."""


def put_code(machine: Machine, path: Path, wasm_hash: bytes) -> None:
    """Give the host a contract's code; skips where the file is not there."""
    if not path.is_file():
        pytest.skip(f"the code is not at {path}; scripts/suite real --fetch DIR brings it")
    code = path.read_bytes()
    assert wasm_hash == sha256(code).digest()
    data = b"\0\0\0\x07\0\0\0\0" + wasm_hash + encode_opaque(code)
    machine.put({code_key(wasm_hash): RawEntry(data, 1, NEVER)})


@pytest.fixture
def machine(program: Path) -> Iterator[Machine]:
    """A host without entries."""
    with Machine(program) as machine:
        yield machine


class Pool:
    """The recorded pool of Slender, with other numbers in one reserve, on a host with its deployed code."""

    def __init__(self, machine: Machine, code: Path) -> None:
        self.machine, self.world = machine, World("slender")
        put_code(machine, code, WASM_HASH)
        machine.at(LedgerInfo(self.world.chain.latest, NOW, "0" * 64, machine.protocol))

    def answer(self, function: str, reserve: Reserve, window: int = 20) -> int | None:
        """A coefficient; None if the code fails. Without ``cash``, that entry is missing."""
        world = self.world
        _, *tokens = field(SLENDER, RESERVE, "reserve_type")
        cash = cash_key(world.market, XLM, tokens[0][1])
        for name in RATES:
            if name in reserve:
                world.put(SLENDER, i128(reserve[name]), RESERVE, name)
        world.put(SLENDER, u64(reserve["last_update"]), RESERVE, "last_update_timestamp")
        world.put(SLENDER, u64(window), "PoolConfig", "timestamp_window")
        for name, owner in zip(("s_supply", "debt_supply"), tokens, strict=True):
            world.put(SLENDER, i128(reserve[name]), vec(symbol("TokenSupply"), owner))
        world.put(cash, i128(reserve.get("cash", 0)))
        instance: Any = world.value(SLENDER)
        ordered = tuple(sorted(instance[1].storage, key=lambda pair: (pair[0][1][0][1], encode_scval(pair[0]))))
        world.put(SLENDER, (instance[0], instance[1]._replace(storage=ordered)))  # the host takes no other order
        found = {key: world.entry(key).raw for key in (SLENDER, cash)}
        self.machine.put({**found, cash: found[cash] if "cash" in reserve else None})
        result = self.machine.call(world.market, function, address(XLM)).result
        return None if result is None else int(result[1])


@pytest.fixture
def pool(machine: Machine, real_data: Path) -> Pool:
    """The recorded pool with mainnet's code."""
    return Pool(machine, real_data / "slender-pool.wasm")


def test_cash_is_the_persistent_entry(pool: Pool) -> None:
    """Cash is the persistent entry: with it 1000 shares are worth 10,400,004,180, without it the debt alone."""
    reserve = {
        "last_update": NOW - 1_000,
        "lender_ar": 1_100_000_000,
        "lender_ir": 30_000_000,
        "s_supply": 1000 * 10**7,
        "debt_supply": 400 * 10**7,
    }

    assert [1_040_000_418, 440_000_418] == [
        pool.answer("collat_coeff", each) for each in (reserve | {"cash": 600 * 10**7}, reserve)
    ]


def test_the_math_agrees_with_deployed_code_at_any_size(pool: Pool) -> None:
    """The math gives what the deployed code gives for states of every size, and fails if the code fails."""
    random = Random(1)
    differ, compared = [], Counter[bool]()
    for number in range(160):
        huge = number % 2 == 0
        reserve, window = simulated_state(random, huge)
        for function, ours in (("collat_coeff", collateral_coefficient), ("debt_coeff", debt_coefficient)):
            theirs = pool.answer(function, reserve, window)
            try:
                mine: object = ours(reserve, window)
            except ExactError:
                mine = None
            compared[theirs is None] += 1
            if mine != theirs:
                differ.append((function, reserve, window, mine, theirs))

    assert [] == differ
    assert min(compared[False], compared[True]) > 20


def simulated_state(random: Random, huge: bool) -> tuple[Reserve, int]:
    """A reserve as the chain may have one, or of numbers of any size."""
    most = {"rate": 5 * 10**9, "amount": 10**18, "since": 10**8, "window": 10**4}

    def any_size(name: str) -> int:
        return random.getrandbits(random.randint(1, 126)) if huge else random.randint(0, most[name])

    since = random.choice((0, random.randint(-100, most["since"])))
    reserve = {"last_update": NOW - since} | {name: any_size("rate") for name in RATES}
    reserve["s_supply"] = random.choice((0, any_size("amount"), any_size("amount")))
    reserve |= {name: any_size("amount") for name in ("debt_supply", "cash")}
    return reserve, random.choice((0, 1, 20, random.randint(0, most["window"])))


def collateral_coefficient(reserve: Reserve, window: int) -> object:
    """The exporter's math, in the contract's order: without shares nothing is computed."""
    if not reserve["s_supply"]:
        return math.ONE
    lent = math.times(grown(reserve, window, reserve["lender_ar"], reserve["lender_ir"]), reserve["debt_supply"])
    return math.collateral_coefficient(exact.add(reserve["cash"], lent), reserve["s_supply"])


def debt_coefficient(reserve: Reserve, window: int) -> object:
    """The numbers by the exporter's math."""
    return grown(reserve, window, reserve["borrower_ar"], reserve["borrower_ir"])


def grown(reserve: Reserve, window: int, accrued: int, rate: int) -> int:
    """An accrued rate at the time of the call."""
    return math.accrued_rate(accrued, rate, math.elapsed_seconds(reserve["last_update"], window, NOW))


@pytest.fixture
def real_state(real_data: Path) -> ReplayedState:
    """What mainnet's ledger 53,312,000 wrote."""
    return written_state(real_data)


def test_the_deployed_oracle_agrees_with_the_storage_rule(
    machine: Machine, real_state: ReplayedState, real_data: Path
) -> None:
    """The code that mainnet's oracle runs gives for its entries, at any time, what the rule gives."""
    put_code(machine, real_data / "reflector-oracle.wasm", RELEASE_4)
    found = {key: real_state.entry(key) for key in list(real_state.stored()) if key[:4] == b"\0\0\0\6"}
    machine.put({key: replace(entry, live_until=NEVER) for key, entry in found.items() if entry is not None})
    ledger, last = 53_312_000, 1_725_274_200
    listed = storage_answers(real_state.entry, ledger, last).answer(ContractCall(REAL_ORACLE, "assets")).result
    compared = 0
    for now in (last - 1, last, last + 359, last + 360, last + 361, last + 599, last + 600):
        machine.at(LedgerInfo(ledger, now, "0" * 64, machine.protocol))
        answers = storage_answers(real_state.entry, ledger, now)
        for asset in decode_scval(listed or b"")[1]:
            for function, *arguments in (
                ("lastprice", asset),
                ("price", asset, u64(now)),
                ("price", asset, u64(last)),
                ("prices", asset, u32(3)),
            ):
                ours = answers.answer(ContractCall(REAL_ORACLE, function, tuple(arguments))).result
                assert machine.call(REAL_ORACLE, function, *arguments).raw_result == ours is not None
                compared += 1

    assert 280 == compared
