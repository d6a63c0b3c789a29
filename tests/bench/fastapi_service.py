"""The service that the files replace: /v1/assets by FastAPI from SQLite, as one would write it with care.

``python -m tests.bench.fastapi_service DATABASE PORT [CORE]``, in an environment that has FastAPI. Every answer is a
keyset query on an index over rows that stand in the page cache, and JSON by orjson.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from typing import Any

COLUMNS = (
    "market", "pool", "token_address", "symbol", "decimals", "supply_apy_bps", "borrow_apy_bps", "utilization_bps",
    "total_supplied", "total_borrowed", "oracle_price_usd", "tvl_usd_cents", "observed_ledger",
)  # fmt: skip
DEFAULT_LIMIT = 50
MAX_LIMIT = 200


def create_app(database: str) -> Any:
    """The application over a database with one table, `pools`, whose rowid ascends by market and pool."""
    import orjson
    from fastapi import FastAPI, HTTPException, Query, Response

    connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True, check_same_thread=False)
    connection.execute("PRAGMA mmap_size = 268435456")
    app = FastAPI(openapi_url=None)
    contract = "^C[A-Z2-7]{55}$"
    select = f"SELECT rowid, {', '.join(COLUMNS)} FROM pools WHERE rowid > ?"

    @app.get("/v1/assets")
    async def assets(
        market: str | None = Query(default=None, pattern=contract),
        token: str | None = Query(default=None, pattern=contract),
        cursor: str | None = None,
        limit: int = Query(default=DEFAULT_LIMIT, ge=0, le=2**31 - 1),
    ) -> Response:
        size = min(limit, MAX_LIMIT)
        after = 0
        if cursor:
            # The position, the size and the filter, so that it fixes them as the cursors of the files do.
            try:
                position, fixed, market, token = cursor.split("-")
                after, size = int(position), int(fixed)
            except ValueError:
                raise HTTPException(404) from None
        query = select
        values: list[int | str] = [after]
        if market:
            query, values = f"{query} AND market = ?", [*values, market]
        if token:
            query, values = f"{query} AND token_address = ?", [*values, token]
        rows = connection.execute(f"{query} ORDER BY rowid LIMIT ?", [*values, size + 1]).fetchall()
        more = len(rows) > size
        rows = rows[:size]
        following = f"{rows[-1][0]}-{size}-{market or ''}-{token or ''}" if more and rows else None
        data = [dict(zip(COLUMNS, row[1:], strict=True)) for row in rows]
        return Response(orjson.dumps({"data": data, "next_cursor": following}), media_type="application/json")

    return app


def main(database: str, port: str, core: str = "") -> None:
    """Serve with one worker of uvicorn, pinned to a processor core where one is named."""
    import uvicorn

    if core and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(core)})
    uvicorn.run(create_app(database), host="127.0.0.1", port=int(port), log_level="error", access_log=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
