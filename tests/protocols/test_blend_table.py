"""Blend's reserves in the columns that all protocols share, and Blend's rule for prices."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.errors import ExactDivisionError, ExactOverflowError
from exporter.ledger.oracles import Quote
from exporter.protocols.blend import MAX_PRICE_AGE_SECONDS, Blend
from exporter.protocols.blend.reader import COLUMNS
from exporter.protocols.blend.table import project_pools
from exporter.tables import PROTOCOL_COLUMNS
from exporter.wording import lasting
from tests import judge

# facts/blend.md 7: T15 (v1) and T17 (v2).
T15: dict[str, Any] = {
    "market": "M1", "pool": "P1", "token_address": "P1", "oracle": "O", "generation": "v1", "market_name": "Fixed",
    "market_status": "active", "wasm_hash": "ab", "decimals": 7, "enabled": True, "bstop_rate": 2000000,
    "util": 7500000, "r_base": 100000, "r_one": 500000, "r_two": 5000000, "r_three": 15000000, "reactivity": 20,
    "b_rate": 1123456789, "b_supply": 990000000, "d_rate": 1345678123, "d_supply": 650000000, "ir_mod": 10**9,
    "backstop_credit": 0, "last_time": 0,
}  # fmt: skip
T17: dict[str, Any] = T15 | {
    "pool": "P2", "generation": "v2", "b_rate": 1123456789000, "d_rate": 1345678123000, "ir_mod": 10**7,
}  # fmt: skip
T = 617280


def columns_of(*reserves: dict[str, Any]) -> dict[str, list[object]]:
    """What the reader collects of reserves."""
    return {name: [reserve[name] for reserve in reserves] for name in COLUMNS}


def test_schema() -> None:
    """The frame has exactly the columns and types that are a protocol's to give, in their order."""
    frame = project_pools(columns_of(T15, T17), T)

    assert list(PROTOCOL_COLUMNS.items()) == list(frame.schema.items())


def test_schema_without_reserves() -> None:
    """Without reserves the frame is empty, and its schema the same."""
    frame = project_pools(columns_of(), T)

    assert list(PROTOCOL_COLUMNS.items()) == list(frame.schema.items())
    assert 0 == frame.height


def test_vectors() -> None:
    """Rows of both generations are those of facts/blend.md 7, T15 and T17, with the decimals of each generation."""
    first, second = project_pools(columns_of(T15, T17), T).iter_rows(named=True)

    assert (1125547124, 1349657800, 9) == (first["supply_index"], first["borrow_index"], first["index_decimals"])
    assert (1044981563, 9, 517358) == (
        first["rate_modifier"],
        first["rate_modifier_decimals"],
        first["backstop_credit"],
    )
    assert (1125547124242, 1349657798173, 12) == (
        second["supply_index"],
        second["borrow_index"],
        second["index_decimals"],
    )
    assert (10449815, 7, 517357) == (
        second["rate_modifier"],
        second["rate_modifier_decimals"],
        second["backstop_credit"],
    )
    for row in (first, second):
        assert (7864353, 7) == (row["stored_utilization"], row["utilization_decimals"])
        assert (1510883, 950569, 7) == (row["stored_borrow_apr"], row["stored_supply_apr"], row["apr_decimals"])
        assert (1630, 996) == (row["borrow_apy_bps"], row["supply_apy_bps"])
        assert 0 == row["total_collateral"]


def test_text_and_order() -> None:
    """Rows keep the order they were given in, and carry what the reader knows of the market."""
    frame = project_pools(columns_of(T17, T15), T)

    assert ["P2", "P1"] == frame["pool"].to_list()
    assert ["v2", "v1"] == frame["version"].to_list()
    text = ("market", "token_address", "protocol", "market_name", "market_status", "wasm_hash", "oracle", "decimals")
    assert ("M1", "P1", "blend", "Fixed", "active", "ab", "O", 7) == frame.select(text).row(1)


