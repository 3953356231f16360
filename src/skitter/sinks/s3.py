"""The S3 sink, ``s3://BUCKET/PREFIX/?format=jsonl.gz``: parts in a bucket of any endpoint that speaks S3.

Items are collected in a spool on this machine, as for a folder of parts, and each part is uploaded when it is full, and
the last one at the end. Its name is settled when its first items are recorded, so that an upload that is repeated after
a crash replaces the object by the same. An object appears as a whole, also one that goes up in several pieces.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from skitter import private_files
from skitter.errors import ExtraMissingError, SinkError, SinkUnavailableError, UsageError
from skitter.sinks.contract import Sink
from skitter.sinks.durable_files import sink_errors
from skitter.sinks.file_targets import DEFAULT_PATTERN, format_of, machine_name, number_of
from skitter.sinks.part_files import PART_BYTES, PartNames, PartsSink
from skitter.sinks.targets import Target

SPOOLS = private_files.FOLDER
PIECE_BYTES = 16 << 20
"""The size of the pieces of a multipart upload, each retried alone. S3's minimum is 5 MB."""
_OPTIONS = ("endpoint", "region", "profile", "format", "part_bytes", "part_seconds")
_AWAY = {"SlowDown", "RequestTimeout", "InternalError", "ServiceUnavailable", "Throttling", "ThrottlingException"}
_HINTS = {
    "NoSuchBucket": "create the bucket first, or check its name and ?endpoint=",
    "AccessDenied": "the key needs PutObject, ListBucket, AbortMultipartUpload and, for -O, DeleteObject on the bucket",
    "403": "check the key and its permissions for the bucket",
    "InvalidAccessKeyId": "check AWS_ACCESS_KEY_ID, or ?profile=",
    "SignatureDoesNotMatch": "check AWS_SECRET_ACCESS_KEY, or ?profile=; and ?region=",
    "ExpiredToken": "get new credentials, and run the same command again",
    "AuthorizationHeaderMalformed": "check ?region=",
    "PermanentRedirect": "the bucket is in another region: ?region=",
}


def s3_sink(target: Target) -> Sink:
    """Return the sink of an ``s3:`` target without connecting."""
    bucket, (folder, _, pattern) = target.hosts, target.path.lstrip("/").rpartition("/")
    if unknown := sorted(set(target.options) - set(_OPTIONS)):
        raise UsageError(
            f"no such option of this output: {unknown[0]}: {target.name}", hint=f"known options: {', '.join(_OPTIONS)}"
        )
    named = bool(pattern)
    if not named and target.options.get("format"):
        pattern = f"{DEFAULT_PATTERN}.{target.options['format'].lstrip('.')}"
    if not bucket or not pattern or "{" in folder or (named and "format" in target.options):
        raise UsageError(
            f"not a location in a bucket: {target.name}",
            hint="s3://BUCKET/PREFIX/?format=jsonl.gz, or s3://BUCKET/PREFIX/{job}-{part}.parquet",
        )
    if "{part}" not in pattern or "{job}" not in pattern:
        # In a folder another job would be noticed; a bucket lets each overwrite the other's.
        raise UsageError(
            f"a name in a bucket needs {{job}} and {{part}}: {target.name}", hint="for example {job}-{part}.jsonl.gz"
        )
    _, form, compression = format_of(pattern, target.name)
    spools = SPOOLS / f"s3-{hashlib.blake2b(f'{target.job} {target.name}'.encode(), digest_size=8).hexdigest()}"
    names = PartNames(pattern, job=target.job, node=machine_name())
    try:
        store = S3PartStore(target, bucket, f"{folder}/" if folder else "", names, spools)
    except ModuleNotFoundError as error:
        raise ExtraMissingError("results in S3", "s3") from error
    return PartsSink(
        target.name,
        spools,
        names,
        form,
        compression,
        part_bytes=int(number_of(target.options, "part_bytes", PART_BYTES)),
        part_seconds=number_of(target.options, "part_seconds", 0.0),
        overwrite=target.overwrite,
        job=target.job,
        store=store,
    )


