"""Database servers that a test or a bench may kill and start again: PostgreSQL, MariaDB, FerretDB.

Each keeps through all its lives what it said was durable. ``scripts/services`` starts one of each for the tests that
only write.
"""

from __future__ import annotations

import shutil
import struct
from pathlib import Path
from typing import ClassVar

from rig.servers.own_server import OwnServer, built_program

USER = "skitter"
PASSWORD = "pa55 w/rd"
"""Of private servers. A space and a slash show who forgets to quote."""
QUOTED = "pa55%20w%2Frd"


def program(name: str) -> str | None:
    """The path of a server's program. Debian keeps those of PostgreSQL beside the PATH."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
    beside = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[4]))
    return found or (str(beside[-1]) if beside else None)


def ferretdb_program() -> Path:
    return built_program("ferretdb", FERRETDB_VERSION)


FERRETDB_VERSION = "1.24.2"


class OwnPostgresql(OwnServer):
    service = "postgresql"
    accounts = ("postgres", "nobody")

    def prepare(self) -> None:
        (self.folder / "password").write_text(PASSWORD)
        (self.folder / "password").chmod(0o644)
        how = ["-U", USER, "-A", "scram-sha-256", "--pwfile", str(self.folder / "password"), "-E", "UTF8", "--locale=C"]
        self.run(_needed("initdb"), "-D", str(self.folder / "data"), "--no-sync", *how)

    def command(self) -> list[str]:
        place = ["-p", str(self.port), "-h", "127.0.0.1", "-k", str(self.folder)]
        # fsync stays on: a kill is survived without it too, but figures would be those of no real server.
        command = [_needed("postgres"), "-D", str(self.folder / "data"), *place, "-c", "max_connections=50"]
        if self._certificate:
            certificate, key = self._certificate
            command += ["-c", "ssl=on", "-c", f"ssl_cert_file={certificate}", "-c", f"ssl_key_file={key}"]
        return command

    def answers(self) -> bool:
        words = f"user\0{USER}\0database\0postgres\0\0".encode()
        with self._connection() as connection:
            connection.sendall(struct.pack("!II", len(words) + 8, 196608) + words)
            # R: it asks for the password. E: it is still starting.
            return connection.recv(1) == b"R"

    @property
    def url(self) -> str:
        return f"postgresql://{USER}:{QUOTED}@127.0.0.1:{self.port}/postgres"


class OwnMariadb(OwnServer):
    service = "mariadb"
    accounts = ("mysql", "nobody")
    settings: ClassVar[tuple[str, ...]] = ("--innodb-buffer-pool-size=64M", "--innodb-log-file-size=64M")

    def prepare(self) -> None:
        how = ["--no-defaults", "--skip-test-db", "--auth-root-authentication-method=normal"]
        self.run(_needed("mariadb-install-db"), *how, f"--datadir={self.folder / 'data'}")
        (self.folder / "begin.sql").write_text(
            f"CREATE USER IF NOT EXISTS '{USER}'@'%' IDENTIFIED BY '{PASSWORD}';\n"
            f"GRANT ALL ON *.* TO '{USER}'@'%';\nCREATE DATABASE IF NOT EXISTS items;\n"
        )
        (self.folder / "begin.sql").chmod(0o644)

    def command(self) -> list[str]:
        place = [f"--datadir={self.folder / 'data'}", f"--socket={self.folder / 'socket'}", f"--port={self.port}"]
        begin = f"--init-file={self.folder / 'begin.sql'}"
        more = ["--bind-address=127.0.0.1", f"--pid-file={self.folder / 'pid'}", "--skip-name-resolve", begin]
        command = [_needed("mariadbd"), "--no-defaults", *place, *more, *self.settings]
        if self._certificate:
            certificate, key = self._certificate
            command += [f"--ssl-cert={certificate}", f"--ssl-key={key}", "--require-secure-transport=on"]
        return command

    def answers(self) -> bool:
        with self._connection() as connection:
            # Its greeting: the version of the protocol is the fifth byte.
            return connection.recv(5)[4:] == b"\x0a"

    @property
    def url(self) -> str:
        return f"mysql://{USER}:{QUOTED}@127.0.0.1:{self.port}/items"


class OwnFerretdb(OwnServer):
    """MongoDB's protocol over SQLite."""

    service = "mongodb"
    accounts = ()
    """It runs as anybody, and its program may be where only root can read."""

    def prepare(self) -> None:
        (self.folder / "data").mkdir()

    def command(self) -> list[str]:
        place = [f"--listen-addr=127.0.0.1:{self.port}", "--handler=sqlite", f"--sqlite-url=file:{self.folder}/data/"]
        # Whoever comes without a name is refused, as by a MongoDB with access control.
        entry = ["--test-enable-new-auth", f"--setup-username={USER}", f"--setup-password={PASSWORD}"]
        quiet = ["--setup-database=items", "--telemetry=disable", "--debug-addr=-", "--log-level=error"]
        return [str(ferretdb_program()), *place, *entry, *quiet, f"--state-dir={self.folder}"]

    def answers(self) -> bool:
        body = b"\x10ping\0" + struct.pack("<i", 1) + b"\x02$db\0" + struct.pack("<i", 6) + b"admin\0\0"
        message = struct.pack("<iB", 0, 0) + struct.pack("<i", len(body) + 4) + body
        with self._connection() as connection:
            connection.sendall(struct.pack("<iiii", len(message) + 16, 1, 0, 2013) + message)
            return len(connection.recv(16)) == 16

    @property
    def url(self) -> str:
        return f"mongodb://{USER}:{QUOTED}@127.0.0.1:{self.port}/items"


def _needed(name: str) -> str:
    found = program(name)
    assert found is not None, f"{name} is not installed"
    return found


KINDS: dict[str, type[OwnServer]] = {"postgresql": OwnPostgresql, "mariadb": OwnMariadb, "mongodb": OwnFerretdb}
