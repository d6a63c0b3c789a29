"""`/llms.txt`: what this tree is and how to read it, for language models; it follows from the code alone."""

from __future__ import annotations

from exporter.render.openapi import OPERATIONS, YIELDS_OPERATIONS
from exporter.tree.families import CENSUS, FAMILIES, LLMS, PROOFS
from exporter.tree.files import FileKind, RenderedFile

_ABOUT = """\
# Lending markets of Soroban

> Exact snapshots of every lending market on Soroban (Stellar): yields, amounts, prices, statuses and risk parameters of
> every pool at one ledger a run, with their history. Static files; nothing is computed when they are asked for.

Read this before you use a number:

- Every document states the ledger that it was observed at (`observed_ledger`). Name it with each number.
- Yields and utilizations are integers in basis points a year: 610 is 6.10 %. `supply_apy_bps` and `borrow_apy_bps` are
  the protocol's own; compare pools by `total_supply_apy_bps`, compounded daily with the funded reward, and by
  `comparable_borrow_apy_bps`.
- Amounts are strings of digits in base units of the token: divide by 10 to the power of `decimals`.
- Money is a string of digits in US cents. `tvl_usd_cents` is all that was supplied, including what is lent out of it.
- null means that there is none, or that it is not known. It is never 0.
- A market can be frozen, and a pool closed for supplying or borrowing. `best_supply` and `best_borrow` of
  `v1/tokens.json` are among pools that are open, priced and large enough.
- Symbols are what tokens call themselves; identify tokens by `token_address`.
- Lists are in pages until `next_cursor` is null: the next one is `{next_cursor}.json` in `v1/pool-pages/` for pools in
  flat rows, in `v1/pages/` for others, in `v1/buckets/` for a pool's history and in `v1/buckets/totals/` for totals.
- What could not be read is named in `v1/system/status.json`, with the reason.

## Where to begin

- [All pools](v1/pools/index.json): one flat row each, 500 a page
- [All tokens](v1/tokens.json): with the best pools to lend and to borrow
- [Which run this is](v1/system/status.json): ledger, time, and what is missing
- [All markets](v1/markets.json): with protocol and status
- [All pools in one table](v1/latest.parquet): every column, as Parquet
- [What changed lately](v1/changes.json)

## Files of the API

These are files, relative to the root of this tree. Names in braces are in the lists above.

"""

_MORE = """
## More than the API

- [OpenAPI description](v1/openapi.json): every field and its unit
- [Every day of every pool](history/daily.parquet), and [every hour of 90 days](history/hourly.parquet), as Parquet
- [The history as tables](datapackage.json): all Parquet files and the meaning of their columns
- [Metrics](metrics.txt): the newest run as OpenMetrics
- [Feed of changes](feed.atom), and of each market at `markets/{market}.atom`

An assistant that speaks the Model Context Protocol can ask this tree by `exporter mcp` and its URL.
"""


def render_llms() -> RenderedFile:
    """Render the file."""
    files = {family.path: family.template for family in FAMILIES if family not in (PROOFS, CENSUS)}  # may be absent
    files |= {path: f"{path[1:]}.json" for path, _, _ in YIELDS_OPERATIONS}
    known = ((files.get(path), operation.summary) for path, _, operation in OPERATIONS)
    listed = "".join(f"- `{file}`: {summary}\n" for file, summary in known if file is not None)
    return RenderedFile(LLMS.template, (_ABOUT + listed + _MORE).encode(), FileKind.DOCUMENT)
