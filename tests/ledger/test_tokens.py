"""Symbol and decimals of tokens, from METADATA or from the token's own functions."""

from __future__ import annotations

import asyncio

import pytest

from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import i128, string, struct_map, symbol, u32
from exporter.ledger.source import ContractCall
from exporter.ledger.tokens import MAX_SYMBOL_LENGTH, Token, read_tokens
from exporter.ledger.view import LedgerView, read_at_one_ledger
from tests.protocols.made_ledger import MadeLedger, Written, changed, contract, instance


def tokens_of(ledger: MadeLedger, *labels: str) -> dict[str, Token]:
    """Read tokens by label, through the one-ledger view; gives them by label."""

    async def program(view: LedgerView) -> dict[str, Token]:
        return dict(await read_tokens(view, map(contract, labels)))

    tokens = asyncio.run(read_at_one_ledger(ledger, program)).result
    return {label: tokens[contract(label)] for label in labels}


def token_instance(label: str, **changes: ScVal | None) -> Written:
    """A token's instance with METADATA; ``changes`` replace or remove fields of it."""
    fields = {"decimal": u32(7), "name": string("A token"), "symbol": string("USDC")}
    metadata = changed(struct_map(fields), changes)
    return instance(contract(label), [(symbol("METADATA"), metadata)], bytes(32))


def functions(token_symbol: ScVal | str, decimals: ScVal | str) -> dict[ContractCall, ScVal | bytes | str]:
    """The answers of a token T."""
    return {ContractCall(contract("T"), "symbol"): token_symbol, ContractCall(contract("T"), "decimals"): decimals}


def with_functions(token_symbol: ScVal | str, decimals: ScVal | str) -> MadeLedger:
    """A ledger with one token T that gives its metadata through its functions only."""
    return MadeLedger(instance(contract("T"), None, bytes(32)), results=functions(token_symbol, decimals))


class TestMetadata:
    def test_what_a_token_says(self) -> None:
        """Symbol and decimals are METADATA's, and nothing is called. Only the network's own code has an issuer."""
        issued = "USDC:GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZVN"

        def asset(label: str, code: str, name: str) -> Written:
            metadata = struct_map({"decimal": u32(7), "name": string(name), "symbol": string(code)})
            return instance(contract(label), [(symbol("METADATA"), metadata)], executable=scval.STELLAR_ASSET)

        ledger = MadeLedger(
            asset("N", "native", "native"),
            asset("U", "USDC", issued),
            token_instance("W", symbol=string("wETH"), decimal=u32(18), name=string(issued)),
        )
        tokens = tokens_of(ledger, "N", "U", "W")

        assert {
            "N": Token(contract("N"), "native", 7, name="native"),
            "U": Token(contract("U"), "USDC", 7, name=issued, issuer=issued[5:]),
            "W": Token(contract("W"), "wETH", 18, name=issued),
        } == tokens
        assert [] == ledger.calls

    @pytest.mark.parametrize(
        "name",
        [
            "a name without a colon",
            "USDC:",
            "USDC:GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZVM",
            "USDC:GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZVN:",
            f"USDC:{contract('T')}",
            "EURC:GA5ZSEJYB37JRC5AVCIA5MOP4RHTM335X2KGX3IHOJAPP5RE34K4KZVN",
            "USDC:é" + "G" * 55,
        ],
        ids=["no colon", "nothing", "checksum", "more", "a contract", "another code", "not ASCII"],
    )
    def test_an_odd_asset_contract_is_a_token_without_issuer(self, name: str) -> None:
        """An asset contract whose name is not its code and the strkey of an account has no issuer, and is a token."""
        metadata = struct_map({"decimal": u32(7), "name": string(name), "symbol": string("USDC")})
        ledger = MadeLedger(instance(contract("T"), [(symbol("METADATA"), metadata)], executable=scval.STELLAR_ASSET))

        assert Token(contract("T"), "USDC", 7, name=name) == tokens_of(ledger, "T")["T"]

    @pytest.mark.parametrize("name", [None, string(""), string("x" * (MAX_SYMBOL_LENGTH + 1))])
    def test_a_token_without_usable_name_is_still_a_token(self, name: ScVal | None) -> None:
        """A token without a name, or with one that would fill every page, has no name and is still a token."""
        ledger = MadeLedger(token_instance("T", name=name))

        assert Token(contract("T"), "USDC", 7) == tokens_of(ledger, "T")["T"]

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
    def test_an_odd_symbol_stays_as_the_token_says(self, content: bytes, expected: str) -> None:
        """A symbol is what the token says, however odd; bytes that are no UTF-8 show as escapes."""
        assert expected == tokens_of(MadeLedger(token_instance("T", symbol=(scval.STRING, content))), "T")["T"].symbol


class TestFunctions:
    """Tokens without METADATA are asked."""

    @pytest.mark.parametrize("given", [string("USTRY"), symbol("USTRY")], ids=["string", "symbol"])
    def test_symbol_and_decimals_are_each_called_once(self, given: ScVal) -> None:
        """``symbol()`` may give a string or a symbol, ``decimals()`` a u32; each is called once."""
        ledger = with_functions(given, u32(6))

        assert Token(contract("T"), "USTRY", 6) == tokens_of(ledger, "T")["T"]
        assert [ContractCall(contract("T"), name) for name in ("symbol", "decimals")] == ledger.calls

    @pytest.mark.parametrize(
        ("token_symbol", "decimals", "reason"),
        [
            ("HostError: Error(Contract, #1)", u32(7), "symbol() failed: HostError: Error(Contract, #1)"),
            (string("T"), "trap", "decimals() failed: trap"),
            (u32(1), u32(7), "symbol(): expected string, found u32"),
            (string("x" * 10_000), u32(7), "the symbol has 10000 characters, more than 200"),
            (string("T"), u32(39), "the token has 39 decimals, more than 38"),
            (string("T"), u32(2**32 - 1), "the token has 4294967295 decimals, more than 38"),
        ],
    )
    def test_a_token_without_usable_answer_gives_both_reasons(
        self, token_symbol: ScVal | str, decimals: ScVal | str, reason: str
    ) -> None:
        """A token that gives no usable answer says why, after why its METADATA was not used."""
        token = tokens_of(with_functions(token_symbol, decimals), "T")["T"]

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
    def test_unusable_metadata_falls_back_to_the_functions(self, metadata: dict[str, ScVal | None], why: str) -> None:
        """METADATA of another form is passed over for the functions; if those fail, both reasons are reported."""
        ledger = MadeLedger(token_instance("T", **metadata))
        failed = tokens_of(ledger, "T")["T"]
        ledger.results = functions(string("good"), u32(2))

        assert f"{why}; symbol() failed: HostError: Error(WasmVm, MissingValue)" == failed.failure
        assert Token(contract("T"), "good", 2) == tokens_of(ledger, "T")["T"]
