"""The deployments of the embedded network: their addresses are made from labels, so both sides know them."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import date

from exporter.deployments import BACKSTOP, FACTORY, MARKET, ROUTER, Deployment, KnownContract, KnownPool
from exporter.ledger.codec import strkey

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

XOXNO_POOLS = ((1, 0, 7), (1, 1, 7), (1, 2, 7), (1, 3, 8), (2, 1, 7), (2, 4, 18), (2, 5, 6), (3, 7, 7), (2, 6, 6))
"""By hub, number and decimals of the made token. One token is in two hubs; the last pool is listed and not created."""


def _xoxno_pool(hub: int, token: int, decimals: int) -> KnownPool:
    address = made_address(f"localnet token {token}")
    market = made_address("localnet xoxno controller")
    return KnownPool(market, f"{hub}-{address}", address, SOURCE, MADE_ON, decimals)


XOXNO = Deployment(
    "xoxno",
    "main",
    (
        made_contract(MARKET, "localnet xoxno controller"),
        made_contract("pool", "localnet xoxno pool"),
        made_contract("price_aggregator", "localnet xoxno price aggregator"),
    ),
    tuple(_xoxno_pool(*pool) for pool in XOXNO_POOLS),
)

PERIDOT = Deployment(
    "peridot",
    "main",
    (
        made_contract(MARKET, "localnet peridot controller 0"),
        *(made_contract("vault", f"localnet peridot vault 0 {index}") for index in range(3)),
    ),
)

SLENDER = Deployment("slender", "main", (made_contract(MARKET, "localnet slender pool 0"),))

K2_ROUTER_CODE = "cc3eecee9d8bb6d59641b1419b3562882bf9a1a362ee8cf8b9a32c5d43cf5752"
"""The wasm hash of the made routers, which the list of K2 has so that their code is a known one."""


K2 = Deployment(
    "k2",
    "main",
    (
        *(
            replace(made_contract(MARKET, f"localnet k2 router {index}"), wasm_hash=K2_ROUTER_CODE, name=f"K2 {index}")
            for index in range(3)
        ),
        made_contract("oracle", "localnet k2 oracle"),
        *(made_contract("interest_rate", f"localnet k2 rates {index}") for index in range(3)),
        *(
            made_contract(f"{kind}_token", f"localnet k2 {kind}-token 0 {number}")
            for number in range(4)
            for kind in ("a", "debt")
        ),
    ),
)
"""Three routers; of the second and third the tokens are not listed, so that their reserves have to name them."""

ROUTER_CODE = "013b3dd3c27190d43535e6d676423691282062898a161f5029636e362e12a1f2"
"""The wasm hash of the made router, so that a run can distinguish its code from another."""

LOCAL_ROUTER = replace(made_contract(ROUTER, "localnet router"), wasm_hash=ROUTER_CODE)

LOCAL: tuple[Deployment, ...] = (*BLEND, ALULA, K2, PERIDOT, SLENDER, XOXNO)
