"""docs/protocols.md, made from the modules and the lists: ``python -m tests.protocols_reference`` writes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from exporter.protocols import PROTOCOLS

PATH = Path(__file__).parent.parent / "docs" / "protocols.md"

INTRODUCTION = """\
# Protocols

After reading this page you know what each protocol's numbers mean. `scripts/docs` writes it from the protocol modules.
`/v1/protocols` also has what the run found, every known address with its source, and what is left out, with the reason.
"""


def render() -> str:
    """The page."""
    return "\n".join([INTRODUCTION, *_protocols()])


def _protocols() -> Iterator[str]:
    for name, module in sorted(PROTOCOLS.items()):
        about = module.coverage
        yield f"## {about.title} (`{name}`)\n"
        yield f"- Market: {about.structure}"
        supply = f"{about.supply_yield} (`{about.supply_compounding}`)"
        borrow = f"{about.borrow_yield} (`{about.borrow_compounding}`)"
        if supply == borrow:
            yield f"- `supply_apy_bps`, `borrow_apy_bps`: {supply}"
        else:
            yield f"- `supply_apy_bps`: {supply}"
            yield f"- `borrow_apy_bps`: {borrow}"
        yield f"- A year has {about.year_seconds:,} s. Rates: {about.rates}"
        yield f"- Totals: {about.totals}"
        yield f"- Prices: {about.prices}"
        if about.limits:
            yield f"- Not in the numbers: {about.limits}"
        for kind, statuses in (("market", module.statuses), ("pool", module.pool_statuses)):
            if statuses:
                yield f"- Statuses of a {kind}:"
            for status, meaning in statuses.items():
                yield f"  - `{status}`: {meaning}"
        yield ""


if __name__ == "__main__":
    PATH.write_text(render(), encoding="utf-8")
