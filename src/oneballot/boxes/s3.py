"""A box in object storage, `s3://BUCKET/FOLDER`: Amazon S3 and compatible servers.

An object appears complete or not at all, whether it is sent in one request or in parts. Every delivery asks the server
not to overwrite (`If-None-Match: *`). Credentials come from the usual places: AWS_* variables, ~/.aws, the machine's
role, or fsspec's configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

from ..errors import BoxError
from ._remote import Remote
from ._retry import is_transient
from ._transfer import PIECE

_TRANSIENT = {"SlowDown", "InternalError", "ServiceUnavailable", "RequestTimeout", "ConditionalRequestConflict", "409"}
_TRANSIENT |= {"500", "502", "503", "504", "429"}
_UNREADABLE = {"AccessDenied", "403", "NoSuchKey", "404"}
MAX_PARTS = 9_999


class S3(Remote):
    name: ClassVar[str] = "s3"
    extra: ClassVar[str] = "s3"

    def _prepare(self) -> None:
        import botocore.exceptions as errors
        from aiohttp import ClientPayloadError
        from fsspec.config import conf
        from s3fs import S3FileSystem

        if self.address.user is not None:
            raise BoxError("an s3:// address cannot hold keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY instead")
        self._bucket, self._folder = self.address.host, self.address.folder.strip("/")
        defaults = {"retries": {"max_attempts": 0}, "connect_timeout": 30, "read_timeout": 60}
        settings = defaults | conf.get("s3", {}).get("config_kwargs", {})
        self._s3: Any = S3FileSystem(config_kwargs=settings, skip_instance_cache=True, use_listings_cache=False)
        self._s3.retries = 1  # Remote retries
        self._transient = (
            errors.HTTPClientError,
            errors.ConnectionError,
            errors.IncompleteReadError,
            ClientPayloadError,
        )
        self.failures = (OSError, errors.BotoCoreError, errors.ClientError, *self._transient)

    def _call(self, method: str, file: str | None = None, **arguments: Any) -> Any:
        if file is not None:
            arguments["Key"] = self._key(file)
        try:
            return self._s3.call_s3(method, Bucket=self._bucket, **arguments)
        except OSError as error:
            if _code(error) in ("PreconditionFailed", "412"):
                raise FileExistsError from error
            raise

    def _key(self, file: str) -> str:
        return f"{self._folder}/{file}" if self._folder else file

    def _list(self) -> Iterator[tuple[str, int]]:
        """List page by page, so that the caller can stop at its limit."""
        prefix = self._key("")
        token: dict[str, str] = {}
        while True:
            page = self._call("list_objects_v2", Prefix=prefix, Delimiter="/", **token)
            for entry in page.get("Contents", ()):
                yield entry["Key"].removeprefix(prefix), entry["Size"]
            if not page.get("IsTruncated"):
                return
            token = {"ContinuationToken": page["NextContinuationToken"]}

    def _read(self, file: str, start: int) -> _Object:
        return _Object(self._s3, self._call("get_object", file, **({"Range": f"bytes={start}-"} if start else {})))

    def _upload(self, file: str, sealed: bytes, part: str, report: Callable[[int], None]) -> None:
        readable = self.check_free(lambda: self._call("head_object", file))
        put = partial(self._call, "put_object", IfNoneMatch="*")
        self.check_overwrite(readable, lambda name: put(name, Body=b"oneballot\n"))
        if len(sealed) > PIECE:
            self._upload_in_parts(file, sealed, report)
        else:
            put(file, Body=sealed)

    def _upload_in_parts(self, file: str, sealed: bytes, report: Callable[[int], None]) -> None:
        """Each part has its own retries: after a lost connection, only the current part is sent again."""
        upload = self._call("create_multipart_upload", file)["UploadId"]
        size = max(PIECE, -(-len(sealed) // MAX_PARTS))
        parts = []
        try:
            for number, start in enumerate(range(0, len(sealed), size), start=1):
                arguments = {"UploadId": upload, "PartNumber": number, "Body": sealed[start : start + size]}
                send = partial(self._call, "upload_part", file, **arguments)
                reply = self.attempt(f"cannot put a ballot into {self}", send)
                parts.append({"PartNumber": number, "ETag": reply["ETag"]})
                report(start)
            self._call(
                "complete_multipart_upload", file, UploadId=upload, MultipartUpload={"Parts": parts}, IfNoneMatch="*"
            )
        except BaseException:
            with suppress(*self.failures):
                self._call("abort_multipart_upload", file, UploadId=upload)
            raise

    def _clean_up(self, file: str, part: str) -> None:
        """Parts of interrupted uploads are invisible, but are billed."""
        for upload in self._call("list_multipart_uploads", Prefix=self._key(file)).get("Uploads", ()):
            if upload["Key"] == self._key(file):
                self._call("abort_multipart_upload", file, UploadId=upload["UploadId"])

    def _is_transient(self, error: Exception) -> bool:
        return _code(error) in _TRANSIENT or is_transient(error, self._transient)

    def _is_unreadable(self, error: Exception) -> bool:
        return _code(error) in _UNREADABLE


class _Object:
    """An object, read in pieces, so that a server that sends too much cannot fill the memory."""

    def __init__(self, s3: Any, reply: Any) -> None:
        self._s3, self._body = s3, reply["Body"]
        self.version, self.size = str(reply["ETag"]), int(reply["ContentLength"])

    def read(self, size: int) -> bytes:
        from fsspec.asyn import sync

        data: bytes = sync(self._s3.loop, self._body.read, size)
        return data

    def close(self) -> None:
        self._s3.loop.call_soon_threadsafe(self._body.close)  # connections belong to the loop's thread


def _code(error: BaseException | None) -> str:
    """S3's error code; empty for other errors."""
    while error is not None:
        reply = getattr(error, "response", None)
        if isinstance(reply, dict):
            return str(reply.get("Error", {}).get("Code", ""))
        error = error.__cause__
    return ""


plugin = S3
