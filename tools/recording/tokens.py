"""The tokens of the recording, with their prices: a list of ours, from which every protocol's pools take theirs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from exporter.deployments.networks import RECORDED_PASSPHRASE, derived_address, native_asset
from exporter.ledger.codec import scval, strkey
from exporter.ledger.codec.scval import STELLAR_ASSET
from exporter.ledger.codec.scval_encode import address, string, struct_map, symbol, u32, vec
from exporter.localnet.oracle import RECORDS, RESOLUTION, instance, price_entries
from tests.protocols import made_ledger
from tests.protocols.made_ledger import Written

ADMIN: Final = strkey.encode(strkey.ACCOUNT, hashlib.sha256(b"recorded network administrator").digest())
"""The account that issues the tokens, and that decides over the markets that come from code alone."""

_SDK_TOKEN_CODE = hashlib.sha256(b"recorded network token").digest()


@dataclass(frozen=True, slots=True)
class Token:
    """A token, with a price in US dollars of 14 decimals."""

    symbol: str
    price: int
    decimals: int = 7

    @property
    def address(self) -> str:
        """The contract's address."""
        if self.symbol == "XLM":
            return native_asset(RECORDED_PASSPHRASE)
        return derived_address(f"recorded network token {self.symbol}")

    def entry(self) -> Written:
        """The contract's instance: of a Stellar asset with 7 decimals, and of a token of the SDK with others."""
        name = "native" if self.symbol == "XLM" else f"{self.symbol}:{ADMIN}"
        fields = {"decimal": u32(self.decimals), "name": string(name), "symbol": string(name.partition(":")[0])}
        metadata = (symbol("METADATA"), struct_map(fields))
        admin = (vec(symbol("Admin")), address(ADMIN))
        if self.decimals != 7:
            return made_ledger.instance(self.address, [metadata, admin], _SDK_TOKEN_CODE)
        if self.symbol == "XLM":
            info, owned = vec(symbol("Native")), []
        else:
            size = 4 if len(self.symbol) <= 4 else 12
            code = (scval.STRING, self.symbol.encode().ljust(size, b"\0"))
            issuer = (scval.BYTES, strkey.decode(ADMIN)[1])
            info = vec(symbol(f"AlphaNum{size}"), struct_map({"asset_code": code, "issuer": issuer}))
            owned = [admin]
        storage = (metadata, *owned, (vec(symbol("AssetInfo")), info))
        return made_ledger.instance(self.address, storage, executable=STELLAR_ASSET)


TOKENS: Final = {
    token.symbol: token
    for token in (
        Token("XLM", 31 * 10**12),
        Token("USDC", 10**14),
        Token("EURC", 115 * 10**12),
        Token("wETH", 3_180 * 10**14),
        Token("wBTC", 91_400 * 10**14),
        Token("USDT0", 10**14, 6),
        Token("USST", 10**14, 18),
        Token("BLND", 4 * 10**12),
    )
}
"""The tokens by symbol. The order decides how prices move by chance, so a new token comes last."""


def token_address(symbol: str) -> str:
    """The address that a token has in the recording."""
    return TOKENS[symbol].address


def written(time: int) -> Iterator[Written]:
    """The entries of the tokens and of the oracle, whose newest prices are of a time in unix seconds."""
    for token in TOKENS.values():
        yield token.entry()
    newest = time // RESOLUTION * RESOLUTION
    yield instance([token.address for token in TOKENS.values()], newest)
    for ago in range(RECORDS):
        yield from price_entries([token.price for token in TOKENS.values()], newest - ago * RESOLUTION)
