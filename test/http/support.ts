// The app over fake sandboxes, with and without a socket.

import { connect, type Socket } from 'node:net';
import { EXEC_FRAME, type ExecFrame, ExecFrameDecoder } from '@sandboxd/api';
import { type Logger, pino } from 'pino';
import type { Test } from 'tap';
import {
  ANY_PLACE,
  createHttpApp,
  type EngineInfo,
  type HostReport,
  type HttpApp,
  HttpServer,
  NO_AUDIT,
} from '../../host-agent/src/http/index.ts';
import type { HttpServerOptions } from '../../host-agent/src/http/server/server.ts';
import type { HttpServices } from '../../host-agent/src/http/services.ts';
import type { Question, Answer as RecordedAnswer } from '../../host-agent/src/idempotency/index.ts';
import { withoutKeys } from '../../host-agent/src/lib/logger.ts';
import { Metrics } from '../../host-agent/src/metrics/metrics.ts';
import { EgressLog } from '../../host-agent/src/network/index.ts';
import { isJson, withCheckedAnswer } from '../support/answers.ts';
import { FAKE_CONSOLE } from '../support/console.ts';
import { NO_PRESETS } from '../support/no-presets.ts';
import { until } from '../support/until.ts';
import { keyless } from '../unit/host-agent/http/callers.ts';
import { FakeSandboxes } from './fake-sandboxes.ts';
import { FAKE_SECRETS } from './fake-secrets.ts';

export const UNKNOWN_ID = 'sbx_0123456789abc';
/** As which raw requests of tests call the daemon. */
export const SHORT_NAME = { scheme: 'http', at: { host: 'x', port: undefined } } as const;
export const LIMITS = { vcpus: 32, memoryMib: 65_536, diskBytes: 2 ** 40, sandboxes: 100, fork: 64 };

/** A daemon without keys or an audit trail. */
export const UNGUARDED = { authenticator: keyless(), audit: NO_AUDIT };
/** Tests of events bring a journal. */
export const NO_EVENTS = {} as unknown as HttpServices['events'];
export const ENGINE: EngineInfo = {
  state: 'chosen',
  name: 'memory',
  accelerator: 'none',
  version: '1',
  reason: 'a test',
  tried: [],
};

export const HOST_REPORT: HostReport = {
  checked_at: '2024-05-06T07:08:09.010Z',
  version: '0.1.0',
  worst: 'warning',
  groups: [
    {
      group: 'machine',
      findings: [
        { name: 'ksm', level: 'ok', seen: 'off' },
        { name: 'clock', level: 'warning', seen: 'follows no time server', advice: 'install chrony' },
      ],
    },
  ],
};

/** Of a machine of tests. */
export const CAPACITY = { memoryTotalBytes: 2 ** 34, memoryAvailableBytes: 2 ** 33, diskFreeBytes: 2 ** 40 };

/** Answers of keyed requests without a registry. */
export class MemoryAnswers {
  readonly #all = new Map<string, RecordedAnswer & Pick<Question, 'fingerprint'>>();
  find(id: string) {
    return this.#all.get(id);
  }
  put({ id, fingerprint }: Question, answer: RecordedAnswer): void {
    this.#all.set(id, { ...answer, fingerprint });
  }
  async record(question: Question, answer: RecordedAnswer): Promise<void> {
    this.put(question, answer);
  }
  async settle(): Promise<void> {}
  async remove(id: string): Promise<void> {
    this.#all.delete(id);
  }
}

export type LogLine = { readonly [key: string]: unknown };
export type Fixture = {
  app: HttpApp;
  sandboxes: FakeSandboxes;
  lines: LogLine[];
  log: Logger;
  /** Answers that the interface does not have. */
  problems: readonly unknown[];
};

/** `areAnswersChecked` is false for answers that no real daemon gives. */
export function makeApp(changes: Partial<HttpServices> = {}, areAnswersChecked = true): Fixture {
  const lines: LogLine[] = [];
  const destination = { write: (line: string) => void lines.push(JSON.parse(line)) };
  const log = pino({ level: 'debug' }, withoutKeys(destination));
  const sandboxes = new FakeSandboxes();
  const app = createHttpApp({
    log,
    sandboxes,
    placement: ANY_PLACE,
    ...UNGUARDED,
    events: NO_EVENTS,
    answers: new MemoryAnswers(),
    limits: LIMITS,
    limitUse: () => [],
    metrics: new Metrics(),
    stopping: new AbortController().signal,
    egressLog: new EgressLog(undefined),
    presets: NO_PRESETS,
    ...FAKE_SECRETS,
    console: FAKE_CONSOLE,
    listUnbakedProfiles: async () => [],
    engine: () => ENGINE,
    checkHost: async () => HOST_REPORT,
    readCapacity: async () => CAPACITY,
    readDrain: () => ({ state: 'off', moved: 0, sandboxes: [] }),
    listProfiles: async () => [
      {
        name: 'base',
        isDefault: true,
        digest: 'ab12',
        env: { LANG: 'C.UTF-8' },
        workdir: '/',
        sizeBytes: 1024,
        packages: { bash: '5.2' },
      },
    ],
    ...changes,
  });
  // Whatever a test asks for, by whatever client, an answer that its route does not have fails it.
  const problems: unknown[] = [];
  const answer = app.fetch.bind(app);
  app.fetch = async (request, ...rest) => {
    const response = await answer(request, ...rest);
    if (!areAnswersChecked) return response;
    const { pathname } = new URL(request.url);
    return withCheckedAnswer(request.method, pathname, response).catch((problem: unknown) => {
      problems.push(problem);
      throw problem;
    });
  };
  return { app, sandboxes, lines, log, problems };
}

