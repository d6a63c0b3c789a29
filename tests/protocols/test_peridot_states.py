"""Fields that Peridot's own code can judge, at the states that it wrote (`contract_states`), none of which has debt."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import ScVal, decode_scval
from exporter.tables import VALID_PRICE
from tests.examples import spread, strides
from tests.protocols.contract_states import SUCCESS, State, states

PAUSES = {
    "is_deposit_paused": "can_supply",
    "is_redeem_paused": "can_withdraw",
    "is_liquidation_paused": "can_liquidate",
}


def vaults(state: State, part: str) -> Iterator[tuple[dict[str, Any], dict[str, ScVal]]]:
    """Each vault's row, with the values of its getters before (``stored``) or after (``accrued``) it was brought up."""
    for vault, answered in zip(state.answers["vs"], state.answers[part], strict=True):
        yield state.rows[vault], {each["f"]: decode_scval(bytes.fromhex(each["r"])) for each in answered if "r" in each}


def probes(state: State, operation: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """What was tried with each vault."""
    for probe in state.answers["probes"]:
        if probe["op"] == operation:
            yield state.rows[state.answers["vs"][probe["i"]]], probe


@pytest.mark.slow
def test_published_fields_are_what_the_vaults_getters_say(real_data: Path) -> None:
    """All vaults are read, and what is published about them is what their getters say, stored and accrued."""
    for state in states(real_data, "peridot"):
        assert set(state.answers["vs"]) == set(state.rows)
        for row, getters in vaults(state, "accrued"):
            expected = {
                "total_supplied": getters["get_total_underlying"][1],
                "total_borrowed": getters["get_total_borrowed"][1],
                "supply_index": getters["get_exchange_rate"][1] * 10**12,
                "backstop_credit": getters["get_total_reserves"][1] + getters["get_total_admin_fees"][1],
            }
            assert expected == {name: row[name] for name in expected}, state
            assert row["available_to_withdraw"] in (0, getters["get_available_liquidity"][1])
            assert getters["get_total_ptokens"][1] == state.pools[row["pool"]].state.receipt_supply


@strides(9)
def test_gates_and_risk(real_data: Path, stride: int) -> None:
    """Pauses close gates, and the collateral factor is the controller's."""
    for state in spread(states(real_data, "peridot"), stride):
        for row, getters in vaults(state, "stored"):
            for getter, gate in PAUSES.items():
                assert row[gate] in (not getters[getter][1], None), (state, gate)
            if getters["is_borrow_paused"][1]:
                assert row["can_borrow"] is False
            assert getters["get_market_cf"][1] // 100 == row["collateral_factor_bps"]


@strides(9)
def test_a_price_is_the_controllers_never_a_cached_one(real_data: Path, stride: int) -> None:
    """A published price is the controller's; if it has none, there is none, even if it has a cached one."""
    priced, chosen = 0, spread(states(real_data, "peridot"), stride)
    for state in chosen:
        for row, getters in vaults(state, "stored"):
            answer = getters["get_price_usd"]
            if row["price_reason"] != VALID_PRICE:
                continue
            assert answer[0] == scval.VEC, (state, row["price_reason"])
            price, scale = (item[1] for item in answer[1])
            assert row["oracle_price"] * scale == price * 10 ** row["oracle_decimals"], state
            priced += 1

    assert priced > len(chosen)


@strides(9)
def test_allowed_suppliers_may_deposit_up_to_the_cap(real_data: Path, stride: int) -> None:
    """Who may supply may, up to the room under the cap; the search for the most stopped a little below it."""
    capped = 0
    for state in spread(states(real_data, "peridot"), stride):
        for row, probe in probes(state, "deposit"):
            assert (probe["one"] == SUCCESS) == (row["can_supply"] and row["available_to_supply"] != 0), (state, probe)
            room, most, tried = row["available_to_supply"], int(probe["max"]), int(probe["hi"])
            if room is None:
                assert most == tried, (state, probe)
            elif most < tried:
                assert most <= room <= most + 64, (state, probe, room)
                capped += 1

    assert capped


@strides(9)
def test_all_shares_are_paid_out_within_the_published_amount(real_data: Path, stride: int) -> None:
    """Whoever has shares gets all of them paid out, which is no more than the published amount."""
    paid = 0
    for state in spread(states(real_data, "peridot"), stride):
        for row, probe in probes(state, "exit"):
            if probe["pb"] == "0":
                continue
            assert (probe.get("code") == SUCCESS) == row["can_withdraw"], (state, probe)
            worth = int(probe["maxp"]) * row["supply_index"] // 10**18
            assert worth <= row["available_to_withdraw"]
            paid += 1

    assert paid
