"""Contexts: each is a kernel with its state, a language and a directory."""

import asyncio
import contextlib
import json
import logging
import os
import shutil
import sys
import tempfile
import time
import uuid
from queue import Empty

from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager

MAX_CONTEXTS = 16
# Of one context, in turn.
MAX_WAITING = 64
DEFAULT_CWD = "/home/user"
KERNEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "kernel.py")
# An interrupt is repeated, and then the kernel is restarted.
INTERRUPT_S = 2
INTERRUPTS = 5
ALIVE_S = 1
# Output that follows the end of a cell on the other socket.
LAST_OUTPUT_S = 5
# Renewed by the guest agent in each copy of a sandbox.
BOOT_ID = "/proc/sys/kernel/random/boot_id"
# Variables of the sandbox, as JSON, from the guest agent.
ENVIRONMENT = "/run/sandbox/environment"

FORMATS = {
    "text/plain": "text",
    "text/html": "html",
    "text/markdown": "markdown",
    "image/svg+xml": "svg",
    "image/png": "png",
    "image/jpeg": "jpeg",
    "application/pdf": "pdf",
    "text/latex": "latex",
    "application/json": "json",
    "application/javascript": "javascript",
    "e2b/data": "data",
    "e2b/chart": "chart",
}


async def _kill(manager):
    try:
        await manager.shutdown_kernel(now=True)
    except Exception:
        logging.exception("a kernel could not be ended")


class Refusal(Exception):
    def __init__(self, status, message):
        super().__init__(message)
        self.status = status
        self.message = message


class KernelEnded(Exception):
    pass


def read_boot_id():
    with open(BOOT_ID) as file:
        return file.read()


def read_environment():
    try:
        with open(ENVIRONMENT) as file:
            return json.load(file)
    except (OSError, ValueError):
        return {}


def to_result(content, is_main):
    data = dict(content["data"])
    text = data.get("text/plain")
    if text and len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        data["text/plain"] = text[1:-1]
    result = {name: data.pop(kind) for kind, name in FORMATS.items() if data.get(kind) is not None}
    extra = {kind: value for kind, value in data.items() if kind not in FORMATS}
    return {"type": "result", "is_main_result": is_main, **result, **({"extra": extra} if extra else {})}


