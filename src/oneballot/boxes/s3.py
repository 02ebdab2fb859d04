"""A box in object storage, `s3://BUCKET/FOLDER`: Amazon S3, and servers that speak as it does.

An object is there whole or not at all, whether it came in one request or in many pieces. That none is replaced is asked
of the server with every delivery (`If-None-Match: *`). Who may do what is up to the usual places: AWS_* variables,
~/.aws, the machine's role, or fsspec's own configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

from ..errors import BoxError
from ._patience import passes
from ._remote import Remote
from ._transfer import PIECE

_MORE = {"SlowDown", "InternalError", "ServiceUnavailable", "RequestTimeout", "ConditionalRequestConflict", "409"}
_MORE |= {"500", "502", "503", "504", "429"}
_DENIED = {"AccessDenied", "403", "NoSuchKey", "404"}


class S3(Remote):
    name: ClassVar[str] = "s3"
    extra: ClassVar[str] = "s3"

    def _prepare(self) -> None:
        import botocore.exceptions
        from aiohttp import ClientPayloadError
        from fsspec.config import conf
        from s3fs import S3FileSystem

        if self.address.user is not None:
            raise BoxError("keys do not belong into an s3:// address: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
        self._bucket, self._folder = self.address.host, self.address.folder.strip("/")
        own = {"retries": {"max_attempts": 0}, "connect_timeout": 30, "read_timeout": 60}
        settings = conf.get("s3", {}).get("config_kwargs", {})
        self._s3: Any = S3FileSystem(config_kwargs=own | settings, skip_instance_cache=True, use_listings_cache=False)
        self._s3.retries = 1  # one patience is enough
        known = botocore.exceptions
        self._cuts = (known.HTTPClientError, known.ConnectionError, known.IncompleteReadError, ClientPayloadError)
        self.failures = (OSError, known.BotoCoreError, known.ClientError, *self._cuts)

    def _call(self, method: str, file: str | None = None, **words: Any) -> Any:
        if file is not None:
            words["Key"] = self._key(file)
        try:
            return self._s3.call_s3(method, Bucket=self._bucket, **words)
        except OSError as error:
            if _code(error) in ("PreconditionFailed", "412"):
                raise FileExistsError from error
            raise

    def _key(self, file: str) -> str:
        return f"{self._folder}/{file}" if self._folder else file

    def _list(self) -> Iterator[tuple[str, int]]:
        """Page by page, so that a bucket without end is noticed."""
        prefix = self._key("")
        more: dict[str, str] = {}
        while True:
            page = self._call("list_objects_v2", Prefix=prefix, Delimiter="/", **more)
            for entry in page.get("Contents", ()):
                yield entry["Key"].removeprefix(prefix), entry["Size"]
            if not page.get("IsTruncated"):
                return
            more = {"ContinuationToken": page["NextContinuationToken"]}

    def _read(self, file: str, start: int) -> _Object:
        return _Object(self._s3, self._call("get_object", file, **({"Range": f"bytes={start}-"} if start else {})))

    def _place(self, file: str, sealed: bytes, part: str, told: Callable[[int], None]) -> None:
        looked = self._look(file)
        self._check_library()
        self.check_heeds(looked, lambda name: self._call("put_object", name, Body=b"oneballot\n", IfNoneMatch="*"))
        if len(sealed) > PIECE:
            self._place_in_pieces(file, sealed, told)
        else:
            self._call("put_object", file, Body=sealed, IfNoneMatch="*")

    def _look(self, file: str) -> bool:
        """Raise FileExistsError if it is there; False if one may not look."""
        try:
            self._call("head_object", file)
        except FileNotFoundError:
            return True
        except PermissionError:
            return False
        raise FileExistsError

    def _place_in_pieces(self, file: str, sealed: bytes, told: Callable[[int], None]) -> None:
        """Each piece has its own tries: after a cut only the piece that was under way is sent again."""
        upload = self._call("create_multipart_upload", file)["UploadId"]
        step = max(PIECE, -(-len(sealed) // 9_999))
        pieces = []
        try:
            for number, start in enumerate(range(0, len(sealed), step), start=1):
                piece = {"UploadId": upload, "PartNumber": number, "Body": sealed[start : start + step]}
                send = partial(self._call, "upload_part", file, **piece)
                sent = self.attempt(f"cannot put a ballot into {self}", send)
                pieces.append({"PartNumber": number, "ETag": sent["ETag"]})
                told(start)
            self._call(
                "complete_multipart_upload", file, UploadId=upload, MultipartUpload={"Parts": pieces}, IfNoneMatch="*"
            )
        except BaseException:
            with suppress(*self.failures):
                self._call("abort_multipart_upload", file, UploadId=upload)
            raise

    def _tidy(self, file: str, part: str) -> None:
        """Pieces of a killed delivery are seen by nobody, but are paid for."""
        for upload in self._call("list_multipart_uploads", Prefix=self._key(file)).get("Uploads", ()):
            if upload["Key"] == self._key(file):
                self._call("abort_multipart_upload", file, UploadId=upload["UploadId"])

    def _check_library(self) -> None:
        """s3fs leaves out what an older botocore does not know, and then nothing would keep a ballot from another's."""
        known = self._s3.s3.meta.service_model
        for method in ("PutObject", "CompleteMultipartUpload"):
            if "IfNoneMatch" not in known.operation_model(method).input_shape.members:
                raise BoxError(
                    "this botocore cannot deliver without replacing: pip install -U s3fs 'botocore>=1.35.20'"
                )

    def _passes(self, error: Exception) -> bool:
        return _code(error) in _MORE or passes(error, self._cuts)

    def _unseen(self, error: Exception) -> bool:
        return _code(error) in _DENIED


class _Object:
    """An object on its way, read as it comes: a server that sends more than was asked for fills no memory."""

    def __init__(self, s3: Any, reply: Any) -> None:
        self._s3, self._body = s3, reply["Body"]
        self.version, self.size = str(reply["ETag"]), int(reply["ContentLength"])

    def read(self, size: int) -> bytes:
        from fsspec.asyn import sync

        data: bytes = sync(self._s3.loop, self._body.read, size)
        return data

    def close(self) -> None:
        self._s3.loop.call_soon_threadsafe(self._body.close)  # connections belong to the loop's own thread


def _code(error: BaseException | None) -> str:
    """What S3 calls the failure; empty if it is none of its own."""
    while error is not None:
        reply = getattr(error, "response", None)
        if isinstance(reply, dict):
            return str(reply.get("Error", {}).get("Code", ""))
        error = error.__cause__
    return ""


plugin = S3