export type Answer = { status: number; body: unknown; error: string; headers: Headers };

/** One request without a socket. `error` is the body's, or empty. */
export async function ask(
  app: HttpApp,
  method: string,
  path: string,
  body?: RequestInit['body'],
): Promise<Answer> {
  const response = await app.request(path, {
    method,
    ...(body === undefined ? {} : { body, duplex: 'half' }),
  });
  const text = await response.text();
  const value = isJson(response.headers) && text !== '' ? JSON.parse(text) : text;
  return { status: response.status, body: value, error: value?.error ?? '', headers: response.headers };
}

export function decodeFrames(bytes: Uint8Array): ExecFrame[] {
  const decoder = new ExecFrameDecoder();
  const frames = decoder.push(bytes);
  if (!decoder.isAtBoundary) throw new Error('a frame is truncated');
  return frames;
}

/** Output joined by stream, and the parsed result. */
export function summarize(frames: readonly ExecFrame[]) {
  const textOf = (type: number) =>
    Buffer.concat(frames.filter((frame) => frame.type === type).map(({ payload }) => payload)).toString();
  const last = frames.at(-1);
  const result = last?.type === EXEC_FRAME.exit ? JSON.parse(last.payload.toString()) : undefined;
  return { stdout: textOf(EXEC_FRAME.stdout), stderr: textOf(EXEC_FRAME.stderr), result };
}

export type Served = Fixture & { server: HttpServer; port: number; url: string };

/** The app on a free loopback port; closed at the test's end. */
export async function serve(
  t: Test,
  changes: Partial<HttpServices> &
    Pick<
      HttpServerOptions,
      | 'headersTimeoutMs'
      | 'lingerMs'
      | 'readPeers'
      | 'allowedHosts'
      | 'maxConnections'
      | 'clientShare'
      | 'slowReaderMs'
      | 'corsOrigins'
      | 'certificate'
      | 'clientOf'
    > & {
      readonly areAnswersChecked?: boolean;
      /** Of one that was there before; a free one by default. */
      readonly port?: number;
    } = {},
): Promise<Served> {
  const fixture = makeApp(changes, changes.areAnswersChecked);
  const { bodyIdleMs = 30_000, headersTimeoutMs = 20_000, lingerMs = 30_000 } = changes;
  const server = new HttpServer({
    app: fixture.app,
    log: fixture.log,
    authenticator: changes.authenticator ?? UNGUARDED.authenticator,
    audit: changes.audit ?? UNGUARDED.audit,
    allowedHosts: [SHORT_NAME, ...(changes.allowedHosts ?? [])],
    bodyIdleMs,
    headersTimeoutMs,
    lingerMs,
    ...(changes.readPeers && { readPeers: changes.readPeers }),
    ...(changes.corsOrigins && { corsOrigins: changes.corsOrigins }),
    certificate: changes.certificate,
    ...(changes.clientOf && { clientOf: changes.clientOf }),
    ...(changes.maxConnections && { maxConnections: changes.maxConnections }),
    ...(changes.clientShare && { clientShare: changes.clientShare }),
    ...(changes.slowReaderMs && { slowReaderMs: changes.slowReaderMs }),
  });
  const { port } = await server.listen({ host: '127.0.0.1', port: changes.port ?? 0 });
  t.teardown(async () => {
    await server.close();
    // A client may have taken it for something else.
    for (const problem of fixture.problems) throw problem;
  });
  return { ...fixture, server, port, url: `${changes.certificate ? 'https' : 'http'}://127.0.0.1:${port}` };
}

/** A raw connection that collects what it gets. */
export class RawClient {
  readonly socket: Socket;
  received: Buffer = Buffer.alloc(0);
  isEnded = false;

  constructor(t: Test, port: number, socket?: Socket) {
    this.socket = socket ?? connect({ host: '127.0.0.1', port, noDelay: true, allowHalfOpen: true });
    this.socket.on('data', (bytes: Buffer) => {
      this.received = Buffer.concat([this.received, bytes]);
    });
    this.socket.on('end', () => {
      this.isEnded = true;
    });
    this.socket.on('error', () => {
      this.isEnded = true;
    });
    this.socket.on('close', () => {
      this.isEnded = true;
    });
    t.teardown(() => this.socket.destroy());
  }

  get text(): string {
    return this.received.toString('latin1');
  }

  write(data: string | Uint8Array): void {
    this.socket.write(data);
  }

  ended(): Promise<void> {
    return until(() => this.isEnded, 'the end of the connection');
  }
}
