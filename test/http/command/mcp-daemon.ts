// A daemon whose guests say what a test wants, for agents' clients.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { EXEC_FRAME, encodeExecFrame } from '@sandboxd/api';
import type { Test } from 'tap';

export const SANDBOX = 'sbx_0000000000001';
export const COMMAND_ID = 'cmd_0000000000001';

const CHUNK = 32_768;

export type Handler = (answer: {
  readonly body: string;
  readonly response: ServerResponse;
  readonly request: IncomingMessage;
  json(value: unknown, status?: number): void;
}) => unknown;

export class McpDaemon {
  readonly sandboxes = new Map<string, Record<string, unknown>>();
  /** Method and path of each request. */
  readonly asked: string[] = [];
  /** By the beginning of method and path, after the sandbox's id; the first that fits answers. */
  readonly handlers: [RegExp, Handler][] = [];
  url = '';
  #made = 100;

  static async start(t: Test): Promise<McpDaemon> {
    const daemon = new McpDaemon();
    daemon.add(SANDBOX, { name: 'one' });
    const server = createServer((request, response) => void daemon.#answer(request, response));
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    daemon.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    t.teardown(() => {
      server.closeAllConnections();
      server.close();
    });
    return daemon;
  }

  on(question: RegExp, handler: Handler): void {
    this.handlers.unshift([question, handler]);
  }

  add(id = `sbx_${String(this.#made++).padStart(13, '0')}`, more: Record<string, unknown> = {}) {
    const info = { id, state: 'running', labels: {}, memory_mib: 1, vcpus: 1, timeout_s: 0, ...more };
    this.sandboxes.set(id, info);
    return info;
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    response.on('error', () => undefined);
    let body = '';
    for await (const part of request) body += part;
    const asked = `${request.method} ${request.url}`;
    this.asked.push(asked);
    const json = (value: unknown, status = 200): void => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
    };
    const handler = this.handlers.find(([question]) => question.test(asked))?.[1];
    if (handler !== undefined) return void handler({ body, request, response, json });
    const [, id = ''] = /^\/sandboxes\/(sbx_\w+)$/.exec(request.url ?? '') ?? [];
    const info = this.sandboxes.get(id);
    if (asked.startsWith('GET /sandboxes?')) return json({ sandboxes: [...this.sandboxes.values()] });
    if (asked.startsWith('GET /profiles')) return json({ profiles: ['base'] });
    if (asked === 'POST /sandboxes') return json(this.add(undefined, JSON.parse(body)), 201);
    if (/^POST .*\/fork/.test(asked)) return json({ sandboxes: [this.add(), this.add()] }, 201);
    if (request.method === 'DELETE') {
      this.sandboxes.delete(id);
      return void response.writeHead(204).end();
    }
    if (info !== undefined) return json(Object.assign(info, body === '' ? {} : JSON.parse(body)));
    json({ error: `there is no ${asked}`, code: 'not_found' }, 404);
  }
}

export function outputOf(stdout: string, stderr = ''): Buffer {
  const end = { exit_code: 0, timed_out: false, oom_killed: false, duration_ms: 1 };
  const frames = [EXEC_FRAME.stdout, EXEC_FRAME.stderr].flatMap((type) => {
    const bytes = Buffer.from(type === EXEC_FRAME.stdout ? stdout : stderr);
    const starts = Array.from({ length: Math.ceil(bytes.length / CHUNK) }, (_, at) => at * CHUNK);
    return starts.map((at) => encodeExecFrame(type, bytes.subarray(at, at + CHUNK)));
  });
  return Buffer.concat([...frames, encodeExecFrame(EXEC_FRAME.exit, Buffer.from(JSON.stringify(end)))]);
}
