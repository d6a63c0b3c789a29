"""Every kind of key in the tree, once: how it is written, who reads it by which URL, and what becomes of it.

Content types, cache lifetimes, the policy of a bucket and the rules for the edge follow from this table, or are held
against it by its tests. A file of no family is a mistake.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from exporter.tree.files import FileKind

_CONTRACT = "C[A-Z2-7]{55}"
_TOKEN = "[A-Za-z0-9_-]{1,128}"

PLACES = {
    "market": _CONTRACT,
    "token": _CONTRACT,
    "pool": "[A-Za-z0-9][A-Za-z0-9_-]{0,127}",
    "cursor": _TOKEN,
    "size": "0|[1-9][0-9]*",
    "other": "5m|15m|1h|6h|1w",
    "run": "[A-Za-z0-9_.-]+",
    "status": "[45][0-9]{2}",
    "day": "[0-9]{4}-[0-9]{2}-[0-9]{2}",
    "month": "[0-9]{4}-[0-9]{2}",
    "ledger": "[1-9][0-9]*",
    "last": "[1-9][0-9]*",
    "digest": "[0-9a-f]{12}",
    "number": "[2-9]|[1-9][0-9]+",
    "about": "about|api|data|problems",
    "list": "markets|pools|tokens",
    "file": r"[A-Za-z0-9_-]+(?:\.[a-z0-9]+)+",
}
"""What may stand in each place of a template, as a regular expression."""


class Sweep(StrEnum):
    """When a file is removed."""

    NEVER = "never"
    WITH_ITS_RUN = "as soon as the published run has none"
    AFTER_RETENTION = "after the retention time, once nothing that is published names it"


@dataclass(frozen=True)
class Family:
    """One kind of key.

    Attributes:
        template: the key, with the names of `PLACES` in braces.
        kind: what may happen to a key after it was written; None for the publisher's own records, which no run lists.
        url: the public URL that it answers beside its own name; None where there is no other.
        sweep: when it is removed.
        aliased: whether a bucket has a copy under the path of ``url``, which then holds no query.
        public: whether anybody but the publisher has a use for it.
    """

    template: str
    kind: FileKind | None
    url: str | None
    sweep: Sweep
    aliased: bool = False
    public: bool = True

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Matches the keys of the family, whole; its groups are the places by name."""
        parts = re.split(r"\{(\w+)\}", self.template)
        return re.compile(
            "".join(f"(?P<{part}>{PLACES[part]})" if odd % 2 else re.escape(part) for odd, part in enumerate(parts))
        )

    @property
    def prefix(self) -> str:
        """What all keys of the family begin with; the whole key where there is only one."""
        return self.template.partition("{")[0]

    @property
    def routed_by(self) -> str:
        """Which part of the rule at the edge leads to it: a query, a path without an extension, or its own name."""
        if not self.public:
            return "nothing"
        if self.url is None:
            return "its own name"
        return "a query" if "?" in self.url else "a path"


def _page(template: str, url: str, sweep: Sweep) -> Family:
    return Family(template, FileKind.PAGE, url, sweep)


def _document(template: str, url: str | None = None, *, aliased: bool = False) -> Family:
    return Family(template, FileKind.DOCUMENT, url, Sweep.WITH_ITS_RUN, aliased)


def _record(template: str) -> Family:
    return Family(template, None, None, Sweep.NEVER, public=False)


FAMILIES = (
    # The site.
    _document("index.html", "/"),
    _document("{about}.html"),
    _document("{list}.html"),
    _document("{list}-{number}.html"),
    _document("markets/{market}.html"),
    _document("markets/{market}-{number}.html"),
    _document("tokens/{token}.html"),
    _document("tokens/{token}-{number}.html"),
    _document("pools/{market}/{pool}.html"),
    _document("static/{file}"),
    # Pools, in pages.
    _document("v1/assets/index.json", "/v1/assets", aliased=True),
    _document("v1/assets/limit/{size}.json", "/v1/assets?limit={size}"),
    _document("v1/assets/market/{market}/index.json", "/v1/assets?market={market}"),
    _document("v1/assets/market/{market}/limit/{size}.json", "/v1/assets?market={market}&limit={size}"),
    _document("v1/assets/token/{token}/index.json", "/v1/assets?token={token}"),
    _document("v1/assets/token/{token}/limit/{size}.json", "/v1/assets?token={token}&limit={size}"),
    _document("v1/assets/market/{market}/token/{token}/index.json", "/v1/assets?market={market}&token={token}"),
    _document(
        "v1/assets/market/{market}/token/{token}/limit/{size}.json",
        "/v1/assets?market={market}&token={token}&limit={size}",
    ),
    _document("v1/assets/empty.json"),  # answers whatever filter matches nothing
    _page("v1/pages/{cursor}.json", "/v1/assets?cursor={cursor}", Sweep.AFTER_RETENTION),
    # One pool.
    _document("v1/assets/{market}/{pool}.json", "/v1/assets/{market}/{pool}", aliased=True),
    _document("v1/assets/{market}/{pool}/history/1d.json", "/v1/assets/{market}/{pool}/history", aliased=True),
    _document("v1/assets/{market}/{pool}/history/{other}.json", "/v1/assets/{market}/{pool}/history?bucket={other}"),
    _page("v1/buckets/{cursor}.json", "/v1/assets/{market}/{pool}/history?cursor={cursor}", Sweep.NEVER),
    # The other documents.
    _document("v1/markets.json", "/v1/markets", aliased=True),
    _document("v1/markets/{market}.json", "/v1/markets/{market}", aliased=True),
    _document("v1/tokens/{token}.json", "/v1/tokens/{token}", aliased=True),
    _document("v1/protocol/summary.json", "/v1/protocol/summary", aliased=True),
    _document("v1/protocols.json", "/v1/protocols", aliased=True),
    _document("v1/openapi.json"),
    _document("v1/errors/{status}.json", "/v1/errors/{status}", aliased=True),
    # The runs and the history.
    Family("v1/system/status.json", FileKind.POINTER, "/v1/system/status", Sweep.NEVER, aliased=True),
    Family("v1/runs/{run}.json", FileKind.DOCUMENT, "/v1/runs/{run}", Sweep.AFTER_RETENTION),
    Family("v1/history.json", FileKind.DOCUMENT, "/v1/history", Sweep.NEVER, aliased=True),
    Family("history/pools/date={day}/{ledger}.parquet", FileKind.HISTORY, None, Sweep.AFTER_RETENTION),
    Family("history/pools/date={day}/{ledger}-{last}-{digest}.parquet", FileKind.HISTORY, None, Sweep.AFTER_RETENTION),
    Family("history/pools/month={month}/{ledger}-{last}-{digest}.parquet", FileKind.HISTORY, None, Sweep.NEVER),
    # The publisher's own records, and its hold on a bucket or folder.
    _record("v1/system/intent.json"),
    _record("v1/system/superseded.json"),
    _record("state/{file}"),
    _record(".exporter.lease"),
    _record(".exporter.lock"),
)


def family_of(key: str) -> Family | None:
    """The family of a key; None for a key that no version of this exporter writes."""
    return next((family for family in FAMILIES if family.pattern.fullmatch(key)), None)


def prefixes(kind: FileKind) -> tuple[str, ...]:
    """What the keys of a kind begin with, ascending."""
    return tuple(sorted({family.prefix for family in FAMILIES if family.kind is kind}))
