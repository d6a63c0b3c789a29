"""The container, the units of systemd, the template of CloudFormation and the Worker, each judged by its own tool."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from exporter.config import Settings
from exporter.serve.edge import render_edge
from exporter.tree.families import FAMILIES

ROOT = Path(__file__).parents[2]
INSTALLED = ROOT / "build" / "templates"

RIGHTS = {
    "get_object": "s3:GetObject",
    "head_object": "s3:GetObject",
    "put_object": "s3:PutObject",
    "delete_object": "s3:DeleteObject",
    "delete_objects": "s3:DeleteObject",
    "list_objects_v2": "s3:ListBucket",
}
"""The right that S3 asks for each request that the store makes."""


def judged(program: str, *arguments: str | Path, cwd: Path = ROOT) -> None:
    """Run a linter, which has nothing to say; skip where it is not installed."""
    found = next((path for path in (INSTALLED / "bin" / program, INSTALLED / program) if path.is_file()), None)
    found = found or (Path(path) if (path := shutil.which(program)) else None)
    if found is None:
        pytest.skip(f"{Path(program).name} is not installed; scripts/suite templates does that or says how")
    ran = subprocess.run([found, *arguments], cwd=cwd, capture_output=True, text=True, timeout=180, check=False)
    assert 0 == ran.returncode, ran.stdout + ran.stderr


def cloudformation() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(render_edge("cloudfront", Settings(), root=None, origin=None)["template.json"])
    return found


def statements(document: dict[str, Any]) -> list[dict[str, Any]]:
    assert "2012-10-17" == document["Version"]
    found: list[dict[str, Any]] = document["Statement"]
    return found


@pytest.mark.slow
def test_cfn_lint_accepts_the_template(tmp_path: Path) -> None:
    """CloudFormation's linter has nothing to say, and the template can be uploaded by itself."""
    path = tmp_path / "template.json"
    path.write_text(render_edge("cloudfront", Settings(), root=None, origin=None)["template.json"])

    assert 51_200 > path.stat().st_size
    # W1030: the empty certificate is only used where there is a host name.
    judged("cfn-lint", "--ignore-checks", "W1030", "--regions", "us-east-1", "--template", path)


def test_an_alias_needs_a_certificate() -> None:
    """A stack with a host name and no certificate for it is refused before anything is made."""
    (rule,) = cloudformation()["Rules"].values()
    (assertion,) = rule["Assertions"]

    assert {"Fn::Not": [{"Fn::Equals": [{"Ref": "Alias"}, ""]}]} == rule["RuleCondition"]
    assert {"Fn::Not": [{"Fn::Equals": [{"Ref": "CertificateArn"}, ""]}]} == assertion["Assert"]


def test_the_role_has_exactly_the_rights_that_the_store_uses() -> None:
    """The requests in the store's code need the actions of the policy, and the policy has no others."""
    code = "".join(path.read_text() for path in (ROOT / "exporter" / "stores").glob("s3_*.py"))
    made = {name for name in re.findall(r"\bboto\.(\w+)", code) if "_object" in name}
    (policy,) = cloudformation()["Resources"]["Role"]["Properties"]["Policies"]
    actions = [each["Action"] for each in statements(policy["PolicyDocument"])]
    allowed = {name for action in actions for name in ([action] if isinstance(action, str) else action)}

    assert set() == made - set(RIGHTS)
    assert {RIGHTS[name] for name in made} == allowed


def test_the_trust_is_in_one_branch_of_one_repository() -> None:
    """The subject and the audience are compared whole, without wildcards, and the parameters take none."""
    template = cloudformation()
    (statement,) = statements(template["Resources"]["Role"]["Properties"]["AssumeRolePolicyDocument"])

    assert {
        "StringEquals": {
            "token.actions.githubusercontent.com:aud": "sts.amazonaws.com",
            "token.actions.githubusercontent.com:sub": {"Fn::Sub": "repo:${Repository}:ref:refs/heads/${Branch}"},
        }
    } == statement["Condition"]
    assert [] == [
        text
        for name, text in (("Repository", "a/*"), ("Repository", "*"), ("Branch", "*"), ("Branch", "a?"))
        if re.fullmatch(template["Parameters"][name]["AllowedPattern"], text)
    ]


def test_readers_get_the_tree_and_not_the_publishers_records() -> None:
    """Only the two distributions may read, all but the families that are not public, and only over TLS."""
    policy = statements(cloudformation()["Resources"]["BucketPolicy"]["Properties"]["PolicyDocument"])
    allowed, denied, encrypted = policy

    assert ["Allow", "Deny", "Deny"] == [statement["Effect"] for statement in policy]
    assert ["${Api}", "${Missing}"] == [
        arn["Fn::Sub"].rpartition("/")[2] for arn in allowed["Condition"]["StringEquals"]["AWS:SourceArn"]
    ]
    assert sum(not family.public for family in FAMILIES) == len(denied["Resource"])
    assert ("*", {"Bool": {"aws:SecureTransport": "false"}}) == (encrypted["Principal"], encrypted["Condition"])


def test_a_bucket_outlives_its_stack() -> None:
    """Deleting the stack keeps the history; the only lifecycle rule ends uploads, and deletes nothing of the tree."""
    bucket = cloudformation()["Resources"]["Bucket"]
    (rule,) = bucket["Properties"]["LifecycleConfiguration"]["Rules"]

    assert ("Retain", "Retain") == (bucket["DeletionPolicy"], bucket["UpdateReplacePolicy"])
    assert {"Id", "Status", "AbortIncompleteMultipartUpload"} == set(rule)


def test_wrangler_accepts_the_worker(tmp_path: Path) -> None:
    """Cloudflare's own tool bundles the Worker with its bucket, without sending anything."""
    shutil.copy(ROOT / "templates" / "cloudflare" / "wrangler.toml", tmp_path)
    (tmp_path / "worker.js").write_text(render_edge("cloudflare", Settings(), root=None, origin=None)["worker.js"])

    judged("node_modules/.bin/wrangler", "deploy", "--dry-run", "--outdir", "built", cwd=tmp_path)
    assert list((tmp_path / "built").glob("*.js"))


def test_hadolint_accepts_the_dockerfile() -> None:
    """The Dockerfile's linter has nothing to say."""
    judged("hadolint", "Dockerfile")


def test_the_image_is_built_from_what_is_not_ignored() -> None:
    """The builder gets the files that the Dockerfile copies, and no others; tests/test_wheel.py builds from them."""
    copied = {
        name.rstrip("/")
        for line in re.findall(r"^COPY (?!--from)(.*)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
        for name in line.split()[:-1]
    }
    lines = (ROOT / ".dockerignore").read_text().splitlines()

    assert ("*", copied) == (lines[0], {line[1:] for line in lines if line.startswith("!")})


def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    """The service and its timer are valid, and the command is one that exists."""
    for path in (ROOT / "templates" / "systemd").iterdir():
        (tmp_path / path.name).write_text(
            path.read_text()
            .replace("/opt/exporter/.venv/bin/exporter", "/bin/true")
            .replace("=exporter\n", "=root\n", 1)
        )

    judged("systemd-analyze", "verify", "--man=no", tmp_path / "exporter.timer", tmp_path / "exporter.service")
