"""The SQLite frontier: the default; several processes of one machine share a file."""

from skitter.frontier.sqlite.store import sqlite_frontier

__all__ = ["sqlite_frontier"]
