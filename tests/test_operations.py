"""docs/operations.md says what is: its policies, its tables, its names."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests import bucket_policy_reference, costs
from tests.workflows.act import load

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "operations.md").read_text()

RIGHTS = {
    "get_object": "s3:GetObject",
    "head_object": "s3:GetObject",
    "put_object": "s3:PutObject",
    "delete_object": "s3:DeleteObject",
    "delete_objects": "s3:DeleteObject",
    "list_objects_v2": "s3:ListBucket",
    "abort_multipart_upload": "s3:AbortMultipartUpload",
    "list_multipart_uploads": "s3:ListBucketMultipartUploads",
}
"""The right that S3 asks for each request that the store makes."""


def block(name: str) -> dict[str, Any]:
    """A block of JSON by its name."""
    (text,) = re.findall(rf"^```json {name}\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    content: dict[str, Any] = json.loads(text)
    return content


def test_the_bucket_policy_is_that_of_the_table() -> None:
    """The policy on the page follows from the table of the tree's keys; scripts/docs writes it."""
    assert bucket_policy_reference.written(TEXT) == TEXT
    assert "EMISSINGEXAMPLE" in TEXT


def texts(value: str | list[str]) -> list[str]:
    """One text or a list of them, as a list."""
    return [value] if isinstance(value, str) else value


@pytest.mark.parametrize("name", ["bucket-policy", "trust-policy", "permissions"])
def test_policies_allow_what_they_name(name: str) -> None:
    """Each policy is JSON of the language's version, allows no wildcard of actions, and nobody without a condition."""
    policy = block(name)

    assert "2012-10-17" == policy["Version"]
    for statement in policy["Statement"]:
        assert set(statement) <= {"Sid", "Effect", "Principal", "Action", "Resource", "Condition"}
        assert [] == [action for action in texts(statement["Action"]) if "*" in action]
        if statement["Effect"] == "Allow":
            assert "*" != statement.get("Principal")
            assert "Condition" in statement or "Principal" not in statement
            assert "*" not in texts(statement.get("Resource", []))


def test_every_block_of_json_is_tested() -> None:
    """No block of JSON on the page is without a name."""
    assert ["lifecycle", "bucket-policy", "trust-policy", "permissions"] == re.findall(r"^```json ?(.*)$", TEXT, re.M)


def test_the_role_has_exactly_the_rights_that_the_store_uses() -> None:
    """The requests in the store's code need the actions of the policy, and the policy has no others."""
    code = "".join(path.read_text() for path in (ROOT / "exporter" / "stores").glob("s3_*.py"))
    made = {name for name in re.findall(r"\bboto\.(\w+)\(", code) if "_object" in name or "multipart" in name}
    allowed = {action for statement in block("permissions")["Statement"] for action in texts(statement["Action"])}

    assert set() == made - set(RIGHTS)
    assert {RIGHTS[name] for name in made} == allowed


def test_the_trust_is_in_one_branch_of_one_repository() -> None:
    """The subject and the audience are compared whole, without wildcards."""
    (statement,) = block("trust-policy")["Statement"]

    assert {"StringEquals"} == set(statement["Condition"])
    assert {
        "token.actions.githubusercontent.com:aud": "sts.amazonaws.com",
        "token.actions.githubusercontent.com:sub": "repo:OWNER/REPOSITORY:ref:refs/heads/main",
    } == statement["Condition"]["StringEquals"]


def test_unfinished_uploads_end() -> None:
    """The lifecycle rule ends uploads, and deletes nothing of the tree."""
    (rule,) = block("lifecycle")["Rules"]

    assert {"ID", "Status", "Filter", "AbortIncompleteMultipartUpload"} == set(rule)


def test_the_four_variables_are_those_of_the_workflow() -> None:
    """The page names the variables and secrets that the workflows read, and says no others."""
    rows = set(re.findall(r"^   \| `(\w+)` \|", TEXT, re.MULTILINE))
    read = set(re.findall(r"(?:vars|secrets)\.(\w+)", json.dumps(load("export"), default=str)))
    pages = set(re.findall(r"(?:vars|secrets)\.(\w+)", json.dumps(load("pages"), default=str)))

    assert {"EXPORTER_OUT", "EXPORTER_RPC_URLS", "AWS_ROLE_ARN", "AWS_REGION"} == rows
    assert [] == [name for name in read | pages if f"`{name}`" not in TEXT]


def test_costs_are_those_of_the_formula() -> None:
    """The tables on the page are what `python -m tests.costs` prints; scripts/docs writes them."""
    assert costs.written(TEXT) == TEXT
    assert costs.tables() in TEXT


def test_prices_are_those_that_the_page_names() -> None:
    """Every price in the formula is stated beside the tables."""
    prices = (costs.PER_1000_PUTS, costs.PER_1000_GETS, costs.PER_GIGABYTE_MONTH, costs.PER_GIGABYTE_OUT)

    assert [] == [price for price in (*prices, costs.PER_10000_QUESTIONS) if f"{price:g}" not in TEXT]


def test_what_a_run_writes_is_still_what_was_measured() -> None:
    """The smaller network, measured now, is within a fifth of what the formula has: python -m tests.costs --measure."""
    now = costs.measure(50)

    for name in ("documents", "aliases", "pages", "histories", "document_bytes", "page_bytes"):
        assert pytest.approx(getattr(costs.SMALL, name), rel=0.2) == getattr(now, name), name
