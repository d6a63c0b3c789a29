"""A made ledger of every protocol: a market A with two pools, of the tokens USDC and XLM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from exporter.deployments import MARKET, Deployment
from exporter.protocols.compute import Tables
from tests.protocols import alula_chain, blend_chain, k2_chain, peridot_chain, slender_chain, xoxno_ledger
from tests.protocols.made_ledger import MadeLedger, candidate_of, contract, known

ASSETS = ("USDC", "XLM")
HUB_MARKETS = tuple((1, asset) for asset in ASSETS)
LEDGERS: dict[str, Callable[[], Any]] = {
    "alula": alula_chain.AlulaLedger,
    "blend": blend_chain.BlendLedger,
    "k2": k2_chain.K2Ledger,
    "peridot": peridot_chain.PeridotLedger,
    "slender": slender_chain.SlenderLedger,
    "xoxno": xoxno_ledger.XoxnoLedger,
}


def ledger_of(protocol: str) -> MadeLedger:
    """A market A with two pools."""
    made: Any = LEDGERS[protocol]()
    if protocol == "blend":
        made.add_market("A", "v2", ASSETS)
    else:
        made.add_market("A", HUB_MARKETS if protocol == "xoxno" else ASSETS)
    ledger: MadeLedger = made
    return ledger


def listed(protocol: str, code: bytes | None = None) -> list[Deployment]:
    """A list that has market A, with the hash of its code or without."""
    market = known("A", MARKET, wasm_hash=code)
    if protocol != "xoxno":
        return [Deployment(protocol, "test", (market,))]
    around = xoxno_ledger.deployment("A", HUB_MARKETS)
    return [Deployment(protocol, "test", (market, *around.contracts[1:]), around.pools)]


def pool_of(protocol: str, asset: str) -> str:
    """The pool id of a token, which not all protocols have pools named after."""
    if protocol == "xoxno":
        return xoxno_ledger.pool_id(1, asset)
    return contract(f"{asset} vault" if protocol == "peridot" else asset)


def computed(protocol: str, ledger: MadeLedger, *more: str) -> Tables:
    """What is published of market A, and of contracts with these labels."""
    return ledger.compute([candidate_of(protocol, label) for label in ("A", *more)], listed(protocol))
