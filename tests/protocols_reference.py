"""docs/protocols.md, made from the modules and the lists: ``python -m tests.protocols_reference`` writes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from exporter.deployments.networks import NETWORKS
from exporter.errors import pluralize
from exporter.protocols import PROTOCOLS
from exporter.render.run_documents import excluded_on

PATH = Path(__file__).parent.parent / "docs" / "protocols.md"

INTRODUCTION = """\
# Protocols

Made by `scripts/docs` from the protocol modules and the lists of deployments. `/v1/protocols` of a published tree
says the same together with what the run found: counts, the code of the contracts, every known address with its source
and date.

For every protocol, amounts are base units of the token, utilization is what is borrowed divided by what is supplied,
and the value is what is supplied and plain collateral, times the price. The rest is each protocol's own: how a yield
follows from the annual rate (`simple`, or compounded so many times a year), of which moment rates and totals are, and
whether the protocol's own share is part of what is supplied. Compare them with this page beside you.

A market that is not in a list is found where the chain tells of it ([discovery](discovery.md)); `[[markets]]` in the
configuration names any other.
"""


def render() -> str:
    """The page."""
    return "\n".join([INTRODUCTION, *_protocols(), *_excluded()])


def _protocols() -> Iterator[str]:
    for name, module in sorted(PROTOCOLS.items()):
        about = module.coverage
        yield f"## {about.title} (`{name}`)\n"
        yield "| | |\n|---|---|"
        yield f"| What is a market | {about.structure} |"
        yield f"| Year of the annual rates | {about.year_seconds:,} s |"
        yield f"| `supply_apy_bps` | {about.supply_yield} |"
        yield f"| `borrow_apy_bps` | {about.borrow_yield} |"
        compounding = f"`{about.supply_compounding}`, `{about.borrow_compounding}`"
        yield f"| `supply_compounding`, `borrow_compounding` | {compounding} |"
        yield f"| Rates are | {about.rates} |"
        yield f"| Totals are | {about.totals} |"
        yield f"| Prices | {about.prices} |"
        if about.limits:
            yield f"| Not in the numbers | {about.limits} |"
        for status, meaning in module.statuses.items():
            yield f"| Status `{status}` | {meaning} |"
        for status, meaning in module.pool_statuses.items():
            yield f"| Status `{status}` of a pool | {meaning} |"
        for network in NETWORKS.values():
            if network.name in ("local", "made"):
                continue
            for deployment in network.deployments:
                if deployment.protocol == name:
                    markets, pools = (
                        pluralize(len(deployment.markets), "market"),
                        pluralize(len(deployment.pools), "pool"),
                    )
                    unlisted = f", {pools} that no contract lists" if deployment.pools else ""
                    yield f"| Known on {network.name}: {deployment.label} | {markets}{unlisted} |"
        yield ""


def _excluded() -> Iterator[str]:
    yield "## Left out on purpose\n"
    yield "| Name | What it is | Why |\n|---|---|---|"
    for item in excluded_on("mainnet"):
        yield f"| {item.name} | {item.kind} | {item.reason} |"
    yield ""


if __name__ == "__main__":
    PATH.write_text(render(), encoding="utf-8")