class S3Client:
    """A place under a prefix of a bucket. Credentials come from the usual AWS sources, or from the URL."""

    def __init__(self, target: Target, bucket: str, prefix: str) -> None:
        import boto3  # noqa: F401  asked for before anything is begun

        self._target = target
        self._bucket = bucket
        self._prefix = prefix
        self._client: Any = None

    def _connected(self) -> Any:
        import boto3
        from botocore.config import Config

        options, endpoint = self._target.options, self._target.options.get("endpoint")
        # Other servers than Amazon's may know neither names of buckets in host names nor the newer checksums.
        plain = {"s3": {"addressing_style": "path"}, "request_checksum_calculation": "when_required"}
        session = boto3.Session(
            aws_access_key_id=self._target.user or None,
            aws_secret_access_key=self._target.password if self._target.user else None,
            profile_name=options.get("profile"),
            region_name=options.get("region"),
        )
        return session.client(
            "s3",
            endpoint_url=endpoint,
            # An endpoint of one's own has no regions, and the signature needs one.
            region_name=session.region_name or ("us-east-1" if endpoint else None),
            config=Config(
                connect_timeout=5, read_timeout=60, retries={"total_max_attempts": 2}, **(plain if endpoint else {})
            ),
        )

    @contextmanager
    def _sink_errors(self) -> Iterator[None]:
        from botocore import exceptions

        name = self._target.name
        try:
            yield
        except exceptions.ClientError as error:
            raise self._answer(error) from error
        except (exceptions.NoCredentialsError, exceptions.PartialCredentialsError, exceptions.ProfileNotFound) as error:
            raise SinkError(
                f"no credentials for this bucket: {name}: {error}",
                hint="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment, or use ?profile=NAME",
            ) from error
        except (exceptions.HTTPClientError, exceptions.ConnectionError, OSError) as error:
            raise SinkUnavailableError(
                f"S3 cannot be reached: {name}: {error}",
                hint="is it running? check ?endpoint= and the network; nothing is lost",
            ) from error
        except (exceptions.BotoCoreError, ValueError) as error:
            raise SinkError(f"S3 cannot be used: {name}: {error}", hint="check ?endpoint= and ?region=") from error

    def _answer(self, error: Any) -> SinkError:
        code = str(error.response.get("Error", {}).get("Code", ""))
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if code in _AWAY or status >= 500:
            return SinkUnavailableError(
                f"S3 does not accept data now: {self._target.name}: {code}", hint="nothing is lost; skitter tries again"
            )
        return SinkError(
            f"S3 says: {error.response.get('Error', {}).get('Message') or code}: {self._target.name}",
            hint=_HINTS.get(code, f"its error code is {code}"),
        )


class S3PartStore(S3Client):
    """A store of parts."""

    def __init__(self, target: Target, bucket: str, prefix: str, names: PartNames, folder: Path) -> None:
        """``folder`` is where a part is rendered before its upload; it exists once the sink is taken."""
        super().__init__(target, bucket, prefix)
        self._names = names
        self._folder = folder

    def open(self) -> None:
        with self._sink_errors():
            self._client = self._client or self._connected()
            self._abort_leftovers()

    def names(self) -> Iterator[str]:
        with self._sink_errors():
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=self._prefix, Delimiter="/"
            )
            yield from [item["Key"].removeprefix(self._prefix) for page in pages for item in page.get("Contents", ())]

    def put(self, name: str, render: Callable[[BinaryIO], None]) -> None:
        from boto3.s3.transfer import TransferConfig

        # In one thread: a sink has one, and the network is the limit.
        pieces = TransferConfig(multipart_threshold=PIECE_BYTES, multipart_chunksize=PIECE_BYTES, use_threads=False)
        with sink_errors(self._target.name), tempfile.TemporaryFile(dir=self._folder) as file:
            render(file)
            file.seek(0)
            with self._sink_errors():
                self._client.upload_fileobj(file, self._bucket, self._prefix + name, Config=pieces)

    def remove(self, name: str) -> None:
        with self._sink_errors():
            self._client.delete_object(Bucket=self._bucket, Key=self._prefix + name)

    def _abort_leftovers(self) -> None:
        """Abort unfinished uploads of a killed writer: their pieces are invisible, and cost money."""
        from botocore.exceptions import ClientError

        try:
            pages = self._client.get_paginator("list_multipart_uploads").paginate(
                Bucket=self._bucket, Prefix=self._prefix
            )
            for upload in [upload for page in pages for upload in page.get("Uploads", ())]:
                key = upload["Key"]
                if self._names.number(key.removeprefix(self._prefix)) is not None:
                    with suppress(ClientError):  # it is over
                        self._client.abort_multipart_upload(Bucket=self._bucket, Key=key, UploadId=upload["UploadId"])
        except ClientError as error:
            # Whoever may write need not be allowed to look.
            if error.response["Error"]["Code"] not in ("AccessDenied", "NotImplemented"):
                raise
