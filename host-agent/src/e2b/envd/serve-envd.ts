// envd of a sandbox: its RPCs and plain HTTP, for clients that have its access token.
import type { Hono } from 'hono';
import type { z } from 'zod';
import { clientSignal, type HttpContext, type HttpEnv, headerOf } from '../../http/context.ts';
import { type BodySource, readBody } from '../../http/input/body-source.ts';
import { answerPullStream } from '../../http/server/responses.ts';
import { OPERATOR, type Principal } from '../../keys/index.ts';
import { isAppError } from '../../lib/errors.ts';
import type { SandboxHost } from '../../sandboxes/interface.ts';
import { measure } from '../control/extras.ts';
import { E2bError, SandboxGoneError } from '../errors.ts';
import type { Rest } from '../rest.ts';
import { type SandboxRecord, toE2bId } from '../sandbox-records.ts';
import type { Admitted, EnvdAccess } from './access.ts';
import { EnvdCall, userNameOf } from './call.ts';
import {
  CONNECT_STATUS,
  ConnectError,
  MAX_INPUT_BYTES,
  MessageStream,
  readEnvelopes,
  readMessage,
  toConnectError,
} from './connect-protocol.ts';
import { filesystemRequests, largeLists, listDir, makeDir, move, remove, stat } from './filesystem.ts';
import { GuestUsers } from './guest-users.ts';
import { download, upload } from './http-files.ts';
import { ProcessService, processRequests } from './process.ts';
import { Watchers, watch, watchRequests } from './watch.ts';

/** Without the header that names it. */
const DEFAULT_KEEPALIVE_S = 90;
const MIN_KEEPALIVE_S = 1;
const MAX_TIMEOUT_MS = 2 ** 31 - 1;
const HEALTH_STATES: ReadonlySet<string> = new Set(['running', 'pausing', 'resuming']);

export type EnvdDeps = {
  readonly access: EnvdAccess;
  readonly rest: Rest;
  readonly sandboxes: SandboxHost;
  readonly defaultsOf: (id: string) => SandboxRecord['defaults'];
  /** The sandbox that the head of a request names. */
  readonly sandboxOf: (c: HttpContext) => string | undefined;
  /** The client of a request is known. */
  readonly admitted: (c: HttpContext, principal: Principal) => void;
};

type Limits = { readonly timeoutMs: number | undefined; readonly signal: AbortSignal };
type Unary = (call: EnvdCall, message: unknown) => Promise<object> | object;
type Streaming = (call: EnvdCall, message: unknown, limits: Limits) => AsyncGenerator<object, void>;