class Context:
    def __init__(self, language, cwd):
        self.id = str(uuid.uuid4())
        self.language = language
        self.cwd = cwd
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._dir = tempfile.mkdtemp(prefix="code-")
        self._boot_id = None
        self._manager = None
        self._client = None
        # Held while the kernel is exchanged.
        self._changing = asyncio.Lock()
        self._why_ended = None
        self._is_deleted = False
        # Its kernel could not be started, or does something unexpected.
        self._is_broken = False

    def about(self):
        return {"id": self.id, "language": self.language, "cwd": self.cwd}

    async def start(self):
        manager = AsyncKernelManager(
            transport="ipc", ip=os.path.join(self._dir, "kernel"), connection_file=os.path.join(self._dir, "kernel.json")
        )
        argv = [sys.executable, KERNEL, "-f", "{connection_file}"]
        manager._kernel_spec = KernelSpec(argv=argv, display_name="Python", language="python")
        self._boot_id = read_boot_id()
        try:
            await manager.start_kernel(cwd=self.cwd, env={**os.environ, **read_environment()})
            client = manager.client()
            client.start_channels()
            try:
                await client.wait_for_ready(timeout=300)
            except BaseException:
                client.stop_channels()
                raise
        except BaseException:
            await _kill(manager)
            raise
        self._manager = manager
        self._client = client

    async def restart(self, why):
        """What runs in it ends with an error. After a failure the next cell tries again."""
        async with self._changing:
            if self._is_deleted:
                return
            self._why_ended = why
            self._is_broken = True
            await self._stop()
            await self.start()
            self._is_broken = False

    async def _stop(self):
        client, manager = self._client, self._manager
        self._client = self._manager = None
        if client is not None:
            client.stop_channels()
        if manager is not None:
            await _kill(manager)

    async def end(self):
        async with self._changing:
            self._is_deleted = True
            self._why_ended = "the context was deleted"
            await self._stop()
        shutil.rmtree(self._dir, ignore_errors=True)

    @contextlib.contextmanager
    def admit(self):
        if self._waiting >= MAX_WAITING:
            raise Refusal(429, f"{MAX_WAITING} executions wait for this context already")
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

    async def execute(self, code, env, push):
        """Runs a cell in its turn. Cancelled: the kernel is interrupted, and is at rest when this ends."""
        async with self._turn:
            # A kernel that is being exchanged is waited for.
            async with self._changing:
                self._why_ended = "the context was deleted" if self._is_deleted else None
            try:
                if self._is_deleted:
                    raise KernelEnded(self._why_ended)
                if self._is_broken:
                    await self.restart("it was broken")
                    self._why_ended = None
                boot_id = read_boot_id()
                renewed = {}
                if boot_id != self._boot_id:
                    self._boot_id = boot_id
                    renewed = {"environment": read_environment()}
                client = self._client
                try:
                    if renewed or env:
                        await self._begin({**renewed, "env": env})
                    await self._run(client, code, push)
                finally:
                    if env and client is self._client:
                        client.execute(_call("end", {}), silent=True, store_history=False)
            except KernelEnded as error:
                push({"type": "error", "name": "KernelEnded", "value": str(error), "traceback": str(error)})
            except Exception as error:
                logging.exception("a cell could not be run")
                self._is_broken = True
                text = f"the kernel cannot be used, and the next cell has another one: {error!r}"
                push({"type": "error", "name": "KernelEnded", "value": text, "traceback": text})
            finally:
                push({"type": "end_of_execution"})

    async def _begin(self, fields):
        client = self._client
        sent = client.execute(_call("begin", fields), silent=True, store_history=False)
        done = asyncio.create_task(self._wait_for_reply(client, sent))
        try:
            await asyncio.wait([done])
        except asyncio.CancelledError:
            await self._interrupt(done)
            raise
        finally:
            done.cancel()
        if done.result()["content"].get("status") == "ok":
            return
        await self.restart("it did not take the variables of a cell")
        raise KernelEnded("the kernel did not take the variables of the cell, and was restarted; its state is lost")

    async def _run(self, client, code, push):
        await self._assert_alive(client)
        sent = client.execute(code, allow_stdin=False, stop_on_error=False)
        # Printed text and results come over one socket, the end over another, and both for other cells, too.
        done = asyncio.create_task(self._wait_for_reply(client, sent))
        output = asyncio.create_task(self._read_output(client, sent, push))
        try:
            await asyncio.wait([done, output], return_when=asyncio.FIRST_COMPLETED)
            done_first = done.done()
            if done_first:
                done.result()
            await asyncio.wait([output], timeout=LAST_OUTPUT_S if done_first else None)
            await done
        except asyncio.CancelledError:
            await self._interrupt(done)
            raise
        finally:
            done.cancel()
            output.cancel()

    async def _wait_for_reply(self, client, sent):
        while True:
            try:
                reply = await client.get_shell_msg(timeout=ALIVE_S)
            except Empty:
                await self._assert_alive(client)
                continue
            if reply["parent_header"].get("msg_id") == sent:
                return reply

    async def _assert_alive(self, client):
        if client is not self._client or self._why_ended is not None:
            raise KernelEnded(f"the kernel ended, because {self._why_ended or 'it was restarted'}; its state is lost")
        if not await self._manager.is_alive():
            await self.restart("its kernel ended")
            raise KernelEnded("the kernel ended, perhaps for want of memory; its state is lost")

    async def _read_output(self, client, sent, push):
        while True:
            try:
                message = await client.get_iopub_msg(timeout=ALIVE_S)
            except Empty:
                if client is not self._client:
                    return
                continue
            if message["parent_header"].get("msg_id") != sent:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "status" and content["execution_state"] == "idle":
                return
            if kind == "stream":
                push({"type": content["name"], "text": content["text"], "timestamp": time.time_ns()})
            elif kind in ("display_data", "update_display_data", "execute_result"):
                push(to_result(content, kind == "execute_result"))
            elif kind == "execute_input":
                push({"type": "number_of_executions", "execution_count": content["execution_count"]})
            elif kind == "error":
                trace = "\n".join(content["traceback"])
                push({"type": "error", "name": content["ename"], "value": content["evalue"], "traceback": trace})

    async def _interrupt(self, done):
        for _ in range(INTERRUPTS):
            if done.done():
                return
            await self._manager.interrupt_kernel()
            await asyncio.wait([done], timeout=INTERRUPT_S)
        if not done.done():
            await self.restart("it did not obey an interrupt")


def _call(name, fields):
    """Python for a function of kernel.py that leaves no name behind."""
    return f"__import__('sys').modules['sandbox_kernel'].{name}(**{fields!r})"


class Contexts:
    def __init__(self):
        self._contexts = {}
        self._default = None
        self._creating = asyncio.Lock()

    async def start(self):
        self._default = await self.create(None, None)
        client = self._default._client
        warm = client.execute(_call("warm", {}), silent=True, store_history=False)
        await self._default._wait_for_reply(client, warm)

    def list(self):
        return self._contexts.values()

    def get(self, context_id):
        context = self._contexts.get(context_id)
        if context is None:
            raise Refusal(404, f"there is no context {context_id[:100]}")
        return context

    async def create(self, language, cwd):
        language = (language or "python").lower()
        if language != "python":
            raise Refusal(400, f"the language {language[:40]} is not supported; this interpreter has python")
        cwd = DEFAULT_CWD if cwd is None else cwd
        if "\0" in cwd or not os.path.isabs(cwd) or not os.path.isdir(cwd):
            raise Refusal(400, f"cwd must be an existing absolute directory, not {cwd[:200]}")
        async with self._creating:
            if len(self._contexts) >= MAX_CONTEXTS:
                raise Refusal(429, f"there are {MAX_CONTEXTS} contexts already; delete one")
            context = Context(language, cwd)
            try:
                await context.start()
            except BaseException:
                with contextlib.suppress(Exception):
                    await context.end()
                raise
            self._contexts[context.id] = context
            return context

    async def choose(self, context_id, language):
        if context_id is not None:
            return self.get(context_id)
        if self._default is None or language not in (None, "python"):
            # Refuses other languages.
            self._default = await self.create(language, None)
        return self._default

    async def delete(self, context_id):
        context = self.get(context_id)
        del self._contexts[context_id]
        if context is self._default:
            self._default = None
        await context.end()
