"""What went wrong with a request to a bucket, and what people read of it."""

from __future__ import annotations

from exporter.errors import ConfigError, ExporterError, StoreError

UNREACHABLE = "Unreachable"
TIMEOUT = "Timeout"
CUT_OFF = "CutOff"
UNTRUSTED = "Untrusted"
NO_CREDENTIALS = "NoCredentials"

_PASSING_STATUSES = frozenset({408, 425, 429, 500, 502, 503, 504})
_PASSING_CODES = frozenset(
    (
        *(TIMEOUT, UNREACHABLE, CUT_OFF, "ConditionalRequestConflict", "InternalError", "OperationAborted"),
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
    """One request had no success; `explained` makes what people read of it.

    ``status`` is 0 where there was no answer; ``code`` is the server's word, or one of the constants of this module.
    ``doubtful`` says that one of the attempts may have taken effect.
    """

    def __init__(self, status: int, code: str) -> None:
        super().__init__(f"HTTP status {status} {code}" if status else code)
        self.status = status
        self.code = code
        self.attempts = 1
        self.doubtful = not status or status >= 500

    @property
    def passing(self) -> bool:
        return self.code in _PASSING_CODES or self.status in _PASSING_STATUSES

    @property
    def condition_failed(self) -> bool:
        """Whether something else is under the key than the request was conditional on."""
        return self.status == 412 or self.absent

    @property
    def absent(self) -> bool:
        return self.status == 404 and self.code in ("", "404", "NoSuchKey", "NotFound")


def refusal_of(error: BaseException) -> RefusedError | None:
    """Return what boto3 reports; None for an error that is not its own."""
    if isinstance(error, RefusedError):
        return error
    from botocore import exceptions as botocore
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
    # Of HTTPError, which botocore lets out where an answer breaks off, and of its own errors, the special ones first.
    codes: tuple[tuple[tuple[type[BaseException], ...], str], ...] = (
        ((HTTPError, botocore.IncompleteReadError, botocore.ResponseStreamingError), CUT_OFF),
        ((botocore.ReadTimeoutError, botocore.ConnectTimeoutError), TIMEOUT),
        ((botocore.SSLError,), UNTRUSTED),
        ((botocore.HTTPClientError, botocore.ConnectionError), UNREACHABLE),
        (no_credentials, NO_CREDENTIALS),
        ((botocore.BotoCoreError,), type(error).__name__),
    )
    return next((RefusedError(0, code) for kinds, code in codes if isinstance(error, kinds)), None)


def explained(refused: RefusedError, action: str, bucket: str, key: str, right: str) -> ExporterError:
    """``action`` is a verb, ``key`` an object, a prefix or nothing, ``right`` the permission that it needs."""
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
    tries = f" ({refused.attempts} tries)" if refused.passing else ""
    return StoreError(f"{what}the server answers with {refused}{tries}; run again, and if it lasts look at the bucket")
