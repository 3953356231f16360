"""Which hosts are public: a table of names, which tests/integration/frontier/test_lua_scripts.py gives to Lua too."""

from __future__ import annotations

import pytest

from rig.public_hosts import PRIVATE, PUBLIC
from skitter.policy.politeness import is_public


@pytest.mark.parametrize("name", PUBLIC)
def test_a_host_with_a_dot_or_a_public_address_is_public(name: str) -> None:
    assert is_public(f"http://{name}")
    assert is_public(f"https://{name}:8443")


@pytest.mark.parametrize("name", PRIVATE)
def test_a_local_name_or_a_private_address_is_not(name: str) -> None:
    assert not is_public(f"http://{name}")
    assert not is_public(f"https://{name}:8443")


@pytest.mark.parametrize("text", ["", "a.example", "http:", "http:/a.example", "//"])
def test_a_text_that_names_no_host_is_not_public(text: str) -> None:
    assert not is_public(text)
