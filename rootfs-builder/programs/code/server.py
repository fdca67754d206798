"""HTTP of the code interpreter on 127.0.0.1:49999. It listens when the first kernel is ready."""

import asyncio
import json
import logging
import re

from tornado.httpserver import HTTPServer
from tornado.iostream import StreamClosedError
from tornado.web import Application, Finish, RequestHandler

from contexts import Contexts, Refusal

PORT = 49999
MAX_BODY_BYTES = 16 * 2**20
# Of output that waits for a client. More of what is printed is left out, so that no reader slows a kernel down.
MAX_PENDING_BYTES = 8 * 2**20
# Of a longer text a part waits, not all or nothing.
MAX_TEXT_CHARS = 2**16
KEEPALIVE_S = 5
# Clients keep idle connections for 300 s.
IDLE_S = 640
OWN_HOST = re.compile(r"(?:localhost|127\.0\.0\.1|0\.0\.0\.0)(?::\d+)?", re.IGNORECASE)


def to_line(message):
    """ASCII, because some clients decode each chunk by itself."""
    return json.dumps(message).encode() + b"\n"


def is_text(text):
    """Kernels take no lone surrogates, which JSON permits."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


class Output:
    """Lines of one execution on their way to the client, in order."""

    def __init__(self):
        self._lines = []
        self._bytes = 0
        self._left_out = 0
        self._is_over = False
        self._changed = asyncio.Event()

    def push(self, message):
        text = message.get("text", "")
        if message["type"] in ("stdout", "stderr") and len(text) > MAX_TEXT_CHARS:
            for at in range(0, len(text), MAX_TEXT_CHARS):
                self._push({**message, "text": text[at : at + MAX_TEXT_CHARS]})
        else:
            self._push(message)

    def _push(self, message):
        line = to_line(message)
        is_bulk = message["type"] in ("stdout", "stderr", "result")
        if is_bulk and self._bytes + len(line) > MAX_PENDING_BYTES:
            self._left_out += len(line)
            return
        self._lines.append(line)
        self._bytes += len(line)
        self._changed.set()

    def end(self):
        self._is_over = True
        self._changed.set()

    async def take(self):
        """What waits; a keepalive if nothing comes; None at the end."""
        if not self._lines and not self._is_over:
            try:
                await asyncio.wait_for(self._changed.wait(), KEEPALIVE_S)
            except asyncio.TimeoutError:
                return to_line({"type": "keepalive"})
        self._changed.clear()
        if not self._lines:
            return None
        if self._left_out:
            text = f"[{self._left_out} bytes of output were left out here]\n"
            self._lines.append(to_line({"type": "stderr", "text": text, "timestamp": 0}))
        taken = b"".join(self._lines)
        self._lines, self._bytes, self._left_out = [], 0, 0
        return taken


class Handler(RequestHandler):
    def initialize(self, contexts):
        self.contexts = contexts

    def prepare(self):
        """Programs run code, not the pages that a browser of the sandbox shows."""
        headers = self.request.headers
        if "Origin" in headers:
            raise Refusal(403, "pages of browsers have no access")
        # Another name may be one that a page has had resolved to this address.
        if not OWN_HOST.fullmatch(headers.get("Host", "")):
            raise Refusal(403, "the host header must be localhost, 127.0.0.1 or 0.0.0.0")
        kind = headers.get("Content-Type", "").split(";")[0].strip().lower()
        if self.request.method == "POST" and kind != "application/json":
            raise Refusal(415, "the content type must be application/json")

    def body(self, **kinds):
        """The fields of the body that are named, None for absent ones. Others are ignored, as E2B's server does."""
        try:
            given = json.loads(self.request.body or b"{}")
        except ValueError:
            raise Refusal(400, "the body is no JSON") from None
        if not isinstance(given, dict):
            raise Refusal(400, "the body is no JSON object")
        for name, kind in kinds.items():
            if given.get(name) is not None and not isinstance(given[name], kind):
                raise Refusal(400, f"{name} must be of the type {kind.__name__}")
        return {name: given.get(name) for name in kinds}

    def answer(self, value):
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps(value))

    def log_exception(self, kind, error, trace):
        if not isinstance(error, (Refusal, Finish)):
            super().log_exception(kind, error, trace)

    def write_error(self, status_code, **about):
        error = about.get("exc_info", (None, None))[1]
        if isinstance(error, Refusal):
            status_code = error.status
            message = error.message
        else:
            message = self._reason
        self.set_status(status_code)
        self.answer({"code": status_code, "message": message})


class Health(Handler):
    def get(self):
        self.answer("OK")


class ContextList(Handler):
    def get(self):
        self.answer([context.about() for context in self.contexts.list()])

    async def post(self):
        given = self.body(language=str, cwd=str)
        context = await self.contexts.create(given["language"], given["cwd"])
        self.answer(context.about())


class OneContext(Handler):
    async def delete(self, context_id):
        await self.contexts.delete(context_id)
        self.answer(None)


class RestartContext(Handler):
    async def post(self, context_id):
        await self.contexts.get(context_id).restart("it was restarted by a request")
        self.answer(None)


class Execute(Handler):
    execution = None
    has_left = False

    async def post(self):
        given = self.body(code=str, context_id=str, language=str, env_vars=dict)
        if given["code"] is None:
            raise Refusal(400, "code is missing")
        env = given["env_vars"] or {}
        if not all(isinstance(value, str) and is_text(name + value) for name, value in env.items()):
            raise Refusal(400, "env_vars must have texts of Unicode without zero bytes")
        if not is_text(given["code"].replace("\0", "")):
            raise Refusal(400, "code must be Unicode")
        if any(name == "" or "=" in name for name in env):
            raise Refusal(400, "env_vars must have names without =")
        if given["context_id"] is not None and given["language"] is not None:
            raise Refusal(400, "only one of context_id and language can be given")
        context = await self.contexts.choose(given["context_id"], given["language"])
        output = Output()
        with context.admit():
            self.set_header("Content-Type", "application/x-ndjson")
            self.execution = asyncio.create_task(context.execute(given["code"], env, output.push))
            self.execution.add_done_callback(lambda _: output.end())
            try:
                while (lines := await output.take()) is not None:
                    self.write(lines)
                    await self.flush()
            except StreamClosedError:
                self.on_connection_close()
            # Its kernel is at rest when this ends, so the next cell can follow.
            await asyncio.wait([self.execution])
        if self.execution.cancelled():
            raise Finish()
        self.finish()

    def on_connection_close(self):
        # Once: a second cancellation would stop the first one's interrupts.
        if self.execution is not None and not self.has_left:
            self.has_left = True
            self.execution.cancel()


async def main():
    logging.basicConfig(level=logging.WARNING)
    contexts = Contexts()
    await contexts.start()
    routes = [
        (r"/health", Health),
        (r"/execute", Execute),
        (r"/contexts", ContextList),
        (r"/contexts/([^/]+)", OneContext),
        (r"/contexts/([^/]+)/restart", RestartContext),
    ]
    application = Application([(*route, {"contexts": contexts}) for route in routes], log_function=lambda _: None)
    server = HTTPServer(
        application,
        max_body_size=MAX_BODY_BYTES,
        max_buffer_size=MAX_BODY_BYTES + 2**16,
        idle_connection_timeout=IDLE_S,
    )
    server.listen(PORT, "127.0.0.1")
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
