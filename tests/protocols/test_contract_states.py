"""Every field that K2's and XOXNO's own code can judge, at the states that it wrote (`contract_states`).

Getters are compared exactly. An operation that was tried says whether its gate is open, and where the pool and not the
account stopped it, which amount is the most. Codes are those of the contracts' own lists of errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from exporter.ledger.codec import scval
from exporter.ledger.codec.fields import Fields
from exporter.ledger.codec.scval_encode import address, encode_scval
from exporter.ledger.contract_storage import NOT_FROM_STORAGE
from exporter.ledger.source import ContractCall
from exporter.protocols import PROTOCOLS, storage_answers
from exporter.protocols.k2 import math as k2_math
from exporter.protocols.k2.layout import Reserve
from exporter.protocols.numbers import SpokeTerms
from exporter.protocols.protocol import NoGetter
from exporter.protocols.xoxno.layout import hub_asset
from exporter.tables import GATES, VALID_PRICE, Gate, PoolKey
from tests.protocols.contract_states import SUCCESS, Answered, State, states

EVERY = pytest.mark.parametrize(
    "every", [pytest.param(20, id="each twentieth"), pytest.param(1, id="all", marks=pytest.mark.slow)]
)

Probe = dict[str, Any]
Row = dict[str, Any]

OPERATIONS: dict[str, Gate] = {
    "supply": "can_supply",
    "withdraw": "can_withdraw",
    "borrow": "can_borrow",
    "repay": "can_repay",
}


FIELDS = {"k2": ("reserves", 13), "peridot": ("stored", 4), "xoxno": ("stored", 7)}
"""The part of the answers with the getters of the stored state, and a pool's fields in these, keyed by protocol."""


@EVERY
@pytest.mark.parametrize("protocol", FIELDS)
def test_checked_values_agree_with_every_stored_view(real_data: Path, protocol: str, every: int) -> None:
    """All pools are read, and what `exporter check --on-chain` compares agrees with every stored answer of a getter."""
    getters, (part, fields) = PROTOCOLS[protocol].getters, FIELDS[protocol]
    assert getters is not None
    for state in states(real_data, protocol)[::every]:
        assert ([], []) == (state.tables.unread, state.reading.absent), state
        answers = {(each.contract, each.function, each.arguments): each.value for each in state.calls(part)}
        compared = 0
        for asked in getters.calls(state.reading):
            assert not isinstance(asked, NoGetter)
            value = answers.get((asked.call.contract, asked.call.function, asked.call.arguments))
            if value is not None:
                computed = state.computed(asked.pool)
                for name, (ours, contract) in getters.fields(asked, value, computed, state.snapshot.close_time).items():
                    assert ours == contract, (state, asked, name)
                    compared += 1
        assert fields * len(state.rows) == compared, state


def numbers(value: Any) -> int:
    """The payload of a number."""
    assert value is not None
    assert value[0] in (scval.I128, scval.U128, scval.U32, scval.U64), value
    return int(value[1])


def reserves(state: State) -> Iterator[tuple[dict[str, Any], Row, dict[tuple[str, str], Answered]]]:
    """K2's reserves: what the answers say about each, its row, and its getters by contract and function."""
    for reserve in state.answers["reserves"]:
        getters = {(each["c"], each["f"]): each for each in reserve["views"]}
        wanted = [each for each in state.calls("reserves") if (each.contract, each.function) in getters]
        mine = {
            (each.contract, each.function): each
            for each in wanted
            if each.arguments[:1] in ((), (address(reserve["asset"]),))
        }
        yield reserve, state.rows[reserve["asset"]], mine


@EVERY
def test_k2s_published_fields_are_what_its_views_say(real_data: Path, every: int) -> None:
    """Totals, indexes, rates, limits, cash and the router's own are what the contracts' getters say."""
    for state in states(real_data, "k2")[::every]:
        router = state.answers["router"]
        listed = {each.function: each for each in state.calls("calls") if each.contract == router}
        reserves_list, is_paused = listed["get_reserves_list"].value, listed["is_paused"].value
        assert reserves_list is not None
        assert is_paused is not None
        (market,) = state.reading.markets
        assert tuple(payload for _, payload in reserves_list[1]) == market.members
        assert ("paused" if is_paused[1] else "active") == market.status
        for reserve, row, getters in reserves(state):
            units = 10 ** int(reserve["dec"])
            ceiling = numbers(getters[router, "get_reserve_debt_ceiling"].value)
            answered = Fields.of(getters[router, "get_reserve_data"].value or (scval.VOID, None), "get_reserve_data")
            high = int((answered.struct("configuration").get("data_high") or (0, 0))[1])
            borrow_cap, supply_cap = high & 2**64 - 1, high >> 64
            caps = [cap * units for cap in (borrow_cap, ceiling) if cap]
            expected = {
                "total_supplied": numbers(getters[reserve["a"], "total_supply"].value),
                "total_borrowed": numbers(getters[reserve["d"], "total_supply"].value),
                "last_accrual_time": answered.u64("last_update_timestamp"),
                "supply_cap": supply_cap * units or None,
                "borrow_cap": min(caps, default=None),
                "min_first_supply": 1_000,
            }
            assert expected == {name: row[name] for name in expected}, (state, reserve["asset"])
            assert int(reserve["cash"]) == state.pools[reserve["asset"]].state.cash, (state, reserve["asset"])


