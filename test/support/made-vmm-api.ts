// A fake VMM that has only the control socket: a test defines the answers and reads the requests.

import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import type { Test } from 'tap';

export type Refused = { readonly status?: number; readonly reasons: readonly string[] };
/** An object is the answer, a refusal is an error; `silence` sends no answer. */
export type Answer = Record<string, unknown> | Refused | 'silence' | undefined;

export type MadeVmm = {
  /** Its requests, without pings. */
  readonly asked: { readonly endpoint: string; readonly body: Record<string, unknown> | undefined }[];
  /** By endpoint; other endpoints succeed. */
  readonly answers: Record<string, (body: Record<string, unknown>) => Answer | Promise<Answer>>;
  /** The endpoints requested since the last call. */
  takeAsked(): string[];
};

/** Writes the files of a VMM for a guest with this memory size, unless they exist. */
export function writeSaved(dir: string, memoryBytes: number): void {
  const files = { 'config.json': '{}', 'state.json': '{}', 'memory-ranges': Buffer.alloc(memoryBytes, 'm') };
  for (const [name, content] of Object.entries(files))
    writeFileSync(join(dir, name), content, { flag: 'wx' });
}

export async function serveVmm(t: Test, socketPath: string, pid = process.pid): Promise<MadeVmm> {
  const asked: MadeVmm['asked'] = [];
  const answers: MadeVmm['answers'] = { 'vmm.ping': () => ({ version: '54.0.0', pid }) };
  const say = (response: ServerResponse, answer: Answer): void => {
    if (answer === 'silence') return;
    if (answer === undefined) response.writeHead(204).end();
    else if ('reasons' in answer)
      response.writeHead(Number(answer.status ?? 500)).end(JSON.stringify(answer.reasons));
    else response.writeHead(200).end(JSON.stringify(answer));
  };
  const server = createServer((request, response) => {
    let text = '';
    request.on('data', (chunk) => {
      text += chunk;
    });
    request.on('end', async () => {
      const endpoint = request.url?.replace('/api/v1/', '') ?? '';
      const body = text === '' ? undefined : JSON.parse(text);
      if (endpoint !== 'vmm.ping') asked.push({ endpoint, body });
      say(response, await answers[endpoint]?.(body ?? {}));
    });
  }).listen(socketPath);
  await once(server, 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return { asked, answers, takeAsked: () => asked.splice(0).map(({ endpoint }) => endpoint) };
}
