"""A pytest plugin: names below the domain of the daemon under test lead to this host, as its wildcard name would. Also
marks the tests that ask the daemon, in the results."""

import os
import socket

DOMAIN = os.environ.get("TEST_E2B_DOMAIN", "")
_resolve = socket.getaddrinfo


def _resolve_here(host, *rest, **more):
    name = host.decode() if isinstance(host, bytes) else host
    if DOMAIN and isinstance(name, str) and name.endswith("." + DOMAIN):
        host = "127.0.0.1"
    return _resolve(host, *rest, **more)


def pytest_itemcollected(item):
    if any("sandbox" in name or "build" in name for name in getattr(item, "fixturenames", ())):
        item.user_properties.append(("live", "yes"))


socket.getaddrinfo = _resolve_here
