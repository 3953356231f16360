"""Parts in a bucket: complete, under names that a repeated upload replaces, whoever is killed and whoever is
unavailable."""

from __future__ import annotations

import gzip
import io
import json
import os
from uuid import uuid4

import boto3
import pyarrow.parquet
import pytest

from rig.servers.streams import ACCESS_KEY, SECRET_KEY, OwnS3
from skitter.errors import SinkError, SinkUnavailableError, UsageError
from skitter.sinks import s3

# The first test may have to build the server.
pytestmark = pytest.mark.timeout(900)


class Bucket:
    """A prefix of its own in a bucket, read by a plain client."""

    def __init__(self, url, endpoint):
        self.url, self.endpoint, self.prefix = url, endpoint, f"runs/{uuid4().hex[:12]}/"
        keys = {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY, "region_name": "us-east-1"}
        self.client = boto3.client("s3", endpoint_url=endpoint, **keys)

    def target(self, more="format=jsonl", name=""):
        return f"{self.url}/{self.prefix}{name}?endpoint={self.endpoint}&{more}".rstrip("&")

    def objects(self):
        found = self.client.list_objects_v2(Bucket=OwnS3.bucket, Prefix=self.prefix).get("Contents", [])
        return {item["Key"].removeprefix(self.prefix): self.read(item["Key"]) for item in found}

    def read(self, key):
        return self.client.get_object(Bucket=OwnS3.bucket, Key=key)["Body"].read()

    def numbers(self):
        return [json.loads(line)["n"] for data in self.objects().values() for line in data.splitlines()]

    def uploads(self):
        found = self.client.list_multipart_uploads(Bucket=OwnS3.bucket, Prefix=self.prefix)
        return [upload["Key"] for upload in found.get("Uploads", [])]


