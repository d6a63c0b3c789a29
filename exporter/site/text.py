"""Text of the chain for people: any contract may call itself anything, so nothing of it is trusted.

Escaping is the templates' own work (autoescape); here is what escaping leaves as it is: characters that are not
seen or that turn the text around them, and names that are too long for a table.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

from markupsafe import Markup

from exporter.ledger import strkey
from exporter.networks import NETWORKS, network_of

NAME_LENGTH = 36
"""Characters of a name that a table shows."""

SYMBOL_LENGTH = 14

TITLE_LENGTH = 400
"""Characters of a name in full, which is shown on hover."""

_COMBINING = "\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
_MARKS = re.compile(f"([{_COMBINING}]{{2}})[{_COMBINING}]+")
_NAMELESS = "(no name)"


@lru_cache(maxsize=1 << 14)
def harmless(text: str) -> str:
    """A text in which nothing is invisible: control, bidirectional and unassigned characters become U+FFFD.

    Of marks that combine with a letter two stay, since many would cover the lines above. Spaces of all kinds become
    one plain space, so that a text of spaces is seen to be empty: it is ``(no name)``.
    """
    if not (text.isascii() and text.isprintable()):
        shown = "".join(
            " " if character.isspace() else character if character.isprintable() else "\ufffd" for character in text
        )
        text = _MARKS.sub(r"\1", shown)
    return " ".join(text.split()) or _NAMELESS


@lru_cache(maxsize=1 << 14)
def cut(text: str, length: int = NAME_LENGTH) -> str:
    """A harmless text of at most so many characters; what is cut ends in an ellipsis."""
    text = harmless(text)
    return text if len(text) <= length else text[: length - 1].rstrip() + "…"


def named(text: str, length: int = NAME_LENGTH) -> tuple[str, str | None]:
    """A name as it is shown, and in full where it was cut."""
    full = harmless(text)
    shown = cut(text, length)
    return shown, None if shown == full else full[:TITLE_LENGTH]


def short_address(address: str) -> str:
    """The beginning and end of an address or a pool's id: ``CAS3…OWMA``."""
    return address if len(address) <= 12 else f"{address[:4]}…{address[-4:]}"


def words(name: str) -> str:
    """A name in the protocols' own spelling as words: ``admin_on_ice`` is ``admin on ice``."""
    return harmless(name).replace("_", " ")


@lru_cache
def native_asset(passphrase: str) -> str:
    """The contract of a network's native asset: SHA-256 over the contract id preimage of asset type native (CAP-46)."""
    network = hashlib.sha256(passphrase.encode()).digest()
    preimage = (8).to_bytes(4, "big") + network + (1).to_bytes(4, "big") + bytes(4)
    return strkey.encode(strkey.CONTRACT, hashlib.sha256(preimage).digest())


def not_mainnet(passphrase: str) -> str | None:
    """What every page of a network other than mainnet says first; None for mainnet."""
    known = network_of(passphrase).name
    if known == "mainnet":
        return None
    shown = f"“{cut(passphrase, TITLE_LENGTH)}”"
    if known == "testnet":
        return f"This is testnet ({shown}), not mainnet: its tokens are worth nothing."
    if known == "local":
        return (
            f"This is not mainnet. It is a network of one machine ({shown}), as the demo makes one: markets, amounts "
            "and prices are made up."
        )
    return f"This is not mainnet. It is the network {shown}."


class Symbols:
    """The symbols of tokens on one network as people know them: the native asset's, `native`, is XLM.

    On a public network only the contract of the native asset is meant, whatever others call themselves.
    """

    def __init__(self, passphrase: str) -> None:
        """For the network of a passphrase."""
        public = passphrase in (NETWORKS["mainnet"].passphrase, NETWORKS["testnet"].passphrase)
        self._native = native_asset(passphrase) if public else None

    def of(self, symbol: str, token_address: str) -> str:
        """The symbol of a token, harmless and in full."""
        if symbol == "native" and self._native in (None, token_address):
            return "XLM"
        return harmless(symbol)


def prose(text: str) -> Markup:
    """A text of the documentation with what stands in backticks as code."""
    parts = text.split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if position % 2 else part for position, part in enumerate(parts)
    )
