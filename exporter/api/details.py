"""The detail of every asset: the pool snapshot, with what an analyst wants beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from exporter.api.asset_documents import AssetDetail, AssetIndexes, AssetPrice, AssetRates, RateModelParameter
from exporter.api.documents import timestamp
from exporter.api.render import render_document
from exporter.api.routes import asset_key
from exporter.compute import Tables
from exporter.files import RenderedFile
from exporter.history.schema import MAX_TIMESTAMP_SECONDS
from exporter.protocols.base import Coverage, ProtocolModule
from exporter.protocols.parameters import Parameter


def render_details(tables: Tables, modules: Mapping[str, ProtocolModule]) -> Iterator[RenderedFile]:
    """Render the detail of each pool that was read. CheckError for a value that the API does not allow."""
    for row in tables.pools.iter_rows(named=True):
        market, pool = row["market"], row["pool"]
        detail = asset_detail(row, tables.parameters.get((market, pool), ()), modules[row["protocol"]].coverage)
        yield render_document(asset_key(market, pool), detail)


def asset_detail(row: Mapping[str, Any], parameters: Sequence[Parameter], coverage: Coverage) -> AssetDetail:
    """The detail from a row of the pools frame, the parameters of its pool, and what the protocol's numbers mean."""

    def digits(name: str) -> str | None:
        return None if row[name] is None else str(row[name])

    def struct_of(model: Any, names: Mapping[str, str]) -> Any:
        return model(
            **{field: row[name] if name.endswith("decimals") else str(row[name]) for field, name in names.items()}
        )

    return AssetDetail(
        market=row["market"],
        pool=row["pool"],
        token_address=row["token_address"],
        symbol=row["symbol"],
        decimals=row["decimals"],
        supply_apy_bps=row["supply_apy_bps"],
        borrow_apy_bps=row["borrow_apy_bps"],
        utilization_bps=row["utilization_bps"],
        total_supplied=str(row["total_supplied"]),
        total_borrowed=str(row["total_borrowed"]),
        oracle_price_usd=row["oracle_price_usd"],
        tvl_usd_cents=digits("tvl_usd_cents"),
        observed_ledger=row["observed_ledger"],
        ledger_close_time=timestamp(row["ledger_close_time"]),
        protocol=row["protocol"],
        version=row["version"],
        market_name=row["market_name"],
        market_status=row["market_status"],
        contract_wasm_hash=row["wasm_hash"],
        total_collateral=str(row["total_collateral"]),
        backstop_credit=str(row["backstop_credit"]),
        last_accrual_time=timestamp(row["last_accrual_time"]),
        price=AssetPrice(
            oracle=row["oracle"],
            validity=row["price_reason"],
            value=digits("oracle_price"),
            decimals=row["oracle_decimals"],
            time=printed_time(row["price_timestamp"]),
        ),
        rates=struct_of(AssetRates, {name: name for name in AssetRates.__struct_fields__}),
        indexes=struct_of(
            AssetIndexes, {"decimals": "index_decimals", "supply": "supply_index", "borrow": "borrow_index"}
        ),
        rate_model=[
            RateModelParameter(item.name, str(item.value), item.decimals, item.no_limit) for item in parameters
        ],
        supply_compounding=coverage.supply_compounding,
        borrow_compounding=coverage.borrow_compounding,
    )


def printed_time(seconds: int | None) -> str | None:
    """The time of a price; an oracle may give one that cannot be written as a date."""
    if seconds is None or not 0 <= seconds <= MAX_TIMESTAMP_SECONDS:
        return None
    return timestamp(seconds)
