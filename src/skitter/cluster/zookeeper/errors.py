"""Errors of ZooKeeper and kazoo, mapped to those of skitter with what a user can do."""

from __future__ import annotations

import ssl

from kazoo import exceptions
from kazoo.exceptions import KazooException

from skitter.cluster.zookeeper.address import Ensemble
from skitter.errors import ClusterError, ClusterUnavailableError

ANSWERS = (
    exceptions.NoNodeError,
    exceptions.NodeExistsError,
    exceptions.BadVersionError,
    exceptions.NotEmptyError,
)
"""Errors that say how the nodes are: for the one who has asked."""
INTERRUPTED = (
    exceptions.ConnectionLoss,
    exceptions.SessionExpiredError,
    exceptions.SessionMovedError,
    exceptions.OperationTimeoutError,
)
"""Errors after which the same question may be asked again, on the next connection."""
_HINTS = {
    exceptions.NoAuthError: "the node belongs to other credentials: check user, password and ?acl=",
    exceptions.AuthFailedError: "check user and password, and which authentication the server requires",
    exceptions.InvalidACLError: "?acl=creator and ?acl=readable need a user, or a client certificate that is known",
    exceptions.SessionClosedRequireSaslError: "it requires credentials: zookeeper://USER:PASSWORD@HOST:PORT/PATH",
    exceptions.UnimplementedError: "ZooKeeper 3.5 or newer is needed",
}


def unavailable(ensemble: Ensemble, reason: str) -> ClusterUnavailableError:
    tls = "does it require a client certificate?" if ensemble.tls else "does the port require TLS (zookeeper+ssl://)?"
    return ClusterUnavailableError(
        f"ZooKeeper cannot be reached: {ensemble.name}: {reason}",
        hint=f"is a majority of its servers running? check hosts, ports and network; {tls}",
    )


def untrusted(ensemble: Ensemble, error: ssl.SSLCertVerificationError) -> ClusterError:
    return ClusterError(
        f"ZooKeeper's certificate is refused: {ensemble.name}: {error.verify_message}",
        hint="check ?ca=, and that the certificate names the host as in the URL",
    )


def explained(error: KazooException, ensemble: Ensemble) -> ClusterError:
    """Return an error of skitter's for one of kazoo's that is no answer."""
    if isinstance(error, (*INTERRUPTED, exceptions.ConnectionClosedError)):
        return unavailable(ensemble, _words(error))
    return ClusterError(f"ZooKeeper says: {_words(error)}: {ensemble.name}", hint=_HINTS.get(type(error), ""))


def _words(error: KazooException) -> str:
    return f"{type(error).__name__} {error}".strip()
