"""All that a published tree needs on AWS as one CloudFormation template: bucket, role of the run, and distributions.

The template is made from the same functions, policies and error responses that `exporter edge cloudfront` writes one by
one, so it holds the page sizes, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from exporter.tree.families import FAMILIES

TREE = "arn:aws:s3:::${BucketName}/${Prefix}/"
BUCKET = "arn:aws:s3:::${BucketName}"
ISSUER = "token.actions.githubusercontent.com"

_PARAMETERS: dict[str, dict[str, str]] = {
    "BucketName": {"Description": "The bucket to make", "AllowedPattern": "[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"},
    "Prefix": {
        "Description": "The folder of the tree in the bucket",
        "Default": "live",
        "AllowedPattern": "[A-Za-z0-9_-][A-Za-z0-9_./-]*[A-Za-z0-9_-]",
    },
    "Repository": {
        "Description": "The repository whose workflow publishes: OWNER/NAME",
        "AllowedPattern": "[^/*?]+/[^/*?]+",
    },
    "Branch": {"Description": "Its branch", "Default": "main", "AllowedPattern": "[^*?]+"},
    "ProviderArn": {"Description": "The account's identity provider for GitHub; empty: make it", "Default": ""},
    "Alias": {"Description": "The host name of the API; empty: that of CloudFront", "Default": ""},
    "CertificateArn": {"Description": "With Alias: its certificate, in us-east-1", "Default": ""},
}


def template(scripts: Mapping[str, str], policies: Mapping[str, Any]) -> dict[str, Any]:
    """The template.

    Args:
        scripts: the code of the functions ``api`` and ``missing``.
        policies: as the API of CloudFront takes them, ``cache``, ``headers``, ``group``, and the error responses
            ``api`` and ``missing``.
    """
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": "Lending markets: bucket, role and distributions. Made by `exporter edge cloudfront`.",
        "Parameters": {name: {"Type": "String", **more} for name, more in _PARAMETERS.items()},
        "Conditions": {
            "MakesProvider": {"Fn::Equals": [{"Ref": "ProviderArn"}, ""]},
            "HasAlias": {"Fn::Not": [{"Fn::Equals": [{"Ref": "Alias"}, ""]}]},
        },
        "Resources": {**_bucket(), **_role(), **_distributions(scripts, policies)},
        "Outputs": {
            "Out": {"Description": "EXPORTER_OUT", "Value": _sub("s3://${BucketName}/${Prefix}")},
            "RoleArn": {"Description": "AWS_ROLE_ARN", "Value": {"Fn::GetAtt": ["Role", "Arn"]}},
            "Host": {"Description": "The host of the API", "Value": {"Fn::GetAtt": ["Api", "DomainName"]}},
        },
    }


def _sub(text: str) -> dict[str, str]:
    return {"Fn::Sub": text}


def _resource(kind: str, properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"Type": f"AWS::{kind}", **more, "Properties": properties}


def _bucket() -> dict[str, Any]:
    """A private bucket without versions, in which unfinished uploads end, and who may read it: the distributions."""
    records = sorted(
        TREE + family.prefix + ("*" if family.prefix != family.template else "")
        for family in FAMILIES
        if not family.public
    )
    reader = {"Service": "cloudfront.amazonaws.com"}
    arns = [_sub(f"arn:aws:cloudfront::${{AWS::AccountId}}:distribution/${{{name}}}") for name in ("Api", "Missing")]
    statements: list[dict[str, Any]] = [
        {
            "Sid": "ReadThroughTheDistributions",
            "Effect": "Allow",
            "Principal": reader,
            "Action": "s3:GetObject",
            "Resource": _sub(f"{TREE}*"),
            "Condition": {"StringEquals": {"AWS:SourceArn": arns}},
        },
        {
            "Sid": "ButNotThePublishersRecords",
            "Effect": "Deny",
            "Principal": reader,
            "Action": "s3:GetObject",
            "Resource": [_sub(record) for record in records],
        },
        {
            "Sid": "OnlyEncryptedConnections",
            "Effect": "Deny",
            "Principal": "*",
            "Action": ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:ListBucket"],
            "Resource": [_sub(BUCKET), _sub(f"{BUCKET}/*")],
            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        },
    ]
    unfinished = {
        "Id": "unfinished-uploads",
        "Status": "Enabled",
        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1},
    }
    return {
        "Bucket": _resource(
            "S3::Bucket",
            {
                "BucketName": {"Ref": "BucketName"},
                "PublicAccessBlockConfiguration": dict.fromkeys(
                    ("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets"), True
                ),
                "OwnershipControls": {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]},
                "BucketEncryption": {
                    "ServerSideEncryptionConfiguration": [{"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]
                },
                "LifecycleConfiguration": {"Rules": [unfinished]},
            },
            DeletionPolicy="Retain",
            UpdateReplacePolicy="Retain",
        ),
        "BucketPolicy": _resource(
            "S3::BucketPolicy", {"Bucket": {"Ref": "Bucket"}, "PolicyDocument": _policy(statements)}
        ),
    }


def _policy(statements: list[dict[str, Any]]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": statements}


def _role() -> dict[str, Any]:
    """The role that GitHub vouches for, of one branch of one repository, with the rights that the store uses."""
    provider = {"Fn::If": ["MakesProvider", {"Ref": "Provider"}, {"Ref": "ProviderArn"}]}
    subject = _sub("repo:${Repository}:ref:refs/heads/${Branch}")
    trust = {
        "Effect": "Allow",
        "Principal": {"Federated": provider},
        "Action": "sts:AssumeRoleWithWebIdentity",
        "Condition": {"StringEquals": {f"{ISSUER}:aud": "sts.amazonaws.com", f"{ISSUER}:sub": subject}},
    }
    rights: list[dict[str, Any]] = [
        {
            "Effect": "Allow",
            "Action": ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"],
            "Resource": _sub(f"{TREE}*"),
        },
        {
            "Effect": "Allow",
            "Action": "s3:ListBucket",
            "Resource": _sub(BUCKET),
            "Condition": {"StringLike": {"s3:prefix": _sub("${Prefix}/*")}},
        },
        {"Effect": "Allow", "Action": "s3:ListBucketMultipartUploads", "Resource": _sub(BUCKET)},
    ]
    return {
        "Provider": _resource(
            "IAM::OIDCProvider",
            {"Url": f"https://{ISSUER}", "ClientIdList": ["sts.amazonaws.com"]},
            Condition="MakesProvider",
        ),
        "Role": _resource(
            "IAM::Role",
            {
                "AssumeRolePolicyDocument": _policy([trust]),
                "MaxSessionDuration": 3600,
                "Policies": [{"PolicyName": "publish", "PolicyDocument": _policy(rights)}],
            },
        ),
    }


def _distributions(scripts: Mapping[str, str], policies: Mapping[str, Any]) -> dict[str, Any]:
    """Two distributions, the API's and the one that answers for what is missing, with their functions and policies."""
    tree = {
        "Id": "tree",
        "DomainName": {"Fn::GetAtt": ["Bucket", "RegionalDomainName"]},
        "OriginPath": _sub("/${Prefix}"),
        "OriginAccessControlId": {"Fn::GetAtt": ["Access", "Id"]},
        "S3OriginConfig": {},
    }
    missing = {
        "Id": "missing",
        "DomainName": {"Fn::GetAtt": ["Missing", "DomainName"]},
        "CustomOriginConfig": {"OriginProtocolPolicy": "https-only", "OriginSSLProtocols": ["TLSv1.2"]},
    }
    certificate = {
        "Fn::If": [
            "HasAlias",
            {
                "AcmCertificateArn": {"Ref": "CertificateArn"},
                "SslSupportMethod": "sni-only",
                "MinimumProtocolVersion": "TLSv1.2_2021",
            },
            {"CloudFrontDefaultCertificate": True},
        ]
    }
    headers = dict(policies["headers"])
    cors = headers["CorsConfig"]
    headers["CorsConfig"] = {
        key: {"Items": value["Items"]} if isinstance(value, dict) else value for key, value in cors.items()
    }
    functions = {
        f"{name.capitalize()}Function": _resource(
            "CloudFront::Function",
            {
                "Name": _sub("${AWS::StackName}-" + name),
                "AutoPublish": True,
                "FunctionCode": script,
                "FunctionConfig": {"Comment": "exporter", "Runtime": "cloudfront-js-2.0"},
            },
        )
        for name, script in scripts.items()
    }
    return {
        "Access": _resource(
            "CloudFront::OriginAccessControl",
            {
                "OriginAccessControlConfig": {
                    "Name": _sub("${AWS::StackName}"),
                    "OriginAccessControlOriginType": "s3",
                    "SigningBehavior": "always",
                    "SigningProtocol": "sigv4",
                }
            },
        ),
        "CachePolicy": _resource(
            "CloudFront::CachePolicy", {"CachePolicyConfig": {**policies["cache"], "Name": _sub("${AWS::StackName}")}}
        ),
        "HeadersPolicy": _resource(
            "CloudFront::ResponseHeadersPolicy",
            {"ResponseHeadersPolicyConfig": {**headers, "Name": _sub("${AWS::StackName}")}},
        ),
        **functions,
        "Missing": _distribution("Missing", "tree", [tree], _errors(policies["missing"])),
        "Api": _distribution(
            "Api",
            policies["group"]["Items"][0]["Id"],
            [tree, missing],
            _errors(policies["api"]),
            OriginGroups=policies["group"],
            Aliases={"Fn::If": ["HasAlias", [{"Ref": "Alias"}], {"Ref": "AWS::NoValue"}]},
            ViewerCertificate=certificate,
        ),
    }


