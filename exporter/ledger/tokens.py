"""Reads tokens: from METADATA in the contract's instance or, without it, by calling the contract's functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from exporter.errors import Barrier, DecodeError
from exporter.ledger.codec import scval, strkey
from exporter.ledger.codec.entries import instance_key, instance_of
from exporter.ledger.codec.fields import Fields, expect, text_of
from exporter.ledger.observation import CallResult, Entry
from exporter.ledger.source import ContractCall
from exporter.ledger.view import LedgerView

MAX_SYMBOL_LENGTH = 200
"""The largest number of characters of a symbol. The limit keeps a hostile token from filling every page."""

MAX_TOKEN_DECIMALS = 38
"""The largest number of decimals for which 10^decimals fits into 128 bits.

Without a limit, a hostile token with 4,294,967,295 decimals would keep a run busy forever with powers of ten.
"""


class Token(Struct, frozen=True):
    """A token, as its contract describes it.

    Attributes:
        address: the contract's address.
        symbol: the token's symbol; None if the contract gives none.
        decimals: the token's decimals, at most `MAX_TOKEN_DECIMALS`; None if the contract gives none.
        failure: why the contract gives no symbol and decimals.
        issuer: the account (a strkey) that issues a classic asset. Nobody can forge it, because the contract's code is
            the network's own. None for every other token, and for the native asset.
        name: the token's name; None if METADATA has none.
    """

    address: str
    symbol: str | None
    decimals: int | None
    failure: str | None = None
    issuer: str | None = None
    name: str | None = None


async def read_tokens(view: LedgerView, addresses: Iterable[str]) -> Mapping[str, Token]:
    """The tokens at these addresses. A token that cannot be read has a ``failure``. Raises only `SourceError`."""
    wanted = list(dict.fromkeys(addresses))
    entries = await view.read(instance_key(address) for address in wanted)
    tokens = dict[str, Token]()
    without_metadata = dict[str, str]()  # each with the reason
    for address in wanted:
        with Barrier(partial(without_metadata.__setitem__, address)):
            tokens[address] = _from_metadata(address, entries[instance_key(address)])
    calls = [ContractCall(address, function) for address in without_metadata for function in ("symbol", "decimals")]
    results = await view.call(calls)
    answers = zip(without_metadata.items(), results[::2], results[1::2], strict=True)
    for (address, reason), symbol, decimals in answers:
        with Barrier() as barrier:
            tokens[address] = _from_functions(address, symbol, decimals)
        if barrier.failure:
            tokens[address] = Token(address, None, None, f"{reason}; {barrier.failure}")
    return {address: tokens[address] for address in wanted}


def _from_metadata(address: str, entry: Entry | None) -> Token:
    if entry is None:
        raise DecodeError("the ledger has no contract at this token's address")
    instance = instance_of(entry.contract_data())
    metadata = Fields(instance.storage, "token instance").struct("METADATA")
    token = _checked(address, metadata.string("symbol"), metadata.u32("decimal"))
    name = metadata.string("name") if "name" in metadata else ""
    return replace(
        token,
        name=name if 0 < len(name) <= MAX_SYMBOL_LENGTH else None,
        issuer=_issuer_in(name, token.symbol) if instance.executable == scval.STELLAR_ASSET else None,
    )


def _issuer_in(name: str, symbol: str | None) -> str | None:
    """The issuer in an asset contract's name, ``CODE:ISSUER``. None if the name has another form.

    The network's own code writes that form, so another one comes from a damaged entry or an endpoint that lies.
    """
    code, _, issuer = name.partition(":")
    return issuer if code == symbol and strkey.is_account(issuer) else None


def _from_functions(address: str, symbol: CallResult, decimals: CallResult) -> Token:
    if symbol.value is None:
        raise DecodeError(f"symbol() failed: {symbol.reason}")
    if decimals.value is None:
        raise DecodeError(f"decimals() failed: {decimals.reason}")
    kind, content = symbol.value
    text = content if kind == scval.SYMBOL else text_of(expect(symbol.value, scval.STRING, "symbol()"))
    return _checked(address, text, expect(decimals.value, scval.U32, "decimals()"))


def _checked(address: str, symbol: str, decimals: int) -> Token:
    if len(symbol) > MAX_SYMBOL_LENGTH:
        raise DecodeError(f"the symbol has {len(symbol)} characters, more than {MAX_SYMBOL_LENGTH}")
    if decimals > MAX_TOKEN_DECIMALS:
        raise DecodeError(f"the token has {decimals} decimals, more than {MAX_TOKEN_DECIMALS}")
    return Token(address, symbol, decimals)