@EVERY
@pytest.mark.parametrize("protocol", ["k2", "peridot", "xoxno"])
def test_answers_from_storage(real_data: Path, protocol: str, every: int) -> None:
    """The rules of known contracts give the answers of the contracts for tokens and K2's prices."""
    answered = 0
    for state in states(real_data, protocol)[::every]:
        answers = storage_answers(state.entry, state.snapshot.ledger, state.snapshot.close_time)
        for each in state.calls("calls"):
            answer = answers.answer(ContractCall(each.contract, each.function, each.arguments))
            if answer.error is None or not answer.error.startswith(NOT_FROM_STORAGE):
                assert each.value is not None, (state, each)
                assert encode_scval(each.value) == answer.result, (state, each)
                answered += 1
    assert answered > 0


@EVERY
def test_k2_rate_model(real_data: Path, every: int) -> None:
    """The rates that a rate contract gives for some cash and debt are those of the math."""
    for state in states(real_data, "k2")[::every]:
        for reserve, row, getters in reserves(state):
            (call,) = (each for (_, function), each in getters.items() if function == "calculate_interest_rates")
            assert call.value is not None
            available, debt = numbers(call.arguments[1]), numbers(call.arguments[2])
            factor = numbers(call.arguments[3])
            total = available + debt
            used = (debt * k2_math.RAY + total // 2) // total if total else 0
            stored: Reserve = state.pools[row["pool"]].state
            configuration = replace(stored.configuration, reserve_factor=factor)
            supply, borrow = k2_math.rates(replace(stored, configuration=configuration), used)
            rates = Fields.of(call.value, "calculate_interest_rates")
            expected = rates.u128("variable_borrow_rate"), rates.u128("liquidity_rate")
            assert expected == (borrow, supply), (state, reserve["asset"])


@EVERY
def test_a_k2_price_is_the_oracles_unless_refused(real_data: Path, every: int) -> None:
    """A price is the oracle's for the asset alone; there is none if the oracle or the router refuses it."""
    for state in states(real_data, "k2")[::every]:
        asked = {
            each.arguments[0][1][0][1][1][1]: each
            for each in state.calls("calls")
            if each.function == "get_asset_prices_vec" and len(each.arguments[0][1]) == 1
        }
        for asset, row in state.rows.items():
            priced = row["price_reason"] == VALID_PRICE
            answer = asked[asset]
            assert answer.value is not None or not priced, (state, asset)
            if priced and answer.value is not None:
                data = Fields.of(answer.value[1][0], "price")
                expected = data.u128("price"), 14, data.u64("timestamp")
                assert expected == tuple(row[f] for f in ("oracle_price", "oracle_decimals", "price_timestamp"))
        for probe in state.answers["probes"]:
            row = state.rows[state.answers["reserves"][probe["i"]]["asset"]]
            if probe["op"] == "borrow" and probe["one"] in (*K2_PRICE, SUCCESS):
                assert (probe["one"] == SUCCESS) == (row["price_reason"] == VALID_PRICE), (state, probe)


K2_STATUS = {2: "inactive", 3: "frozen", 4: "paused", 5: "borrowing_disabled"}
K2_PRICE = (10, 17, 18)
K2_POOL = (42, 19, 20, 21)
"""What the reserve has or its caps leave."""
K2_ACCOUNT = (7, 8)
"""What the account has, which bounds nothing of the reserve."""
K2_HARNESS = (37,)
"""The account of the harness has more collateral than the contract can compute with; no loan of it goes through."""
K2_TOO_SMALL = 1


@EVERY
def test_k2_operations_succeed_up_to_the_published_amount(real_data: Path, every: int) -> None:
    """An operation goes through if its gate is open, up to the amount, and not above if the reserve bounds it."""
    for state in states(real_data, "k2")[::every]:
        for probe in state.answers["probes"]:
            row = state.rows[state.answers["reserves"][probe["i"]]["asset"]]
            if probe["op"] == "repay1":
                assert row["can_repay"] == (probe["one"] not in K2_STATUS), (state, probe)
            else:
                k2_operation(probe, row, f"{state} {probe}")


def k2_operation(probe: Probe, row: Row, what: str) -> None:
    """One operation that was tried, with its largest amount."""
    gate = OPERATIONS[probe["op"]]
    can, amount = row[gate], row[GATES[gate]]
    one, code, most = probe["one"], probe["code"], int(probe["max"])
    priced = row["price_reason"] == VALID_PRICE
    if one in K2_STATUS:
        assert (False, 0) == (can, amount), what
        status = "active" if row["market_status"] == "paused" else row["pool_status"]
        assert K2_STATUS[one] in (status, row["market_status"]), what
        return
    if not priced:
        # Only a first supply needs a price. The exporter says that, and does not say which of the two it is.
        expected = None if probe["op"] == "supply" else False
        assert expected is can, what
        assert row["price_reason"] in row["can_reason"], what
        assert amount in (None, 0), what
        assert most == 0 or probe["op"] == "supply", what
        return
    assert can is True, what
    assert one in (SUCCESS, *K2_POOL, *K2_ACCOUNT, *K2_HARNESS) or (one, probe["op"]) == (K2_TOO_SMALL, "supply"), what
    if most == int(probe["hi"]):
        assert amount is None or amount >= most, what
    elif code in K2_POOL:
        assert amount == most, what
    else:
        assert code in (*K2_ACCOUNT, *K2_HARNESS), what
        assert amount >= most, what


@EVERY
def test_xoxnos_published_fields_are_what_its_views_say(real_data: Path, every: int) -> None:
    """Stored and accrued numbers, indexes, and what each spoke allows are what the contracts' getters say."""
    for state in states(real_data, "xoxno")[::every]:
        answers = state.answers
        pools = [f"1-{token}" for token in answers["assets"]]
        assert answers["decs"] == [state.rows[pool]["decimals"] for pool in pools], state
        (bulk,) = (each for each in state.calls("bulk") if each.function == "get_bulk_indexes")
        assert bulk.value is not None
        asked = [hub_asset_of(key) for key in bulk.arguments[0][1]]
        for pool, item in zip(asked, bulk.value[1], strict=True):
            fields = Fields.of(item, "get_bulk_indexes")
            expected = {name: fields.i128(name) for name in ("borrow_index", "supply_index")}
            assert expected == {name: state.rows[pool][name] for name in expected}, (state, pool)
        if answers["update"] is None:
            for pool, calls in zip(pools, answers["accrued"], strict=True):
                accrued_agrees(state, pool, calls)
        for each in state.calls("caps"):
            if each.function != "get_spoke_asset" or each.value is None:
                continue
            fields = Fields.of(each.value, "get_spoke_asset")
            spoke = spokes_of(state, hub_asset_of(each.arguments[1]))[numbers(each.arguments[0])]
            limits = {
                "supply_cap": fields.i128("supply_cap"),
                "borrow_cap": fields.i128("borrow_cap"),
                "collateral_factor_bps": fields.u32("loan_to_value"),
                "liquidation_threshold_bps": fields.u32("liquidation_threshold"),
                "liquidation_bonus_bps": fields.u32("liquidation_bonus"),
                "frozen": fields.boolean("frozen"),
                "paused": fields.boolean("paused"),
                "can_be_collateral": fields.boolean("is_collateralizable"),
                "can_be_borrowed": fields.boolean("is_borrowable"),
                "can_be_seized": not fields.boolean("no_seize"),
            }
            assert limits == {name: getattr(spoke, name) for name in limits}, (state, each.arguments)


def hub_asset_of(key: Any) -> str:
    """The pool id of a hub asset."""
    fields = Fields.of(key, "key")
    return hub_asset(f"{fields.u32('hub_id')}-{fields.address('asset')}").pool


def accrued_agrees(state: State, pool: str, calls: list[dict[str, Any]]) -> None:
    """The getters after everything has been brought to now are the published accrued numbers."""
    row = state.rows[pool]
    named = {
        "get_utilisation": "accrued_utilization",
        "get_borrow_rate": "accrued_borrow_apr",
        "get_deposit_rate": "accrued_supply_apr",
        "get_supplied_amount": "total_supplied",
        "get_borrowed_amount": "total_borrowed",
    }
    getters = {each.function: each for each in state.calls("accrued") if hub_asset_of(each.arguments[0]) == pool}
    assert {each["f"] for each in calls} == getters.keys()
    for function, column in named.items():
        assert numbers(getters[function].value) == row[column], (state, pool, column)
    after = Fields.of(getters["get_sync_data"].value or (scval.VOID, None), "get_sync_data").struct("state")
    expected = {name: after.i128(name) for name in ("borrow_index", "supply_index")}
    assert expected == {name: row[name] for name in expected}, (state, pool)


def spokes_of(state: State, pool: str) -> dict[int, SpokeTerms]:
    """What is published about a pool's spokes, by their number."""
    return {spoke.spoke: spoke for spoke in state.tables.spokes[PoolKey(state.answers["ctrl"], pool)]}


@EVERY
def test_xoxno_prices_are_what_the_controller_sees(real_data: Path, every: int) -> None:
    """Prices and their validity are what the controller sees."""
    for state in states(real_data, "xoxno")[::every]:
        (seen,) = (each for each in state.calls("bulk") if each.function == "get_market_indexes_detailed")
        assert seen.value is not None
        for item in seen.value[1]:
            fields = Fields.of(item, "get_market_indexes_detailed")
            row = state.rows[f"1-{fields.address('asset')}"]
            assert fields.boolean("valid") == (row["price_reason"] == VALID_PRICE), (state, row["price_reason"])
            if fields.boolean("valid"):
                expected = fields.i128("price_wad"), 18, fields.u64("price_timestamp")
                assert expected == tuple(row[name] for name in ("oracle_price", "oracle_decimals", "price_timestamp"))


XOXNO_PAUSED = 1000
XOXNO_CLOSED = (301, 307, 315, 316, 123)
XOXNO_PRICE = range(205, 236)
XOXNO_POOL = (112, 127, 311, 312)
"""Liquidity, the highest utilization, and the caps of the spoke."""


@EVERY
def test_xoxno_operations_succeed_up_to_the_spokes_amount(real_data: Path, every: int) -> None:
    """An operation goes through if its spoke is open, up to the spoke's amount, and not above."""
    for state in states(real_data, "xoxno")[::every]:
        for probe in state.answers["probes"]:
            pool = f"1-{state.answers['assets'][probe['i']]}"
            row, spoke = state.rows[pool], spokes_of(state, pool)[probe["spoke"]]
            what = f"{state} {probe}"
            if probe["op"] == "withdraw":
                xoxno_withdrawal(probe, row, what)
            elif probe["op"] == "repay":
                assert (True, True) == (row["can_repay"], spoke.can_repay), what
                assert SUCCESS == probe["one"], what
            else:
                xoxno_operation(probe, row, spoke, what)


def xoxno_operation(probe: Probe, row: Row, spoke: SpokeTerms, what: str) -> None:
    """A supply or a loan in one spoke; the pool's own amount is that of all spokes together."""
    gate = OPERATIONS[probe["op"]]
    can, amount = getattr(spoke, gate), getattr(spoke, GATES[gate])
    one, code, most = probe["one"], probe["code"], int(probe["max"])
    if one == XOXNO_PAUSED:
        assert (False, 0) == (row[gate], row[GATES[gate]]), what
    if one == XOXNO_PAUSED or one in XOXNO_CLOSED or one in XOXNO_PRICE:
        assert (False, 0) == (can, amount), what
    if row["price_reason"] != VALID_PRICE and probe["op"] == "borrow":
        assert (False, False, 0) == (row[gate], can, row[GATES[gate]]), what
        assert one != SUCCESS, what
        if one != XOXNO_PAUSED:
            assert row["price_reason"] in row["can_reason"], what
        return
    if one == XOXNO_PAUSED or one in XOXNO_CLOSED:
        return
    assert can, what
    assert row[gate], what
    assert row[GATES[gate]] >= most, what
    if most == int(probe["hi"]):
        assert amount >= most, what
    elif code in XOXNO_POOL:
        # The steps of the harness's search did not suffice for amounts above 2^64: there it ended a little below.
        assert amount == most or 2**64 < most < amount < most + (most >> 48), what
    else:
        assert amount >= most, what


def xoxno_withdrawal(probe: Probe, row: Row, what: str) -> None:
    """A withdrawal of ``k``, the less of what the account has and the cash, and of one unit more (``over``)."""
    amount, tried = row["available_to_withdraw"], int(probe["k"])
    assert row["can_withdraw"], what
    assert SUCCESS == probe["one"], what
    if probe["at"] != SUCCESS:
        assert amount < tried, what
    elif probe["over"] in XOXNO_POOL:
        assert amount == tried, what
    else:
        assert amount >= tried, what