@pytest.fixture
def bucket(services, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = services.need("s3")
    made = Bucket(told["url"], told["endpoint"])
    yield made
    made.client.close()


def test_the_parts_of_a_run(bucket, run):
    each = run(bucket.target("format=jsonl&part_bytes=20")).open()
    each.write({"n": 1}, {"n": 2}, {"n": 3}).write({"n": 4}, page=8)
    assert list(bucket.objects()) == ["books-000001.jsonl"], "a part goes up when it is full"
    each.finish()
    assert bucket.objects() == {
        "books-000001.jsonl": b'{"n":1}\n{"n":2}\n{"n":3}\n',
        "books-000002.jsonl": b'{"n":4}\n',
    }


@pytest.mark.parametrize("kind", ["jsonl.gz", "parquet", "csv"])
def test_formats(bucket, run, kind):
    run(bucket.target(f"format={kind}")).open().write({"n": 1, "t": "ü"}).finish()
    ((name, data),) = bucket.objects().items()
    assert name == f"books-000001.{kind}"
    if kind == "jsonl.gz":
        assert json.loads(gzip.decompress(data)) == {"n": 1, "t": "ü"}
    elif kind == "parquet":
        assert pyarrow.parquet.read_table(io.BytesIO(data)).to_pylist() == [{"n": 1, "t": "ü"}]
    else:
        assert data.decode().split() == ["n,t", "1,ü"]


def test_a_batch_that_comes_again_is_there_once(bucket, run):
    each = run(bucket.target()).open().write({"n": 1}).write({"n": 2}, page=8, recorded=False)
    each.open().write({"n": 2}, page=8).finish()
    assert bucket.numbers() == [1, 2]


def test_an_upload_that_is_repeated_replaces(bucket, run):
    each = run(bucket.target("format=jsonl&part_bytes=5")).open().write({"n": 1})
    each.write({"n": 2}, page=8, recorded=False)
    assert bucket.numbers() == [1]
    each.open().write({"n": 2}, page=8).finish()
    assert bucket.numbers() == [1, 2]
    assert len(bucket.objects()) == 2


def test_an_interrupted_run_has_its_last_part_there_and_goes_on_with_it(bucket, run):
    each = run(bucket.target()).open().write({"n": 1})
    each.sink.finish()
    assert bucket.numbers() == [1]
    each.open().write({"n": 2}, page=8).finish()
    assert bucket.objects() == {"books-000001.jsonl": b'{"n":1}\n{"n":2}\n'}


def test_the_next_run_goes_on_with_the_next_number_or_begins_anew(bucket, run):
    run(bucket.target()).open().write({"n": 1}).finish()
    run(bucket.target()).open().write({"n": 2}).finish()
    run(bucket.target(), job="books-2").open().write({"n": 9}).finish()
    assert sorted(bucket.objects()) == ["books-000001.jsonl", "books-000002.jsonl", "books-2-000001.jsonl"]
    run(bucket.target(), overwrite=True).open().write({"n": 3}).finish()
    assert sorted(bucket.numbers()) == [3, 9], "the parts of other jobs stay"


def test_large_parts_go_up_in_pieces(bucket, run):
    text = os.urandom(20 << 20).hex()
    run(bucket.target()).open().write({"text": text}, {"n": 1}).finish()
    ((key, data),) = bucket.objects().items()
    assert json.loads(data.splitlines()[0]) == {"text": text}
    tag = bucket.client.head_object(Bucket=OwnS3.bucket, Key=bucket.prefix + key)["ETag"]
    assert tag.endswith('-3"'), "three pieces"


def test_pieces_of_an_upload_that_was_killed_go(bucket, run):
    for name in ("books-000001.jsonl", "books-2-000001.jsonl"):
        bucket.client.create_multipart_upload(Bucket=OwnS3.bucket, Key=bucket.prefix + name)
    assert len(bucket.uploads()) == 2
    run(bucket.target()).open()
    assert bucket.uploads() == [f"{bucket.prefix}books-2-000001.jsonl"], "those of other jobs stay"


def test_nothing_stays_on_this_machine_when_the_run_is_complete(bucket, run, tmp_path):
    run(bucket.target("format=jsonl&part_bytes=5")).open().write({"n": 1}).write({"n": 2}, page=8).finish()
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == []


def test_the_spool_of_another_machine_is_missed(bucket, run, tmp_path, monkeypatch):
    each = run(bucket.target()).open().write({"n": 1})
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    with pytest.raises(SinkError, match="missing or truncated"):
        each.open()


# ---- trouble


def test_keys_come_from_the_environment_and_are_in_no_name(bucket, run, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    written = bucket.target().replace(f"{ACCESS_KEY}:{SECRET_KEY}@", "")
    run(written).open().write({"n": 1}).finish()
    assert bucket.numbers() == [1]
    assert SECRET_KEY not in run(bucket.target(), job="other").sink.target


def test_a_server_that_is_away_gets_the_same_batch_again(own_server, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    server = own_server(OwnS3)
    bucket = Bucket(server.url, server.endpoint)
    each = run(bucket.target("format=jsonl&part_bytes=5")).open().write({"n": 1})
    server.kill()
    items = each.items({"n": 2}, page=8)
    for _ in range(2):
        with pytest.raises(SinkUnavailableError, match="cannot be reached"):
            each.sink.write(items)
    server.start()
    each.write({"n": 2}, page=8).finish()
    assert bucket.numbers() == [1, 2]
    bucket.client.close()


def test_a_wrong_key_and_a_bucket_that_is_not_there_are_errors(bucket, run):
    for target in (
        bucket.target().replace(SECRET_KEY, "hush"),
        bucket.target().replace(f"@{OwnS3.bucket}/", "@no-such-bucket/"),
    ):
        with pytest.raises(SinkError) as error:
            run(target).open()
        assert not isinstance(error.value, SinkUnavailableError)
        assert error.value.hint
        assert "hush" not in f"{error.value}{error.value.hint}"


def test_without_any_key_it_says_where_one_may_be(bucket, run, monkeypatch, tmp_path):
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    with pytest.raises(SinkError) as error:
        run(bucket.target().replace(f"{ACCESS_KEY}:{SECRET_KEY}@", "")).open()
    assert "AWS_ACCESS_KEY_ID" in error.value.hint


@pytest.mark.parametrize(
    "target",
    [
        "s3://bucket/prefix/",
        "s3://bucket/prefix/{part}.jsonl",
        "s3://bucket/{date}/{job}-{part}.jsonl",
        "s3://bucket/{job}-{part}.xml",
        "s3://bucket/{job}-{part}.jsonl?format=csv",
        "s3://bucket/?format=jsonl&color=red",
        "s3://bucket/?format=jsonl&part_bytes=-1",
        "s3:///?format=jsonl",
    ],
)
def test_what_is_no_place_in_a_bucket_is_a_usage_error(run, target):
    with pytest.raises(UsageError) as error:
        run(target)
    assert error.value.hint


def test_pieces_are_as_large_as_s3_wants_them():
    assert s3.PIECE_BYTES >= 5 << 20