@given(
    st.sampled_from([T15, T17]),
    st.integers(0, 10**20),
    st.integers(0, 10**20),
    st.integers(0, 2 * T),
    st.integers(0, 18),
)
def test_every_column_is_the_judges(
    base: dict[str, Any], b_supply: int, d_supply: int, last_time: int, decimals: int
) -> None:
    """Each column holds the number of that name of the plain formulas."""
    reserve = base | {"b_supply": b_supply, "d_supply": d_supply, "last_time": last_time, "decimals": decimals}
    try:
        expected = judge.project(reserve, T)
    except ZeroDivisionError:
        with pytest.raises(ExactDivisionError):
            project_pools(columns_of(reserve), T)
        return
    except OverflowError:
        with pytest.raises(ExactOverflowError):
            project_pools(columns_of(reserve), T)
        return
    row = project_pools(columns_of(reserve), T).row(0, named=True)
    renamed = {
        "supply_index": "accrued_b_rate",
        "borrow_index": "accrued_d_rate",
        "rate_modifier": "accrued_ir_mod",
        "backstop_credit": "accrued_backstop_credit",
    }
    names = {name: renamed.get(name, name) for name in row}

    assert {name: expected[judged] for name, judged in names.items() if judged in expected} == {
        name: row[name] for name, judged in names.items() if judged in expected
    }
    assert 15 == sum(judged in expected for judged in names.values())
    assert (decimals, last_time) == (row["decimals"], row["last_accrual_time"])


def test_failures_name_their_rows() -> None:
    """A reserve without a result is named by its position, so that the others can be kept."""
    no_supply = T15 | {"b_supply": 0}
    with pytest.raises(ExactDivisionError) as caught:
        project_pools(columns_of(T15, no_supply, T17, no_supply), T)

    assert (1, 3) == caught.value.rows


def quote(price: int | None, timestamp: int | None = 1000, failure: str | None = None) -> Quote:
    """A quote of an oracle of 7 decimals."""
    return Quote("O", "T", 7, price, timestamp, failure)


class TestPriceFailure:
    """Blend's own rule (facts/blend.md 3): a price, above zero, not older than a day."""

    @pytest.mark.parametrize("price", [1, 10**7, 2**127 - 1])
    def test_valid(self, price: int) -> None:
        """A price above zero and of now is valid, whatever its size."""
        assert Blend().price_failure(quote(price), 1000) is None

    @pytest.mark.parametrize(("price", "reason"), [(0, "the price is 0, "), (-5, "the price is -5, ")])
    def test_not_above_zero(self, price: int, reason: str) -> None:
        """Zero and less is no price."""
        assert f"{reason}not above zero" == Blend().price_failure(quote(price), 1000)

    @pytest.mark.parametrize(("age", "valid"), [(0, True), (86_399, True), (86_400, True), (86_401, False)])
    def test_age(self, age: int, valid: bool) -> None:
        """A price of exactly a day is good; one second more is too old."""
        assert MAX_PRICE_AGE_SECONDS == 86_400
        failure = Blend().price_failure(quote(1, 10**9), 10**9 + age)

        assert (None if valid else f"the price is {lasting(age)} old, more than 1 day") == failure

    @pytest.mark.parametrize("timestamp", [10**9 + 1, 2**64 - 1])
    def test_future(self, timestamp: int) -> None:
        """The contract does not ask whether a price is of the future."""
        assert Blend().price_failure(quote(1, timestamp), 10**9) is None

    def test_no_price(self) -> None:
        """Without a price the oracle's failure is the reason."""
        assert "trapped" == Blend().price_failure(quote(None, None, "trapped"), 1000)
        assert "the oracle gave no price" == Blend().price_failure(quote(None, None), 1000)


def test_raw_columns_without_nulls() -> None:
    """The columns the reader collects are all the math asks for."""
    assert set(project_pools(columns_of(T15), T).null_count().row(0)) == {0}
    assert isinstance(project_pools(columns_of(T15), T), pl.DataFrame)
