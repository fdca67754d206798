"""What a user of E2B's Python SDK does, against a daemon. Prints a table; exits with 1 if anything failed."""

import io
import os
import sys
import time
import urllib.error
import urllib.request

from e2b import (
    CommandExitException,
    NotFoundException,
    PtySize,
    Sandbox,
    SandboxQuery,
    SandboxState,
    TimeoutException,
)
from e2b.sandbox.filesystem.filesystem import WriteEntry

failed = 0


def check(name, work):
    global failed
    began = time.time()
    try:
        work()
        verdict = "ok"
    except BaseException as error:  # noqa: BLE001
        failed += 1
        verdict = f"FAILED: {type(error).__name__}: {str(error)[:200]}"
    print(f"{name:40} {(time.time() - began) * 1000:8.0f} ms  {verdict}", flush=True)


def expect(actual, wanted):
    assert actual == wanted, f"{actual!r} is not {wanted!r}"


def raises(kind, work):
    try:
        work()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def background():
    handle = sandbox.commands.run("sleep 1000", background=True)
    assert handle.pid in [process.pid for process in sandbox.commands.list()]
    expect(sandbox.commands.kill(handle.pid), True)
    raises(CommandExitException, handle.wait)
    expect(sandbox.commands.kill(handle.pid), False)


def standard_input():
    handle = sandbox.commands.run("cat", background=True, stdin=True)
    sandbox.commands.send_stdin(handle.pid, "typed")
    sandbox.commands.close_stdin(handle.pid)
    expect(handle.wait().stdout, "typed")


def terminal():
    output = bytearray()
    handle = sandbox.pty.create(PtySize(rows=24, cols=80))
    sandbox.pty.send_stdin(handle.pid, b"echo $((40+2))\nexit\n")
    handle.wait(on_pty=output.extend)
    assert b"42" in output, output


def files():
    data = os.urandom(300_000)
    sandbox.files.write("a.txt", "text")
    expect(sandbox.files.read("a.txt"), "text")
    sandbox.files.write("/tmp/new/b.bin", data)
    expect(bytes(sandbox.files.read("/tmp/new/b.bin", format="bytes")), data)
    sandbox.files.write("/tmp/stream", io.BytesIO(data))
    sandbox.files.write("/tmp/gzip", data, gzip=True)
    expect(bytes(sandbox.files.read("/tmp/gzip", format="bytes")), data)
    written = sandbox.files.write_files([WriteEntry(path=f"/tmp/m/{n}", data="x") for n in (1, 2)])
    expect([entry.path for entry in written], ["/tmp/m/1", "/tmp/m/2"])
    expect([sandbox.files.make_dir("/tmp/d"), sandbox.files.make_dir("/tmp/d")], [True, False])
    sandbox.files.rename("/tmp/m/1", "/tmp/d/one")
    expect([entry.name for entry in sandbox.files.list("/tmp/d")], ["one"])
    expect(sandbox.files.get_info("/tmp/d/one").permissions, "-rw-r--r--")
    sandbox.files.remove("/tmp/d")
    expect(sandbox.files.exists("/tmp/d"), False)
    raises(NotFoundException, lambda: sandbox.files.read("/nosuch"))


def watches():
    sandbox.files.make_dir("/tmp/w")
    handle = sandbox.files.watch_dir("/tmp/w")
    sandbox.files.write("/tmp/w/a", "x")
    names = [event.name for event in handle.get_new_events()]
    assert "a" in names, names
    handle.stop()


def signed_urls():
    sandbox.files.write("signed", "secret")
    url = sandbox.download_url("signed", use_signature_expiration=60)
    expect(urllib.request.urlopen(url).read(), b"secret")
    wrong = url.replace("signature=v1_", "signature=v1_A")
    expect(raises(urllib.error.HTTPError, lambda: urllib.request.urlopen(wrong)).code, 401)


def pause():
    sandbox.commands.run("echo kept > /dev/shm/kept")
    expect([sandbox.pause(), sandbox.pause()], [True, False])
    expect(sandbox.get_info().state, SandboxState.PAUSED)
    again = Sandbox.connect(sandbox.sandbox_id, timeout=300)
    expect(again.commands.run("cat /dev/shm/kept").stdout, "kept\n")


def snapshot():
    taken = sandbox.create_snapshot()
    copy = Sandbox.create(taken.snapshot_id, timeout=60)
    expect(copy.commands.run("cat /dev/shm/kept").stdout, "kept\n")
    copy.kill()
    expect(Sandbox.delete_snapshot(taken.snapshot_id), True)


def end():
    expect([sandbox.kill(), sandbox.kill(), sandbox.is_running()], [True, False, False])


def found():
    query = SandboxQuery(metadata={"k 1": "v/1"})
    expect([each.sandbox_id for each in Sandbox.list(query=query).next_items()], [sandbox.sandbox_id])


def run(line, **options):
    return sandbox.commands.run(line, **options)


sandbox = Sandbox.create(
    timeout=600, metadata={"k 1": "v/1"}, envs={"FOO": "bar"}, allow_internet_access=False
)
check("list by metadata", found)
check("run", lambda: expect(run("echo $FOO; echo e >&2").stdout, "bar\n"))
check("exit code", lambda: expect(raises(CommandExitException, lambda: run("exit 3")).exit_code, 3))
check("timeout", lambda: raises(TimeoutException, lambda: run("sleep 60", timeout=2)))
check("background, list, kill", background)
check("standard input", standard_input)
check("terminal", terminal)
check("files", files)
check("watch", watches)
check("signed URLs", signed_urls)
check("metrics", lambda: expect(len(sandbox.get_metrics()), 1))
check("set timeout", lambda: sandbox.set_timeout(300))
check("pause, connect", pause)
check("snapshot, create of it, delete", snapshot)
check("kill", end)
sys.exit(1 if failed else 0)
