"""A pytest plugin: names below the domain of the daemon under test lead to this host, as its wildcard name would. Also
marks the tests that ask the daemon, in the results."""

import os
import socket

import httpcore
import pytest

DOMAIN = os.environ.get("TEST_E2B_DOMAIN", "")
PORT = int(os.environ.get("TEST_E2B_PORT", "0"))
_resolve = socket.getaddrinfo
_asked = False


def _resolve_here(host, *rest, **more):
    name = host.decode() if isinstance(host, bytes) else host
    if DOMAIN and isinstance(name, str) and name.endswith("." + DOMAIN):
        host = "127.0.0.1"
    return _resolve(host, *rest, **more)


def _note(request):
    global _asked
    _asked = _asked or request.url.port == PORT


def _noting(handle):
    def handle_request(self, request):
        _note(request)
        return handle(self, request)

    return handle_request


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    global _asked
    _asked = False
    yield


def pytest_runtest_makereport(item, call):
    if _asked and ("live", "yes") not in item.user_properties:
        item.user_properties.append(("live", "yes"))


socket.getaddrinfo = _resolve_here
for pool, name in (
    (httpcore.ConnectionPool, "handle_request"),
    (httpcore.AsyncConnectionPool, "handle_async_request"),
):
    setattr(pool, name, _noting(getattr(pool, name)))
