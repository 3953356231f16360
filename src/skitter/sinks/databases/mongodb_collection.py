"""One collection on one MongoDB server, or on any server with its protocol (the tests use FerretDB)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import quote, urlencode

from bson.raw_bson import RawBSONDocument
from pymongo import InsertOne, MongoClient, UpdateOne, WriteConcern, errors

from skitter.errors import SinkError, SinkUnavailableError, UsageError
from skitter.sinks.databases.sql_statements import certificate_error, driver_message
from skitter.sinks.targets import Target

Document = RawBSONDocument

_DEFAULTS = {"serverSelectionTimeoutMS": 10_000, "connectTimeoutMS": 10_000, "socketTimeoutMS": 300_000}
_DUPLICATE = 11000
_UPDATED_AT_ONCE = 50
"""FerretDB 1 keeps a connection to its store for each update of a statement, and stands still when it has no more."""
_AUTHENTICATION = {13, 18, 8000}
_AWAY = {
    # In words: unreachable, timed out, not the primary, stepping down or shutting down, locks and conflicts.
    *(6, 7, 24, 43, 50, 64, 79, 89, 91, 112, 133, 134, 189, 202, 237, 262),
    *(9001, 10058, 10107, 11600, 11602, 13388, 13435, 13436),
}
_NOT_ITEMS = _AWAY | _AUTHENTICATION
_DESCRIPTIONS = "{}.skitter"
"""The collection beside the items', for what is known of them."""


