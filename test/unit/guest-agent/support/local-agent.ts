// The agent's exec over a socket pair in this process, without a guest. Without cgroups, it kills process groups.
import './addon-dir.ts';
import { once } from 'node:events';
import { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  ATTRIBUTES,
  type Channel,
  connectHost,
  type ExecInput,
  type ExecResult,
  FLOW,
  GuestConnection,
  PORTS,
  type Result,
  type Stream,
  type StreamLoss,
} from '@sandboxd/proto';
import type { Test } from 'tap';
import { serveRequest } from '../../../../guest-agent/src/calls.ts';
import { FdLink } from '../../../../guest-agent/src/channel/fd-link.ts';
import { CommandTable } from '../../../../guest-agent/src/commands/table.ts';
import { type Cgroup, ExecCgroups } from '../../../../guest-agent/src/exec/cgroups.ts';
import { Freezer } from '../../../../guest-agent/src/exec/freezer.ts';
import { WatchBudget } from '../../../../guest-agent/src/files/watch/budget.ts';
import { MemoryTrim } from '../../../../guest-agent/src/machine/memory-trim.ts';
import { addon } from '../../../../guest-agent/src/native/addon.ts';
import { Poller } from '../../../../guest-agent/src/native/poller.ts';
import { PortBudget } from '../../../../guest-agent/src/ports/connect.ts';
import { Reaper } from '../../../../guest-agent/src/reap/reaper.ts';
import { createLauncher } from '../../../../guest-agent/src/service/process.ts';
import { Supervisor } from '../../../../guest-agent/src/service/supervisor.ts';
import { SocketLink } from '../../../../host-agent/src/lib/socket-link.ts';

const PATH = 'PATH=/usr/local/bin:/usr/bin:/bin';

export type Running = {
  readonly stream: Stream;
  readonly started: Promise<number>;
  readonly done: Promise<{ readonly exec: ExecResult; readonly out: string; readonly err: string }>;
  /** Reads the output from now on, including earlier output. */
  readonly resume: () => void;
  /** Resolves once its output matches. */
  readonly output: (pattern: RegExp) => Promise<void>;
};

/** Counts acquired cgroups that are not released. */
class CountedCgroups extends ExecCgroups {
  inUse = 0;

  override acquire(): Cgroup {
    this.inUse += 1;
    return super.acquire();
  }

  override release(cgroup: Cgroup): void {
    this.inUse -= 1;
    super.release(cgroup);
  }
}

export type LocalAgent = {
  readonly cgroups: { readonly inUse: number };
  /** The hosts' sides of its links. */
  readonly sockets: readonly Socket[];
  /** Errors that the agent would have logged. */
  readonly faults: unknown[];
  /** A link to it, for a host that the test simulates byte by byte. */
  attach(): Socket;
  connect(incarnation?: string): Promise<Channel>;
};

export type LocalAgentOptions = {
  /** Its links never end, like that of a virtio-serial port. */
  readonly isPort?: boolean;
  /** Its links read descriptors natively. */
  readonly isEmulated?: boolean;
  /** Directory of its cgroups; absent: it kills process groups. */
  readonly cgroupRoot?: string;
};

export function startLocalAgent(
  t: Test,
  { isPort = false, isEmulated = false, cgroupRoot }: LocalAgentOptions = {},
): LocalAgent {
  const faults: unknown[] = [];
  const poller = new Poller((error) => faults.push(error));
  poller.start();
  const cgroups = new CountedCgroups(cgroupRoot);
  if (cgroupRoot !== undefined) cgroups.start();
  const freezer = new Freezer(cgroups);
  const reaper = new Reaper({ poller, onOrphan: (path, usage) => cgroups.credit(path, usage) });
  reaper.start();
  const launcher = createLauncher({ poller, reaper, cgroups });
  const service = new Supervisor(launcher, (work) => freezer.whenThawed(work));
  const connection: GuestConnection = new GuestConnection({
    describe: () => ({ agentVersion: 'test', capabilities: [ATTRIBUTES, PORTS] }),
    onHello: ({ incarnation }) => freezer.greeted(incarnation),
    onRequest: (stream, request) => serveRequest(context, stream, request),
    onMalformed: (cause) => faults.push(cause),
    onFault: (cause) => faults.push(cause),
  });
  const context = {
    poller,
    reaper,
    cgroups,
    freezer,
    trim: new MemoryTrim(),
    commands: new CommandTable(2 ** 29),
    service,
    watches: new WatchBudget(),
    ports: new PortBudget(),
    isEmulated,
    writesDirect: isEmulated,
    incarnation: () => connection.incarnation,
    streamCount: () => 0,
  };
  const sockets: Socket[] = [];
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    poller.stop();
  });
  const attach = (): Socket => {
    const [ours, theirs] = addon.socketPair();
    const onHostLeft = (): void => attached.hostLeft();
    const attached = connection.attach(
      new FdLink(ours, { poller, isEmulated, ...(isPort && { onHostLeft }) }),
    );
    const socket = new Socket({ fd: theirs, readable: true, writable: true });
    sockets.push(socket);
    return socket;
  };
  return {
    cgroups,
    sockets,
    faults,
    attach: () => attach().resume(),
    async connect(incarnation = 'one') {
      const link = new SocketLink(attach());
      const { channel } = await connectHost(link, { incarnation, needsResync: false });
      return channel;
    },
  };
}

