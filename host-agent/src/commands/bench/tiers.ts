// The tiers: what is measured, each up to the first command that has run in the guest.

import { readFileSync } from 'node:fs';
import { request } from 'node:http';
import { request as tlsRequest } from 'node:https';
import type { CreateOptions, Sandbox } from '@sandboxd/client';
import { answer, type Lab } from './lab.ts';
import { NotMeasured, type Operation, type Tier } from './measure.ts';

/** Tiers on running copies share so many: more at once than these is a load of the daemon, not of the host's memory. */
const MAX_SHARED = 8;
const FILE_BYTES = 2 ** 20;
const FILE = '/tmp/bench-file';

export type TierOptions = {
  /** Present on the host, or pulled by the daemon before. */
  readonly image: string | undefined;
  /** What guests fetch: an address of http. */
  readonly egress: URL | undefined;
  readonly apiKey: string | undefined;
  /** Of the disk of paused sandboxes. */
  readonly freeBytes: () => Promise<number>;
};

type Run = (sandbox: Sandbox, signal: AbortSignal) => Promise<void>;

export function makeTiers(lab: Lab, { image, egress, apiKey, freeBytes }: TierOptions): readonly Tier[] {
  const creates = (name: string, more: CreateOptions): Tier => ({
    name,
    prepare: async (count) => each(count, () => madeBy((signal) => lab.create(more, signal))),
  });
  return [
    // A boot argument excludes the template.
    creates('cold boot', { boot_args: 'sandboxd_bench=1' }),
    warmed(creates('create from template', {}), (signal) => lab.create({}, signal)),
    image === undefined
      ? unmeasured('create from an image', 'no image was named: --image')
      : warmed(creates('create from an image', ofImage(image)), (signal) =>
          lab.create(ofImage(image), signal),
        ),
    warmed(
      {
        name: 'fork',
        prepare: async (count) => each(count, () => madeBy((signal) => lab.fork(signal))),
      },
      (signal) => lab.fork(signal),
    ),
    onOwnCopies(lab, 'resume', {
      bound: (count) => assertDisk(count, lab.options.memoryMib, freeBytes),
      before: async (sandbox, signal) => void (await sandbox.pause({ signal })),
      run: async (sandbox, signal) => void (await sandbox.resume({ signal })),
    }),
    onOwnCopies(lab, 'rollback', {
      run: async (sandbox, signal) => {
        await sandbox.rollback(await lab.snapshot(signal), { signal });
      },
    }),
    onSharedCopies(lab, 'exec', async () => undefined),
    onSharedCopies(lab, 'files', exchangeFile, { isAnswer: true }),
    onSharedCopies(lab, 'ingress', (sandbox, signal) => fetchFrom(sandbox, apiKey, signal), {
      isAnswer: true,
      before: (sandbox, signal) => startServer(sandbox, signal),
    }),
    egress === undefined
      ? unmeasured('egress', 'no address was named: --egress')
      : makeEgressTier(lab, egress),
  ];
}

const ofImage = (image: string): CreateOptions => ({ image: { oci: image } });

function each(count: number, make: (at: number) => Operation): Operation[] {
  return Array.from({ length: count }, (_, at) => make(at));
}

function unmeasured(name: string, why: string): Tier {
  return {
    name,
    async prepare() {
      throw new NotMeasured(why);
    },
  };
}

/** Makes a sandbox, and deletes it before the next round. */
function madeBy(make: (signal: AbortSignal) => Promise<Sandbox>): Operation {
  let made: Sandbox | undefined;
  return {
    async run(signal) {
      made = await make(signal);
      await answer(made, signal);
    },
    after: async (signal) => made?.delete({ signal }),
  };
}

/** The first one of all makes a template, converts an image or takes the snapshot: that is not what is measured. */
function warmed(tier: Tier, make: (signal: AbortSignal) => Promise<Sandbox>): Tier {
  let isWarm = false;
  return {
    name: tier.name,
    async prepare(count, signal) {
      if (!isWarm) {
        const first = await make(signal);
        await answer(first, signal);
        await first.delete({ signal });
      }
      isWarm = true;
      return tier.prepare(count, signal);
    },
  };
}

/** One copy for each operation. */
function onOwnCopies(
  lab: Lab,
  name: string,
  { bound, before, run }: { bound?: (count: number) => Promise<void>; before?: Run; run: Run },
): Tier {
  return {
    name,
    async prepare(count, signal) {
      await bound?.(count);
      const copies = await lab.copies(count, signal);
      await Promise.all(copies.map((copy) => before?.(copy, signal)));
      return copies.map((copy) => ({
        async run(signal) {
          await run(copy, signal);
          await answer(copy, signal);
        },
      }));
    },
  };
}

/** A pause writes at most the memory of the guest: all of them together may take a half of what is free. */
async function assertDisk(count: number, memoryMib: number, freeBytes: () => Promise<number>): Promise<void> {
  const [needed, free] = [count * memoryMib, Math.floor((await freeBytes()) / 2 ** 20)];
  if (needed > free / 2)
    throw new NotMeasured(
      `${count} paused sandboxes may take ${needed} MiB of disk, and ${free} MiB are free`,
    );
}