class MongodbServer:
    """A server, a replica set or what a ``mongos`` stands for."""

    def __init__(self, target: Target, hosts: str, options: Mapping[str, str]) -> None:
        self.hosts = hosts
        self._target = target
        self._options = dict(options)
        self._client: MongoClient[Any] | None = None
        self._database = target.path.strip("/")

    def connect(self) -> None:
        """Connect, and check that the server answers."""
        self.close()
        scheme = "mongodb+srv" if self._target.scheme == "mongodb+srv" else "mongodb"
        given = {option.lower() for option in self._options}
        defaults = {option: value for option, value in _DEFAULTS.items() if option.lower() not in given}
        options = urlencode({**defaults, **self._options})
        login: dict[str, Any] = {}
        if self._target.user:
            login = {"username": self._target.user, "password": self._target.password}
        with self._sink_errors():
            self._client = MongoClient(
                f"{scheme}://{self.hosts or 'localhost'}/{quote(self._database)}?{options}",
                document_class=RawBSONDocument,
                **login,
            )
        try:
            with self._sink_errors():
                self._collection().find_one({"_id": ""}, {"_id": 1})
        except SinkError:
            self.close()
            raise

    @property
    def connected(self) -> bool:
        return self._client is not None

    def close(self) -> None:
        if self._client is not None:
            with suppress(Exception):
                self._client.close()
            self._client = None

    def upsert(self, documents: Sequence[tuple[str, bytes]]) -> dict[int, str]:
        """Set the fields of each document. The numbers of those that were refused, and why; the others are durable.

        They are inserted, which most need only once and which costs a server least. Those that are there are updated,
        also when they look the same: only the answer to a write says that what is there is durable.
        """
        try:
            refused = self._bulk([InsertOne(Document(stored)) for _, stored in documents])
            there = [number for number, (code, _) in refused.items() if code == _DUPLICATE]
            reasons = {number: words for number, (code, words) in refused.items() if code != _DUPLICATE}
            for first in range(0, len(there), _UPDATED_AT_ONCE):
                part = there[first : first + _UPDATED_AT_ONCE]
                refused = self._bulk([_update(*documents[number]) for number in part])
                reasons |= {part[number]: words for number, (_, words) in refused.items()}
            return reasons
        except KeyError:
            # FerretDB 1 leaves out what the driver counts when it has refused something.
            return self._one_by_one(documents)
        except SinkError as error:
            if isinstance(error.__cause__, errors.OperationFailure) and error.__cause__.code not in _NOT_ITEMS:
                return self._one_by_one(documents)
            raise

    def empty(self) -> None:
        with self._sink_errors():
            self._collection().delete_many({})

    # ---- for moving

    def keys(self) -> Iterator[str]:
        """Of all documents that may be ours; other programs' keys are seldom text."""
        with self._sink_errors():
            for document in self._collection().find({}, {"_id": 1}):
                if isinstance(key := document["_id"], str):
                    yield key

    def all_documents(self) -> Iterator[Document]:
        with self._sink_errors():
            yield from self._collection().find({})

    def documents(self, keys: Sequence[str]) -> list[Document]:
        if not keys:
            return []
        with self._sink_errors():
            return list(self._collection().find({"_id": {"$in": list(keys)}}))

    def insert_absent(self, documents: Sequence[Document]) -> None:
        """A document that is there already is the newer one, or the same."""
        if not documents:
            return
        refused = self._bulk([InsertOne(document) for document in documents])
        keys = [document["_id"] for document in documents]
        lacking = len(keys) - len(self.documents(keys))
        if lacking:
            # Also a duplicate, of another index: it must stay where it is.
            _, words = next(iter(refused.values()), (0, "it is missing after it was written"))
            raise SinkError(
                f"{lacking} documents cannot be moved: {self._shown()}: {words}",
                hint="do all servers have the same indexes and rules? nothing is lost or moved",
            )

    def delete(self, keys: Sequence[str]) -> None:
        with self._sink_errors():
            self._collection().delete_many({"_id": {"$in": list(keys)}})

    def description(self, name: str) -> dict[str, Any]:
        """What was described under this name; empty: nothing was."""
        with self._sink_errors():
            document = self._descriptions().find_one({"_id": name})
            return {field: value for field, value in document.items() if field != "_id"} if document else {}

    def describe(self, name: str, description: Mapping[str, Any]) -> None:
        with self._sink_errors():
            self._descriptions().update_one({"_id": name}, {"$set": dict(description)}, upsert=True)

    # ---- the driver

    def _bulk(self, operations: list[Any]) -> dict[int, tuple[int, str]]:
        """Code and words for each that was refused."""
        with self._sink_errors():
            try:
                self._collection().bulk_write(operations, ordered=False)
            except errors.BulkWriteError as error:
                return self._refused(error)
            return {}

    def _one_by_one(self, documents: Sequence[tuple[str, bytes]]) -> dict[int, str]:
        """A server that refuses a batch as a whole may mean one of its documents. If it means all, it means none."""
        refused: dict[int, str] = {}
        for number, (key, stored) in enumerate(documents):
            with self._sink_errors():
                try:
                    self._collection().update_one({"_id": key}, {"$set": Document(stored)}, upsert=True)
                except errors.OperationFailure as error:
                    last = number == len(documents) - 1
                    if error.code in _NOT_ITEMS or (last and number and len(refused) == number and _is_command(error)):
                        raise
                    refused[number] = _first(driver_message(self._target, error))
        return refused

    def _refused(self, error: errors.BulkWriteError) -> dict[int, tuple[int, str]]:
        details: Mapping[str, Any] = error.details or {}
        if concerns := details.get("writeConcernErrors"):
            raise self._unavailable(str(concerns[0].get("errmsg", "too few members have it"))) from error
        refused: dict[int, tuple[int, str]] = {}
        for each in details.get("writeErrors", ()):
            code, words = each.get("code", 0), str(each.get("errmsg", "refused"))
            if code in _AWAY:
                raise self._unavailable(words) from error
            refused[each["index"]] = (code, driver_message(self._target, Exception(words)))
        return refused

    def _collection(self) -> Any:
        return self._named(self._target.fragment)

    def _descriptions(self) -> Any:
        return self._named(_DESCRIPTIONS.format(self._target.fragment))

    def _named(self, collection: str) -> Any:
        assert self._client is not None, "connect() comes first"
        # Durable, and not only taken: a server that is killed or replaced has it still. ?w= and ?journal= overrule it.
        concern = None if {"w", "journal"} & {*self._options} else WriteConcern(w="majority", j=True)
        return self._client[self._database].get_collection(collection, write_concern=concern)

    @contextmanager
    def _sink_errors(self) -> Iterator[None]:
        try:
            yield
        except (errors.InvalidURI, errors.ConfigurationError, errors.InvalidName) as error:
            raise UsageError(
                f"not the address of a MongoDB server: {self._target.name}: {driver_message(self._target, error)}",
                hint="mongodb://USER:PASSWORD@HOST:PORT/DATABASE?OPTION=VALUE#COLLECTION",
            ) from error
        except errors.OperationFailure as error:
            raise self._answer(error) from error
        except errors.PyMongoError as error:
            raise certificate_error(self._target, error, "tlsCAFile") or self._unavailable(
                _first(driver_message(self._target, error))
            ) from error

    def _answer(self, error: errors.OperationFailure) -> SinkError:
        text = _first(driver_message(self._target, error))
        if error.code in _AWAY:
            return self._unavailable(text)
        hint = "run with -v for the details"
        if error.code in _AUTHENTICATION:
            hint = "check user, password and permissions; ?authSource= names the database of the user"
        return SinkError(f"MongoDB says: {text}: {self._shown()}", hint=hint)

    def _unavailable(self, text: str) -> SinkUnavailableError:
        return SinkUnavailableError(
            f"MongoDB does not accept data now: {self._shown()}: {text}",
            hint="is it running? check host, port and network; nothing is lost",
        )

    def _shown(self) -> str:
        """The target, and which of its servers where it has several."""
        return self._target.name if self.hosts == self._target.hosts else f"{self._target.name} at {self.hosts}"


def _update(key: str, stored: bytes) -> UpdateOne:
    return UpdateOne({"_id": key}, {"$set": Document(stored)}, upsert=True)


def _first(text: str) -> str:
    """Without the driver's description of the whole topology."""
    return text.partition(", full error:")[0].partition(", Timeout:")[0].partition(" (configured timeouts")[0]


def _is_command(error: errors.OperationFailure) -> bool:
    """Not an answer about one document."""
    return not isinstance(error, errors.WriteError)