export type RunOptions = Omit<ExecInput, 'cmd'> & {
  /** Whether output is read (default), so that the command is not blocked. */
  readonly isReading?: boolean;
};

export function run(
  channel: Channel,
  cmd: string[],
  { isReading = true, ...exec }: RunOptions = {},
): Running {
  const chunks: Record<number, Buffer[]> = { [FLOW.out]: [], [FLOW.err]: [] };
  const started = Promise.withResolvers<number>();
  const done = Promise.withResolvers<Awaited<Running['done']>>();
  let isTaken = isReading;
  let waitingBytes = 0;
  const resume = (): void => {
    isTaken = true;
    stream.consumed(waitingBytes);
    waitingBytes = 0;
  };
  const text = (flow: number): string => Buffer.concat(chunks[flow] ?? []).toString();
  const stream = channel.open(
    { exec: { cmd, env: [PATH, 'HOME=/root'], ...exec } },
    {
      data: (flow, chunk) => {
        chunks[flow]?.push(Buffer.from(chunk));
        if (isTaken) stream.consumed(chunk.length);
        else waitingBytes += chunk.length;
      },
      started: started.resolve,
      result: ({ exec, error }) => {
        if (exec) done.resolve({ exec: exec as ExecResult, out: text(FLOW.out), err: text(FLOW.err) });
        else done.reject(new Error(`${error?.code}: ${error?.message}`));
      },
      lost: (loss: StreamLoss) => done.reject(new Error(`lost: ${loss.kind}`)),
    },
  );
  const output = async (pattern: RegExp): Promise<void> => {
    while (!pattern.test(text(FLOW.out))) await sleep(10);
  };
  return { stream, started: started.promise, done: done.promise, resume, output };
}

/** Sends `bytes` as the command's input, and then its end. */
export function sendInput(stream: Stream, bytes: Buffer): void {
  let at = 0;
  stream.setSource(FLOW.in, (maxBytes) => {
    const chunk = bytes.subarray(at, at + maxBytes);
    at += chunk.length;
    if (chunk.length > 0) return chunk;
    stream.end(FLOW.in);
    return null;
  });
  stream.ready(FLOW.in);
}

export type Pushing = { readonly stream: Stream; readonly done: Promise<Result> };

/** `pieceBytes`: archive bytes in each frame. */
export function push(
  channel: Channel,
  path: string,
  archive: Buffer,
  pieceBytes = (): number => 65_536,
): Pushing {
  const done = Promise.withResolvers<Result>();
  const stream = channel.open(
    { filePush: { path } },
    { result: done.resolve, lost: (loss) => done.reject(new Error(`lost: ${loss.kind}`)) },
  );
  let at = 0;
  stream.setSource(FLOW.in, (maxBytes) => {
    const piece = archive.subarray(at, at + Math.min(maxBytes, pieceBytes()));
    at += piece.length;
    if (piece.length > 0) return piece;
    stream.end(FLOW.in);
    return null;
  });
  stream.ready(FLOW.in);
  return { stream, done: done.promise };
}

/** A new host that sends a hello determines the end of the previous host's calls. */
export async function leaveAndComeBack(agent: LocalAgent): Promise<void> {
  const left = agent.sockets.filter((socket) => !socket.destroyed);
  const closed = Promise.all(left.map((socket) => once(socket, 'close')));
  for (const socket of left) socket.destroy();
  await closed;
  await agent.connect(String(agent.sockets.length));
}