export function serveEnvd(app: Hono<HttpEnv>, deps: EnvdDeps): { close(): void } {
  const { access, rest, sandboxes, sandboxOf, defaultsOf } = deps;
  const users = new GuestUsers();
  const processes = new ProcessService();
  const watchers = new Watchers();

  /** SandboxGoneError for one that does not exist, or sleeps and does not wake by use. */
  const assertThere = (admitted: Admitted): void => {
    let info: { readonly state: string; readonly autoResume?: boolean | undefined };
    try {
      info = sandboxes.as(admitted.principal).get(admitted.id).info;
    } catch (error) {
      if (isAppError(error) && error.code === 'not_found') throw new SandboxGoneError(toE2bId(admitted.id));
      throw error;
    }
    const wakes = info.autoResume !== false;
    if (!HEALTH_STATES.has(info.state) && !(info.state === 'paused' && wakes))
      throw new SandboxGoneError(toE2bId(admitted.id));
  };
  const namedSandbox = (c: HttpContext): string => {
    const id = sandboxOf(c);
    if (id === undefined) throw new E2bError(400, 'the request names no sandbox; send E2b-Sandbox-Id');
    return id;
  };
  const toCall = (c: HttpContext, admitted: Admitted, userName: string | undefined): EnvdCall => {
    assertThere(admitted);
    deps.admitted(c, admitted.principal);
    return new EnvdCall(c, { ...admitted, rest, users, userName, defaults: defaultsOf(admitted.id) });
  };
  const admitCall = async (c: HttpContext): Promise<EnvdCall> =>
    toCall(c, await access.admit(c, namedSandbox(c)), userNameOf(c));

  const unary = (path: string, handle: Unary, maxBytes?: number): void => {
    app.post(path, async (c) => {
      const call = await admitCall(c);
      const body = readBody(c);
      try {
        return c.json(await handle(call, await readMessage(body, maxBytes)));
      } catch (error) {
        const { code, message } = toConnectError(error);
        return c.json({ code, message }, CONNECT_STATUS[code] as 400);
      } finally {
        body.discard();
      }
    });
  };
  const streaming = (path: string, handle: Streaming): void => {
    app.post(path, async (c) => {
      const call = await admitCall(c);
      const left = new AbortController();
      const signal = AbortSignal.any([left.signal, clientSignal(c)]);
      // Before an answer begins: pyqwest, the client of their Python SDK, sends no more of a request after that.
      const first = await settle(readFirst(readBody(c)));
      const messages = async function* (): AsyncGenerator<object, void> {
        const limits = { timeoutMs: readTimeout(c), signal };
        yield* handle(call, unwrap(first), limits);
      };
      const stream = new MessageStream(connectErrors(messages()), {
        keepaliveMs: readKeepalive(c),
        keepalive: path.startsWith('/process') ? { event: { keepalive: {} } } : { keepalive: {} },
        onCancel: () => left.abort(),
      });
      return answerPullStream(c, stream, { 'Content-Type': STREAM_TYPE });
    });
  };

  const { Start, Connect, List, Update, SendInput, CloseStdin, SendSignal } = processRequests;
  streaming('/process.Process/Start', (call, message, limits) =>
    processes.start(call, parse(Start, message), limits),
  );
  streaming('/process.Process/Connect', (call, message, limits) =>
    processes.connect(call, parse(Connect, message), limits),
  );
  unary('/process.Process/List', (call, message) => processes.list(call, parse(List, message)));
  unary('/process.Process/Update', (call, message) => processes.update(call, parse(Update, message)));
  const sendInput: Unary = (call, message) => processes.sendInput(call, parse(SendInput, message));
  unary('/process.Process/SendInput', sendInput, MAX_INPUT_BYTES);
  unary('/process.Process/CloseStdin', (call, message) =>
    processes.closeStdin(call, parse(CloseStdin, message)),
  );
  unary('/process.Process/SendSignal', (call, message) =>
    processes.sendSignal(call, parse(SendSignal, message)),
  );
  app.post('/process.Process/StreamInput', async (c) => {
    const call = await admitCall(c);
    const body = readBody(c, STREAMED_INPUT_IDLE_MS);
    const answer = await settle(processes.streamInput(call, readEnvelopes(body, MAX_INPUT_BYTES)));
    const answers = async function* (): AsyncGenerator<object, void> {
      yield unwrap(answer);
    };
    const stream = new MessageStream(connectErrors(answers()), {
      keepaliveMs: MAX_TIMEOUT_MS,
      keepalive: {},
      onCancel: () => body.discard(),
    });
    return answerPullStream(c, stream, { 'Content-Type': STREAM_TYPE });
  });

  const files = filesystemRequests;
  const filesystem = '/filesystem.Filesystem';
  const large = largeLists();
  unary(`${filesystem}/Stat`, (call, message) => stat(call, parse(files.Stat, message)));
  unary(`${filesystem}/MakeDir`, (call, message) => makeDir(call, parse(files.MakeDir, message)));
  unary(`${filesystem}/Move`, (call, message) => move(call, parse(files.Move, message)));
  unary(`${filesystem}/ListDir`, (call, message) => listDir(call, parse(files.ListDir, message), large));
  unary(`${filesystem}/Remove`, (call, message) => remove(call, parse(files.Remove, message)));
  const { WatchDir, GetWatcherEvents } = watchRequests;
  streaming(`${filesystem}/WatchDir`, (call, message, { signal }) =>
    watch(call, parse(WatchDir, message), signal),
  );
  unary(`${filesystem}/CreateWatcher`, (call, message) => watchers.create(call, parse(WatchDir, message)));
  unary(`${filesystem}/GetWatcherEvents`, (call, message) =>
    watchers.take(call, parse(GetWatcherEvents, message).watcherId),
  );
  unary(`${filesystem}/RemoveWatcher`, (call, message) =>
    watchers.remove(call, parse(GetWatcherEvents, message).watcherId),
  );

  app.get('/health', async (c) => {
    const token = headerOf(c, 'x-access-token');
    const named = sandboxOf(c);
    if (named === undefined && token === undefined) return c.body(null, 204);
    const id = named ?? (await access.find(token ?? ''))?.id;
    if (id === undefined) throw new SandboxGoneError('');
    assertThere({ id, principal: OPERATOR });
    return c.body(null, 204);
  });
  const onFiles =
    (handle: (c: HttpContext, call: EnvdCall) => Promise<Response>) => async (c: HttpContext) => {
      const call = toCall(c, await access.admitFiles(c, sandboxOf(c)), c.req.query('username') || undefined);
      try {
        return await handle(c, call);
      } catch (error) {
        if (error instanceof ConnectError) throw new E2bError(CONNECT_STATUS[error.code], error.message);
        throw error;
      }
    };
  app.get('/files', onFiles(download));
  app.post('/files', onFiles(upload));
  app.get('/envs', async (c) => c.json(await readEnvironment(await admitCall(c))));
  app.get('/metrics', async (c) => {
    const { requests, id } = await admitCall(c);
    const sample = await measure(requests, id);
    return c.json({
      ts: sample.timestampUnix,
      cpu_count: sample.cpuCount,
      cpu_used_pct: sample.cpuUsedPct,
      mem_total: sample.memTotal,
      mem_used: sample.memUsed,
      disk_total: sample.diskTotal,
      disk_used: sample.diskUsed,
    });
  });
  return watchers;
}

