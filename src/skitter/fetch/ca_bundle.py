"""Location of this machine's CA bundle, the certificates of the trusted authorities.

The libcurl in pycurl's wheel has the path of the machine that built it compiled in (one of the Red Hat
family), so nothing is left to chance and it is told. Python's ``ssl`` knows the place that its own OpenSSL
was built for, and obeys SSL_CERT_FILE.
"""

from __future__ import annotations

import ssl
from pathlib import Path

_KNOWN_FILES = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Ubuntu, Arch, Gentoo
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora, RHEL
    "/etc/ssl/ca-bundle.pem",  # openSUSE
    "/etc/ssl/cert.pem",  # Alpine, macOS, BSD
)


def ca_file() -> str | None:
    """Return the path of the CA bundle; None: libcurl's default."""
    found = ssl.get_default_verify_paths().cafile
    candidates = (found, *_KNOWN_FILES) if found else _KNOWN_FILES
    return next((path for path in candidates if Path(path).is_file()), None)
