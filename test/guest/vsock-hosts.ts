// Runs inside a guest: hosts that connect to the agent's modules in vsock-agent.ts from the same guest. Each line of
// output is a test's outcome.
import { type ChildProcess, spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type ByteLink,
  type Channel,
  connectHost,
  type ExecResult,
  FLOW,
  type LinkEvents,
  type StreamLoss,
} from '@sandboxd/proto';
import { LOCAL_CID, PORT, STRICT_PORT } from './vsock-ports.ts';

const [relay = '', ...rest] = process.argv.slice(2);
const SEQUENCE = 25;
const FLOOD_BYTES = 24 * 1024 * 1024;
const TEST_TIMEOUT_MS = 60_000;
const EXEC_ENV = ['PATH=/usr/bin:/bin'];

/** A host's side of a connection: a process that connects its streams with the socket. */
class RelayLink implements ByteLink {
  readonly child: ChildProcess;

  constructor(port: number) {
    this.child = spawn(relay, [String(LOCAL_CID), String(port)], { stdio: ['pipe', 'pipe', 'inherit'] });
    this.child.stdin?.on('error', () => undefined);
  }

  start(events: LinkEvents): void {
    this.child.stdout?.on('data', (chunk: Buffer) => events.data(chunk));
    this.child.stdout?.on('close', () => events.close());
    this.child.stdin?.on('drain', () => events.drain());
  }

  write(chunks: readonly Uint8Array[]): boolean {
    let isWritable = true;
    for (const chunk of chunks) isWritable = this.child.stdin?.write(chunk) ?? false;
    return isWritable;
  }

  destroy(): void {
    this.child.kill('SIGKILL');
  }
}

async function connect(incarnation: string, onClose?: (cause: Error) => void): Promise<[Channel, RelayLink]> {
  const link = new RelayLink(PORT);
  const signal = AbortSignal.timeout(60_000);
  const { channel } = await connectHost(link, {
    incarnation,
    needsResync: false,
    signal,
    ...(onClose && { onClose }),
  });
  return [channel, link];
}

type Ran = { readonly exec: ExecResult; readonly sizeBytes: number; readonly digest: string };

function run(channel: Channel, cmd: string[], input?: Buffer): Promise<Ran> {
  const hash = createHash('sha256');
  let sizeBytes = 0;
  return new Promise((resolve, reject) => {
    const stream = channel.open(
      { exec: { cmd, env: EXEC_ENV, stdin: input !== undefined } },
      {
        data: (_flow, chunk) => {
          hash.update(chunk);
          sizeBytes += chunk.length;
          stream.consumed(chunk.length);
        },
        result: ({ exec }) => resolve({ exec: exec as ExecResult, sizeBytes, digest: hash.digest('hex') }),
        lost: (loss: StreamLoss) => reject(new Error(`lost: ${loss.kind}`)),
      },
    );
    if (input === undefined) return;
    let at = 0;
    stream.setSource(FLOW.in, (maxBytes) => {
      const chunk = input.subarray(at, at + maxBytes);
      at += chunk.length;
      if (chunk.length > 0) return chunk;
      stream.end(FLOW.in);
      return null;
    });
    stream.ready(FLOW.in);
  });
}

/** The last successful check, for the report of a test that hangs. */
let progress = '';

function check(what: string, isTrue: boolean, detail: unknown = ''): void {
  if (!isTrue) throw new Error(`${what}: ${JSON.stringify(detail)}`);
  progress = what;
}

const tests: Readonly<Record<string, () => Promise<void>>> = {
  'many connections one after another': async () => {
    for (let at = 0; at < SEQUENCE; at++) {
      const [channel, link] = await connect(`host-${at}`);
      await channel.ping();
      // Some close gracefully, some disconnect.
      if (at % 2 === 0) channel.close(new Error('done'));
      else link.child.kill('SIGKILL');
    }
  },
  'the newest hello wins, and what runs goes on for another host': async () => {
    const [first] = await connect('one');
    const lost = run(first, ['sleep', '60']).then(
      () => 'ended',
      (error: Error) => error.message,
    );
    const [second] = await connect('one');
    await second.ping();
    const outcome = await Promise.race([
      first.ping().then(() => 'answered'),
      sleep(1500).then(() => 'silent'),
    ]);
    check('the first host is not heard any more', outcome === 'silent', outcome);
    first.close(new Error('done'));
    check('its command is lost to it', (await lost).startsWith('lost'), await lost);
    check('the second is still served', (await run(second, ['true'])).exec.exitCode === 0);
    second.close(new Error('done'));
  },
  'a silent connection does not disturb the one that spoke': async () => {
    const [channel] = await connect('one');
    const idle = new RelayLink(PORT);
    await sleep(300);
    await channel.ping();
    idle.destroy();
    await sleep(300);
    await channel.ping();
    channel.close(new Error('done'));
  },
  'output and input of any size arrive whole': async () => {
    const [channel] = await connect('one');
    const out = await run(channel, ['sh', '-c', `head -c ${FLOOD_BYTES} /dev/zero`]);
    const zeros = createHash('sha256').update(Buffer.alloc(FLOOD_BYTES)).digest('hex');
    check('output', out.sizeBytes === FLOOD_BYTES && out.digest === zeros, out);
    const input = Buffer.alloc(FLOOD_BYTES / 4, 'a pattern that is no power of two long.');
    const back = await run(channel, ['cat'], input);
    const digest = createHash('sha256').update(input).digest('hex');
    check('input', back.sizeBytes === input.length && back.digest === digest, back);
    channel.close(new Error('done'));
  },
  'a connection that breaks in the middle of output is survived': async () => {
    for (let round = 0; round < 3; round++) {
      const closed = Promise.withResolvers<void>();
      const [channel, link] = await connect(`round-${round}`, () => closed.resolve());
      const flood = run(channel, ['sh', '-c', 'exec cat /dev/zero']).catch((error: Error) => error.message);
      await sleep(200);
      link.child.kill('SIGKILL');
      await closed.promise;
      check('the host sees it', String(await flood).startsWith('lost'), await flood);
      const [next] = await connect(`after-${round}`);
      check('the next host is served', (await run(next, ['true'])).exec.exitCode === 0);
      next.close(new Error('done'));
    }
  },
  'who does not come from the host is turned away': async () => {
    for (let at = 0; at < 5; at++) {
      const stranger = new RelayLink(STRICT_PORT);
      const heard = await new Promise<number>((resolve) => {
        let bytes = 0;
        stranger.child.stdout?.on('data', (chunk: Buffer) => {
          bytes += chunk.length;
        });
        stranger.child.stdout?.on('close', () => resolve(bytes));
      });
      check('nothing is said to it', heard === 0, heard);
    }
  },
};

for (const [name, test] of Object.entries(tests)) {
  if (rest.length > 0 && !rest.includes(name)) continue;
  progress = '';
  const timeout = sleep(TEST_TIMEOUT_MS, undefined, { ref: false }).then(() => `no end, after: ${progress}`);
  const error = await Promise.race([test(), timeout]).then(
    (late) => late ?? undefined,
    (cause: unknown) => cause,
  );
  const outcome = { name, ...(error !== undefined && { error: String(error) }) };
  process.stdout.write(`${JSON.stringify(outcome)}\n`);
}
process.exit(0);
