"""Compares commands.run("true") of the Python SDK with the same command by our library, in turn: latency.py NODE COUNT.
Then 50 sandboxes at once by the async SDK. Needs SANDBOXD_HOST beside the variables of the SDK."""

import asyncio
import pathlib
import statistics
import subprocess
import sys
import time

from e2b import AsyncSandbox, Sandbox

HERE = pathlib.Path(__file__).parent
AT_ONCE = 50


def own_id(sandbox_id):
    return f"sbx_{sandbox_id.removeprefix('sbx')}"


def compare(node, count):
    sandbox = Sandbox.create(timeout=600, allow_internet_access=False)
    command = [node, HERE / "latency.mjs", own_id(sandbox.sandbox_id)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as library:
        theirs, ours = [], []
        for turn in range(count + 5):
            began = time.perf_counter()
            sandbox.commands.run("true")
            took = (time.perf_counter() - began) * 1000
            library.stdin.write("\n")
            library.stdin.flush()
            mine = float(library.stdout.readline())
            # The first ones open connections.
            if turn >= 5:
                theirs.append(took)
                ours.append(mine)
        library.stdin.close()
    sandbox.kill()
    sdk, library = statistics.median(theirs), statistics.median(ours)
    print(f"median of {count} in turn: SDK {sdk:.1f} ms, our library {library:.1f} ms, ratio {sdk / library:.2f}")


async def use(at):
    sandbox = await AsyncSandbox.create(timeout=600, allow_internet_access=False, request_timeout=300)
    try:
        result = await sandbox.commands.run(f"echo {at}", timeout=300)
        assert result.stdout == f"{at}\n", result.stdout
    finally:
        await sandbox.kill()


async def together():
    began = time.time()
    results = await asyncio.gather(*(use(at) for at in range(AT_ONCE)), return_exceptions=True)
    failed = [error for error in results if error is not None]
    print(f"{AT_ONCE - len(failed)} of {AT_ONCE} sandboxes at once ran a command, in {time.time() - began:.0f} s")
    for error in failed[:3]:
        print(f"  {type(error).__name__}: {str(error)[:300]}")
    return len(failed)


compare(sys.argv[1], int(sys.argv[2]))
sys.exit(1 if asyncio.run(together()) else 0)
