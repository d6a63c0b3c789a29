"""Errors of requests to an S3 bucket: what boto3 reports, and the text that people read."""

from __future__ import annotations

from exporter.errors import ConfigError, ExporterError, StoreError

UNREACHABLE = "Unreachable"
TIMEOUT = "Timeout"
CUT_OFF = "CutOff"
UNTRUSTED = "Untrusted"
NOT_S3 = "NotS3"
NO_CREDENTIALS = "NoCredentials"

_PASSING_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
_PASSING_CODES = frozenset(
    (
        *(TIMEOUT, UNREACHABLE, CUT_OFF, NOT_S3, "ConditionalRequestConflict", "InternalError", "OperationAborted"),
        *("RequestTimeout", "ServiceUnavailable", "SlowDown", "Throttling", "ThrottlingException", "TooManyRequests"),
    )
)
_BAD_CREDENTIALS = frozenset(
    (
        *(NO_CREDENTIALS, "ExpiredToken", "InvalidAccessKeyId", "InvalidClientTokenId", "InvalidToken"),
        *("SignatureDoesNotMatch", "TokenRefreshRequired"),
    )
)
_FULL = frozenset({"QuotaExceeded", "XMinioAdminBucketQuotaExceeded", "XMinioStorageFull"})
_OTHER_REGION = frozenset({"AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "PermanentRedirect"})

CREDENTIALS_ADVICE = (
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, name a profile in AWS_PROFILE, or give the job a role "
    "(OIDC: AWS_ROLE_ARN and AWS_WEB_IDENTITY_TOKEN_FILE)"
)


class RefusedError(Exception):
    """A request had no success. `explained` turns it into an error for people.

    Attributes:
        status: the HTTP status; 0 if there was no answer.
        code: the server's word for the error, or a constant of this module.
        attempts: how often the request was tried.
        may_have_worked: whether one of the tries may have taken effect, although it failed.
    """

    def __init__(self, status: int, code: str) -> None:
        super().__init__(f"HTTP status {status} {code}" if status else code)
        self.status = status
        self.code = code
        self.attempts = 1
        self.may_have_worked = not status or status >= 500

    @property
    def may_pass(self) -> bool:
        """Whether another try may succeed."""
        return self.code in _PASSING_CODES or self.status in _PASSING_STATUSES

    @property
    def condition_failed(self) -> bool:
        """Whether the object is not the one that the request made its condition."""
        return self.status == 412 or self.is_absent

    @property
    def is_absent(self) -> bool:
        """Whether there is no such object."""
        return self.status == 404 and self.code in ("", "404", "NoSuchKey", "NotFound")


def refusal_of(error: BaseException) -> RefusedError | None:
    """The report in an error of boto3; None for any other error."""
    if isinstance(error, RefusedError):
        return error
    from botocore import exceptions as botocore
    from botocore.parsers import ResponseParserError
    from urllib3.exceptions import HTTPError

    if isinstance(error, botocore.ClientError):
        if error.operation_name.startswith(("AssumeRole", "GetRoleCredentials")):
            return RefusedError(0, NO_CREDENTIALS)
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return RefusedError(status, error.response.get("Error", {}).get("Code", ""))
    no_credentials = (
        *(botocore.NoCredentialsError, botocore.PartialCredentialsError, botocore.CredentialRetrievalError),
        *(botocore.UnauthorizedSSOTokenError, botocore.SSOError, botocore.TokenRetrievalError),
    )
    # Ordered from special to general classes. HTTPError is urllib3's: botocore lets it out if an answer breaks off.
    codes: tuple[tuple[tuple[type[BaseException], ...], str], ...] = (
        ((HTTPError, botocore.IncompleteReadError, botocore.ResponseStreamingError), CUT_OFF),
        ((botocore.ReadTimeoutError, botocore.ConnectTimeoutError), TIMEOUT),
        ((botocore.SSLError,), UNTRUSTED),
        ((botocore.HTTPClientError, botocore.ConnectionError), UNREACHABLE),
        (no_credentials, NO_CREDENTIALS),
        ((botocore.BotoCoreError,), type(error).__name__),
        # boto3 lets these out if an answer lacks a field, has another type in it, or redirects to itself for ever.
        ((ResponseParserError, LookupError, RecursionError, TypeError, ValueError), NOT_S3),
    )
    return next((RefusedError(0, code) for kinds, code in codes if isinstance(error, kinds)), None)


def explained(refused: RefusedError, action: str, bucket: str, key: str, right: str) -> ExporterError:
    """The error for people: what could not be done, why, and what to do.

    Args:
        refused: what the server or boto3 reported.
        action: a verb, such as "read".
        bucket: the name of the bucket.
        key: the object or the prefix in the bucket.
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
            f"{what}the server does not implement this request (it needs {right}); use AWS S3, Cloudflare R2, MinIO, "
            "SeaweedFS or a recent Ceph RADOS Gateway"
        )
    if code in _FULL:
        return StoreError(
            f"{what}the bucket is full ({code}); raise its quota or remove what else is in it, and run again"
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
    if code == NOT_S3:
        return StoreError(
            f"{what}the answer is none that S3 gives ({refused.attempts} tries); check that AWS_ENDPOINT_URL_S3 is an "
            "S3 server, and not a page or a proxy in front of it, and run again"
        )
    tries = f" ({refused.attempts} tries)" if refused.may_pass else ""
    return StoreError(f"{what}the server answers with {refused}{tries}; run again, and if it lasts look at the bucket")