def _distribution(
    name: str, target: str, origins: list[dict[str, Any]], errors: list[dict[str, Any]], **more: Any
) -> dict[str, Any]:
    methods = ["GET", "HEAD", "OPTIONS"]
    behavior = {
        "TargetOriginId": target,
        "ViewerProtocolPolicy": "redirect-to-https",
        # All seven at the API, so that its function can refuse in JSON.
        "AllowedMethods": methods if name == "Missing" else [*methods, "PUT", "POST", "PATCH", "DELETE"],
        "CachedMethods": methods,
        "Compress": True,
        "CachePolicyId": {"Ref": "CachePolicy"},
        "ResponseHeadersPolicyId": {"Ref": "HeadersPolicy"},
        "FunctionAssociations": [
            {"EventType": "viewer-request", "FunctionARN": {"Fn::GetAtt": [f"{name}Function", "FunctionARN"]}}
        ],
    }
    config = {
        "Enabled": True,
        "HttpVersion": "http2and3",
        "IPV6Enabled": True,
        "Origins": origins,
        "DefaultCacheBehavior": behavior,
        "CustomErrorResponses": errors,
        **more,
    }
    return _resource("CloudFront::Distribution", {"DistributionConfig": config})


def _errors(responses: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Error responses as CloudFormation takes them: codes are numbers, and what is empty is left out."""
    return [
        {key: int(value) if key == "ResponseCode" else value for key, value in item.items() if value != ""}
        for item in responses["Items"]
    ]
