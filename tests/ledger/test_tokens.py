"""Symbol and decimals of tokens, from METADATA or from the token's own functions."""

from __future__ import annotations

import asyncio

import pytest

from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import i128, string, symbol, u32
from exporter.ledger.source import ContractCall
from exporter.ledger.tokens import MAX_SYMBOL_LENGTH, Token, read_tokens
from exporter.ledger.view import LedgerView, read_at_one_ledger
from tests.protocols.made_ledger import MadeLedger, MadeSource, bare_token, contract, instance, token_instance


def tokens_of(ledger: MadeLedger, *labels: str) -> tuple[dict[str, Token], MadeSource]:
    """Read tokens by label, through the one-ledger view; gives them by label, and the source with its log."""
    source = MadeSource(ledger.chain(), ledger.results)

    async def program(view: LedgerView) -> dict[str, Token]:
        return dict(await read_tokens(view, map(contract, labels)))

    tokens = asyncio.run(read_at_one_ledger(source, program)).result
    return {label: tokens[contract(label)] for label in labels}, source


def with_functions(token_symbol: ScVal | str, decimals: ScVal | str) -> MadeLedger:
    """A ledger with one token T that gives its metadata through its functions only."""
    ledger = MadeLedger()
    ledger.replace(bare_token("T"))
    ledger.set_function("T", "symbol", token_symbol)
    ledger.set_function("T", "decimals", decimals)
    return ledger


class TestMetadata:
    def test_what_a_token_says(self) -> None:
        """Symbol and decimals are METADATA's, and nothing is called. Only the network's own code has an issuer."""
        issued = "USDC:GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZVN"
        ledger = MadeLedger()

        def asset(label: str, code: str, name: str) -> None:
            fields = (("decimal", u32(7)), ("name", string(name)), ("symbol", string(code)))
            metadata = (scval.MAP, tuple((symbol(key), value) for key, value in fields))
            storage = [(symbol("METADATA"), metadata)]
            ledger.replace(instance(contract(label), storage, executable=scval.STELLAR_ASSET))

        asset("N", "native", "native")
        asset("U", "USDC", issued)
        ledger.replace(token_instance("W", b"wETH", 18, changes={"name": string(issued)}))
        tokens, source = tokens_of(ledger, "N", "U", "W")

        assert {
            "N": Token(contract("N"), "native", 7, name="native"),
            "U": Token(contract("U"), "USDC", 7, name=issued, issuer=issued[5:]),
            "W": Token(contract("W"), "wETH", 18, name=issued),
        } == tokens
        assert [] == source.calls

    @pytest.mark.parametrize("name", [None, string(""), string("x" * (MAX_SYMBOL_LENGTH + 1))])
    def test_no_name(self, name: ScVal | None) -> None:
        """A token without a name, or with one that would fill every page, has none and is a token all the same."""
        ledger = MadeLedger()
        ledger.replace(token_instance("T", changes={"name": name}))

        assert Token(contract("T"), "USDC", 7) == tokens_of(ledger, "T")[0]["T"]

    @pytest.mark.parametrize(
        ("content", "expected"),
        [
            (b"", ""),
            (b"\xff\xfeX", "\\xff\\xfeX"),
            (b"a\x00\x1b[31m\nb", "a\x00\x1b[31m\nb"),
            ("日本円".encode(), "日本円"),
            (b"x" * MAX_SYMBOL_LENGTH, "x" * MAX_SYMBOL_LENGTH),
        ],
        ids=["empty", "not UTF-8", "control characters", "not ASCII", "as long as it may be"],
    )
    def test_odd_symbols(self, content: bytes, expected: str) -> None:
        """A symbol is what the token says, however odd; bytes that are no UTF-8 show as escapes."""
        ledger = MadeLedger()
        ledger.replace(token_instance("T", content))

        assert expected == tokens_of(ledger, "T")[0]["T"].symbol


class TestFunctions:
    """Tokens without METADATA are asked."""

    @pytest.mark.parametrize("given", [string("USTRY"), symbol("USTRY")], ids=["string", "symbol"])
    def test_falls_back(self, given: ScVal) -> None:
        """``symbol()`` may give a string or a symbol, ``decimals()`` a u32; each is called once."""
        tokens, source = tokens_of(with_functions(given, u32(6)), "T")

        assert Token(contract("T"), "USTRY", 6) == tokens["T"]
        assert [ContractCall(contract("T"), name) for name in ("symbol", "decimals")] == source.calls

    @pytest.mark.parametrize(
        ("token_symbol", "decimals", "reason"),
        [
            ("HostError: Error(Contract, #1)", u32(7), "symbol() failed: HostError: Error(Contract, #1)"),
            (string("T"), "trap", "decimals() failed: trap"),
            (u32(1), u32(7), "symbol(): expected string, found u32"),
            (string("x" * 10_000), u32(7), "the symbol has 10000 characters, more than 200"),
        ],
    )
    def test_no_answer(self, token_symbol: ScVal | str, decimals: ScVal | str, reason: str) -> None:
        """A token that gives no usable answer says why, after why its METADATA was not used."""
        token = tokens_of(with_functions(token_symbol, decimals), "T")[0]["T"]

        assert (None, None) == (token.symbol, token.decimals)
        assert f"token instance: field METADATA is missing; {reason}" == token.failure

    @pytest.mark.parametrize(
        ("metadata", "why"),
        [
            ({"symbol": None}, "token instance.METADATA: field symbol is missing"),
            ({"decimal": i128(7)}, "token instance.METADATA: field decimal: expected u32, found i128"),
            ({"symbol": string("x" * 10_000)}, "the symbol has 10000 characters, more than 200"),
        ],
    )
    def test_unusable_metadata(self, metadata: dict[str, ScVal | None], why: str) -> None:
        """METADATA of another form is passed over for the functions; where those fail both reasons are reported."""
        ledger = MadeLedger()
        ledger.replace(token_instance("T", changes=metadata))
        failed = tokens_of(ledger, "T")[0]["T"]
        ledger.set_function("T", "symbol", string("good"))
        ledger.set_function("T", "decimals", u32(2))

        assert f"{why}; symbol() failed: HostError: Error(WasmVm, MissingValue)" == failed.failure
        assert Token(contract("T"), "good", 2) == tokens_of(ledger, "T")[0]["T"]
