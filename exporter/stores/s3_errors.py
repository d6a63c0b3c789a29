"""What an S3 server or the way to it refused, in one form for both clients, and what people are told of it."""

from __future__ import annotations

import re
import sys

from exporter.errors import ConfigError, ExporterError, StoreError

UNREACHABLE = "Unreachable"
TIMEOUT = "Timeout"
CUT_OFF = "CutOff"
UNTRUSTED = "Untrusted"
NO_CREDENTIALS = "NoCredentials"

_PASSING_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
_PASSING_CODES = frozenset(
    {
        TIMEOUT,
        UNREACHABLE,
        CUT_OFF,
        "ConditionalRequestConflict",
        "InternalError",
        "OperationAborted",
        "RequestTimeout",
        "ServiceUnavailable",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TooManyRequests",
    }
)
_BAD_CREDENTIALS = frozenset(
    {
        NO_CREDENTIALS,
        "ExpiredToken",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidToken",
        "SignatureDoesNotMatch",
        "TokenRefreshRequired",
    }
)
_OTHER_REGION = frozenset({"AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "PermanentRedirect"})

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z0-9]{1,64})</Code>")
_DEBUG = "\n\nDebug source:"


class RefusedError(Exception):
    """One request had no success. It never leaves this package: `explained` makes what people read of it.

    Attributes:
        status: the HTTP status, 0 where there was no answer.
        code: the server's word for it, or one of the constants of this module.
        attempts: how often the request was tried.
        doubtful: whether one of the attempts may have taken effect without an answer that says so.
    """

    def __init__(self, status: int, code: str) -> None:
        super().__init__(f"HTTP status {status} {code}" if status else code)
        self.status = status
        self.code = code
        self.attempts = 1
        self.doubtful = not status or status >= 500

    @property
    def passing(self) -> bool:
        """Whether the same request may succeed a little later."""
        return self.code in _PASSING_CODES or self.status in _PASSING_STATUSES

    @property
    def condition_failed(self) -> bool:
        """Whether something else stands under the key than the request was conditional on."""
        return self.status == 412 or self.absent

    @property
    def absent(self) -> bool:
        """Whether there is no object under the key."""
        return self.status == 404 and self.code in ("", "404", "NoSuchKey", "NotFound")


def refusal_of(error: BaseException) -> RefusedError | None:
    """Tell what boto3 or obstore report; None for an error that is neither's."""
    return error if isinstance(error, RefusedError) else _of_boto3(error) or _of_obstore(error)


def _of_boto3(error: BaseException) -> RefusedError | None:
    from botocore import exceptions as botocore
    from urllib3.exceptions import HTTPError

    if isinstance(error, HTTPError):  # botocore lets these out where an answer breaks off
        return RefusedError(0, CUT_OFF)
    if isinstance(error, botocore.ClientError):
        if error.operation_name.startswith(("AssumeRole", "GetRoleCredentials")):
            return RefusedError(0, NO_CREDENTIALS)
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return RefusedError(status, error.response.get("Error", {}).get("Code", ""))
    if isinstance(error, botocore.ReadTimeoutError | botocore.ConnectTimeoutError):
        return RefusedError(0, TIMEOUT)
    if isinstance(error, botocore.SSLError):
        return RefusedError(0, UNTRUSTED)
    if isinstance(error, botocore.IncompleteReadError | botocore.ResponseStreamingError):
        return RefusedError(0, CUT_OFF)
    if isinstance(error, botocore.HTTPClientError | botocore.ConnectionError):
        return RefusedError(0, UNREACHABLE)
    if isinstance(
        error,
        botocore.NoCredentialsError
        | botocore.PartialCredentialsError
        | botocore.CredentialRetrievalError
        | botocore.UnauthorizedSSOTokenError
        | botocore.SSOError
        | botocore.TokenRetrievalError,
    ):
        return RefusedError(0, NO_CREDENTIALS)
    if isinstance(error, botocore.BotoCoreError):
        return RefusedError(0, type(error).__name__)
    return None


def _of_obstore(error: BaseException) -> RefusedError | None:
    obstore = sys.modules.get("obstore.exceptions")  # what was never loaded cannot have raised anything
    if obstore is None or not isinstance(error, obstore.BaseError | FileNotFoundError | PermissionError):
        return None
    text = str(error).partition(_DEBUG)
    status = _STATUS.search(text[0])
    code = _CODE.search(text[0])
    if status is not None:
        return RefusedError(int(status[1]), "" if code is None else code[1])
    if "kind: Timeout" in text[2]:
        return RefusedError(0, TIMEOUT)
    if "HTTP error" in text[0]:
        return RefusedError(0, UNTRUSTED if "certificate" in text[2].lower() else UNREACHABLE)
    return RefusedError(0, NO_CREDENTIALS if "redential" in text[0] else type(error).__name__)


def explained(refused: RefusedError, action: str, bucket: str, key: str, right: str) -> ExporterError:
    """Say what was refused and what to do about it.

    Args:
        refused: what the server said.
        action: what was to be done, as a verb.
        bucket: the bucket.
        key: the key of the object in the bucket, a prefix, or nothing.
        right: the permission that the request needs.
    """
    code, status = refused.code, refused.status
    what = f"cannot {action} s3://{bucket}/{key}: "
    if code in _BAD_CREDENTIALS or status == 401:
        if code == NO_CREDENTIALS:
            return ConfigError(f"output.uri: no credentials for s3://{bucket}; {CREDENTIALS_ADVICE}")
        return ConfigError(f"output.uri: the credentials for s3://{bucket} are refused ({code}); {CREDENTIALS_ADVICE}")
    if code == "NoSuchBucket":
        return ConfigError(f"output.uri: there is no bucket {bucket} at this endpoint; create it, or correct the name")
    if code in _OTHER_REGION or status in (301, 307):
        return ConfigError(
            f"output.uri: the bucket {bucket} is in another region or at another endpoint ({code or status}); set "
            "AWS_REGION, and AWS_ENDPOINT_URL_S3 for a server that is not AWS"
        )
    if code == "RequestTimeTooSkewed":
        return ConfigError(f"{what}the clock of this machine is wrong; set it and run again")
    if status == 501 or code == "NotImplemented":
        return ConfigError(
            f"{what}the server does not implement this request (it needs {right}); use AWS S3, Cloudflare R2 or a "
            "recent Ceph RADOS Gateway"
        )
    if status == 403:
        return StoreError(f"{what}access is denied; allow {right} on the bucket and its objects to these credentials")
    if code == UNTRUSTED:
        return StoreError(f"{what}the server's certificate is not trusted; set AWS_CA_BUNDLE to the authority's file")
    if code in (TIMEOUT, UNREACHABLE, CUT_OFF):
        reason = {TIMEOUT: "no answer in time", CUT_OFF: "the answer broke off"}.get(code, "the server is not reached")
        return StoreError(
            f"{what}{reason} ({refused.attempts} tries); check AWS_REGION, AWS_ENDPOINT_URL_S3 and the network, and "
            "run again"
        )
    tries = f" ({refused.attempts} tries)" if refused.passing else ""
    return StoreError(f"{what}the server answers with {refused}{tries}; run again, and if it lasts look at the bucket")


CREDENTIALS_ADVICE = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, name a profile in AWS_PROFILE, or give the job a role "
    "(OIDC: AWS_ROLE_ARN and AWS_WEB_IDENTITY_TOKEN_FILE)"
)
