"""The deployments of the embedded network: their addresses are made from labels, so both sides know them."""

from __future__ import annotations

import hashlib
from datetime import date

from exporter.deployments import BACKSTOP, FACTORY, MARKET, Deployment, KnownContract
from exporter.ledger import strkey

SOURCE = "exporter.localnet"
MADE_ON = date(2026, 11, 18)


def made_address(label: str) -> str:
    """The address of a contract of the embedded network: the contract id is the SHA-256 of a label."""
    return strkey.encode_contract(hashlib.sha256(label.encode()).digest())


def made_contract(role: str, label: str) -> KnownContract:
    """A contract of the embedded network, as the lists have those of other networks."""
    return KnownContract(made_address(label), role, SOURCE, MADE_ON)


BLEND = tuple(
    Deployment(
        "blend",
        label,
        (
            made_contract(FACTORY, f"localnet blend {label} factory"),
            made_contract(BACKSTOP, f"localnet blend {label} backstop"),
        ),
    )
    for label in ("v1", "v2")
)

ALULA = Deployment(
    "alula", "main", tuple(made_contract(MARKET, f"localnet alula market {index}") for index in range(3))
)

LOCAL: tuple[Deployment, ...] = (*BLEND, ALULA)
