"""TLS to the servers: believed when its certificate is, refused when it is not."""

from __future__ import annotations

import pytest

from certificates import Authority
from rig.servers.databases import KINDS
from rig.services import OwnServers
from skitter.errors import SinkError, SinkUnavailableError

# The first test may have to install a server.
pytestmark = pytest.mark.timeout(900)

MODES = {
    "postgresql": ("sslmode=verify-full&sslrootcert={ca}", "sslmode=require"),
    "mariadb": ("ssl_mode=verify_identity&ssl_ca={ca}", "ssl_mode=required"),
}


@pytest.fixture(scope="module", params=list(MODES))
def secured(request, services, tmp_path_factory):
    """A server of each kind, the file of the authority that it is of, and another one."""
    folder = tmp_path_factory.mktemp("certificates")
    authority = Authority(folder)
    with OwnServers(services) as servers:
        server = servers(KINDS[request.param], authority.issue("server"))
        yield request.param, server, authority.file, Authority(folder, "stranger").file


@pytest.mark.parametrize("verified", [True, False])
def test_items_go_over_tls(secured, run, verified):
    kind, server, ca, _ = secured
    options = MODES[kind][0].format(ca=ca) if verified else MODES[kind][1]
    run(f"{server.url}?{options}#over_tls").open().write({"n": 1}).finish()


def test_a_certificate_of_a_stranger_is_refused(secured, run):
    kind, server, _, stranger = secured
    with pytest.raises(SinkError) as error:
        run(f"{server.url}?{MODES[kind][0].format(ca=stranger)}#over_tls").open()
    assert not isinstance(error.value, SinkUnavailableError), "waiting would not help"
    assert "certificate of the server is refused" in str(error.value)
    assert "=FILE" in error.value.hint
    assert "pa55" not in f"{error.value}{error.value.hint}"