/** Some copies for all operations. `isAnswer`: what `run` does is an answer of the guest itself. */
function onSharedCopies(
  lab: Lab,
  name: string,
  run: Run,
  { isAnswer = false, before }: { isAnswer?: boolean; before?: Run } = {},
): Tier {
  const ready = new Set<string>();
  return {
    name,
    async prepare(count, signal) {
      const copies = await lab.copies(Math.min(count, MAX_SHARED), signal);
      for (const copy of copies) {
        if (ready.has(copy.id)) continue;
        await before?.(copy, signal);
        ready.add(copy.id);
      }
      return each(count, (at) => ({
        async run(signal) {
          const copy = copies[at % copies.length];
          if (copy === undefined) throw new Error('there is no copy');
          await run(copy, signal);
          if (!isAnswer) await answer(copy, signal);
        },
      }));
    },
  };
}

/** A file that is written and read back; operations at once have one each. */
async function exchangeFile({ files }: Sandbox, signal: AbortSignal): Promise<void> {
  const path = `${FILE}-${Math.random().toString(36).slice(2)}`;
  const content = Buffer.alloc(FILE_BYTES, path);
  await files.write(path, content, { signal });
  const read = await files.read(path, { signal });
  if (!content.equals(read)) throw new Error('the file is not as it was written');
  await files.remove(path, { signal });
}

async function fetchFrom({ ports }: Sandbox, apiKey: string | undefined, signal: AbortSignal): Promise<void> {
  await httpGet(new URL(await ports.url(SERVER_PORT, { signal })), apiKey, signal);
}

/** Guests of their own: a copy of one without a network has no network. */
function makeEgressTier(lab: Lab, url: URL): Tier {
  const guests: Sandbox[] = [];
  const port = url.port === '' ? '80' : url.port;
  // bash opens the connection, so that the guest needs no other program.
  const script = `exec 3<>"/dev/tcp/$0/$1" && printf 'GET %s HTTP/1.0\\r\\nHost: %s\\r\\n\\r\\n' "$2" "$0" >&3 && grep -q '^HTTP/1' <&3`;
  const cmd = ['bash', '-c', script, url.hostname, port, `${url.pathname}${url.search}`];
  const rules = [{ host: url.hostname, protocol: 'tcp' as const, ports: [Number(port)] }];
  const network = { enabled: true, rules };
  return {
    name: 'egress',
    async prepare(count, signal) {
      while (guests.length < Math.min(count, MAX_SHARED)) guests.push(await lab.create({ network }, signal));
      return each(count, (at) => ({
        async run(signal) {
          const { exit_code } = (await guests[at % guests.length]?.exec(cmd, { signal }).result()) ?? {};
          if (exit_code !== 0) throw new Error(`${url.host} did not answer the guest`);
        },
      }));
    },
  };
}

// A small web server in a guest, and requests to it by its URL.

const SERVER_PORT = 48_099;
const TRIES = 100;
const WAIT_MS = 100;
const REPLY = 'HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\nConnection: close\\r\\n\\r\\nok';
/** Debian has perl in each installation, and images of languages Python. */
const PERL = `use IO::Socket::INET; $s = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => ${SERVER_PORT},
  Listen => 128, ReuseAddr => 1) or die; while ($c = $s->accept) { while (<$c>) { last if /^\\r?$/ }
  print $c "${REPLY}"; close $c }`;
const PYTHON = `import socket
s = socket.create_server(("127.0.0.1", ${SERVER_PORT}), backlog=128)
while True:
    c, _ = s.accept()
    c.recv(65536)
    c.sendall(b"${REPLY}")
    c.close()`;
const START = `if command -v perl >/dev/null; then exec perl -e "$0"; fi; exec python3 -c "$1"`;

/** NotMeasured if the guest has no program for it, or the daemon no URLs. */
async function startServer(sandbox: Sandbox, signal: AbortSignal): Promise<void> {
  try {
    await sandbox.ports.url(SERVER_PORT, { signal });
  } catch (error) {
    signal.throwIfAborted();
    throw new NotMeasured(error instanceof Error ? error.message : String(error));
  }
  const server = await sandbox.commands.start(['sh', '-c', START, PERL, PYTHON], { signal });
  for (let attempt = 0; attempt < TRIES; attempt++) {
    const connection = await sandbox.connect(SERVER_PORT, { signal }).catch(() => undefined);
    connection?.destroy();
    if (connection !== undefined) return;
    if ((await server.info({ signal })).state !== 'running') break;
    await new Promise((resolve) => setTimeout(resolve, WAIT_MS));
  }
  throw new NotMeasured('the guest has neither perl nor python3 for a server');
}

/** Resolves when the whole answer is there. Names below localhost are this host, as for browsers. */
function httpGet(url: URL, apiKey: string | undefined, signal: AbortSignal): Promise<void> {
  const isTls = url.protocol === 'https:';
  const ca = process.env.SANDBOXD_CA;
  const options = {
    host: url.hostname.endsWith('.localhost') ? '127.0.0.1' : url.hostname,
    port: url.port,
    path: url.pathname,
    agent: false as const,
    signal,
    ...(isTls && ca !== undefined && { ca: readFileSync(ca) }),
    headers: { host: url.host, ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }) },
  };
  return new Promise((resolve, reject) => {
    const sent = (isTls ? tlsRequest : request)(options, (response) => {
      response.resume();
      response.once('error', reject);
      response.once('end', () =>
        response.statusCode === 200
          ? resolve()
          : reject(new Error(`the URL of the port answered ${response.statusCode}`)),
      );
    });
    sent.once('error', reject);
    sent.end();
  });
}