/** The sandbox's own variables. As a command has them: the REST interface shows no values. */
async function readEnvironment(call: EnvdCall): Promise<Record<string, string>> {
  const { requests, params } = call;
  const { env_names: names = [] } = await requests.call('getSandbox', { params });
  if (names.length === 0) return {};
  const body = { cmd: ['env', '-0'], timeout_s: ENVIRONMENT_TIMEOUT_S };
  const result = (await requests.call('exec', { params, body })) as unknown as {
    readonly exit_code: number;
    readonly stdout: string;
    readonly stderr: string;
  };
  if (result.exit_code !== 0) throw new E2bError(500, `the guest does not run env: ${result.stderr}`);
  const entries = result.stdout.split('\0').map((line) => line.split(/=(.*)/s, 2));
  return Object.fromEntries(
    entries.filter(([name = '', value]) => value !== undefined && names.includes(name)),
  );
}

const ENVIRONMENT_TIMEOUT_S = 30;

const STREAM_TYPE = 'application/connect+json';
/** Clients that keep the input open send a message each 50 s. */
const STREAMED_INPUT_IDLE_MS = 10 * 60_000;

/** ConnectError. */
function parse<S extends z.ZodType>(schema: S, message: unknown): z.output<S> {
  const parsed = schema.safeParse(message);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw new ConnectError('invalid_argument', `${issue?.path.join('.') || 'the message'}: ${issue?.message}`);
}

/** Errors of the REST interface end the stream in the protocol; others, such as a lost guest, cut it. */
async function* connectErrors(messages: AsyncGenerator<object, void>): AsyncGenerator<object, void> {
  try {
    yield* messages;
  } catch (error) {
    if (isAppError(error)) throw error;
    throw toConnectError(error);
  }
}

type Settled<T> = { readonly value: T } | { readonly error: unknown };

async function settle<T>(work: Promise<T>): Promise<Settled<T>> {
  try {
    return { value: await work };
  } catch (error) {
    return { error };
  }
}

function unwrap<T>(settled: Settled<T>): T {
  if ('error' in settled) throw settled.error;
  return settled.value;
}

/** The only message of a request that is answered by a stream. ConnectError. */
async function readFirst(body: BodySource): Promise<unknown> {
  try {
    for await (const message of readEnvelopes(body)) return message;
    return {};
  } finally {
    body.discard();
  }
}

/** Of the whole stream; absent: none. Python writes it with a fraction. ConnectError. */
function readTimeout(c: HttpContext): number | undefined {
  const text = headerOf(c, 'connect-timeout-ms');
  if (text === undefined) return undefined;
  if (!/^\d{1,10}(?:\.\d+)?$/.test(text))
    throw new ConnectError('invalid_argument', 'connect-timeout-ms must be a number of milliseconds');
  return Math.min(Math.ceil(Number(text)), MAX_TIMEOUT_MS);
}

function readKeepalive(c: HttpContext): number {
  const text = headerOf(c, 'keepalive-ping-interval');
  const seconds = text !== undefined && /^\d{1,5}$/.test(text) ? Number(text) : DEFAULT_KEEPALIVE_S;
  return Math.max(MIN_KEEPALIVE_S, seconds) * 1000;
}
