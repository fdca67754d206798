// `sandbox forward`, `connect`, `ssh` and `ports`: connections to TCP ports of sandboxes, and ports that are open for
// URLs.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { basename, resolve } from 'node:path';
import { type Input, UsageError } from '@sandboxd/api/command-line';
import type { Client } from '../../client.ts';
import type { OpenPort, PublishedPort } from '../../contract.ts';
import { SandboxdError } from '../../errors.ts';
import { resolveWord } from '../names.ts';
import { toPort as toMapping } from '../units.ts';
import type { Session, Verb } from '../verb.ts';

const MAX_PORT = 65_535;
const SSH_PORT = 22;
const LOOPBACK = '127.0.0.1';

export const forward: Verb = {
  name: 'forward',
  operands: '<sandbox> <[local:]port…>',
  completes: ['sandbox', []],
  summary: 'Forward local ports to ports of a sandbox',
  details:
    'Listens until it is interrupted. The sandbox needs no network. Local port 0 takes a free one. A connection that ' +
    'the daemon loses ends; later ones reach the daemon again.',
  flags: {
    address: { type: 'string', placeholder: 'ip', help: `local address to listen on; default: ${LOOPBACK}` },
  },
  example: 'sandbox forward $ID 8080:80',
  async run({ operands: [id = '', ...words], text }, session) {
    const { client, terminal, signal, isJson } = session;
    const pairs = words.map(toPair);
    // A sandbox that does not exist is found before the first connection.
    await client.sandboxes.get(id).info({ signal });
    const servers: Server[] = [];
    try {
      for (const { local, port } of pairs) {
        const server = createServer({ allowHalfOpen: true }, (socket) => {
          join(socket, client, id, port, session);
        });
        servers.push(server);
        server.listen(local, text('address') ?? LOOPBACK);
        await once(server, 'listening', { signal });
        const { address, port: localPort } = server.address() as AddressInfo;
        if (isJson) await terminal.writeJson({ address, local_port: localPort, sandbox: id, port });
        else
          terminal.print(`${address.includes(':') ? `[${address}]` : address}:${localPort} → ${id}:${port}`);
      }
      await new Promise<void>((done) => {
        if (signal.aborted) done();
        signal.addEventListener('abort', () => done(), { once: true });
      });
    } finally {
      for (const server of servers) server.close();
    }
    return 0;
  },
};

async function join(
  socket: Socket,
  client: Client,
  id: string,
  port: number,
  { signal, complain }: Session,
): Promise<void> {
  socket.on('error', () => undefined);
  const left = new AbortController();
  socket.once('close', () => left.abort(new Error('the local client left')));
  try {
    const connection = await client.sandboxes.get(id).connect(port, { signal: left.signal });
    socket.on('close', () => connection.destroy());
    connection.on('error', () => socket.resetAndDestroy());
    socket.pipe(connection).pipe(socket);
  } catch (error) {
    socket.resetAndDestroy();
    if (!signal.aborted && !left.signal.aborted) complain((error as Error).message);
  }
}

export const connect: Verb = {
  name: 'connect',
  operands: '<sandbox> <port>',
  completes: ['sandbox', []],
  summary: 'Connect standard input and output to a port of a sandbox',
  details: 'Ends when both directions have ended. It works as a ProxyCommand of ssh.',
  flags: {},
  example: 'sandbox connect $ID 22',
  async run({ operands: [id = '', word = ''] }, { client, terminal, signal }) {
    const connection = await client.sandboxes.get(id).connect(toPort(word), { signal });
    signal.addEventListener('abort', () => connection.destroy(), { once: true });
    const ended = once(connection, 'end', { signal });
    const closed = once(connection, 'close', { signal });
    terminal.stdin.pipe(connection);
    connection.pipe(terminal.stdout, { end: false });
    await ended;
    // A person at a terminal does not end the input.
    if (terminal.stdin.isTTY) connection.destroy();
    await closed;
    return 0;
  },
};

export const ssh: Verb = {
  name: 'ssh',
  operands: '<sandbox> [argument…]',
  completes: ['sandbox', []],
  commandFrom: 1,
  summary: 'Run ssh to a sandbox that runs sshd',
  details:
    'Needs ssh here and sshd in the sandbox, but no network of the sandbox. The arguments are for ssh.',
  flags: {
    port: { type: 'string', short: 'p', placeholder: 'port', help: `port of sshd; default: ${SSH_PORT}` },
    user: { type: 'string', short: 'u', placeholder: 'name', help: 'user in the sandbox; default: root' },
  },
  example: 'sandbox ssh $ID uptime',
  async run(input, { client, signal }) {
    const [id = '', ...args] = input.operands;
    const port = toPort(input.text('port') ?? String(SSH_PORT));
    // Its error is clearer than what ssh says of a proxy that ends.
    (await client.sandboxes.get(id).connect(port, { signal })).destroy();
    const proxy = [...ownCommand(), ...contextFlags(input), 'connect', id, String(port)];
    const options = [
      `ProxyCommand=${proxy.map(quote).join(' ')}`,
      `HostKeyAlias=${id}`,
      'StrictHostKeyChecking=accept-new',
    ].flatMap((option) => ['-o', option]);
    const child = spawn('ssh', [...options, '-l', input.text('user') ?? 'root', '--', id, ...args], {
      stdio: 'inherit',
    });
    // It is in the same process group: ssh gets the signal, too.
    const ignore = (): void => undefined;
    process.on('SIGINT', ignore);
    try {
      const [code] = (await once(child, 'exit')) as [number | null];
      return code ?? 1;
    } catch (cause) {
      throw new SandboxdError(`cannot run ssh: ${(cause as Error).message}`, { cause });
    } finally {
      process.off('SIGINT', ignore);
    }
  },
};

/** This program: a file of its own name, or a script of Node. */
function ownCommand(): readonly string[] {
  const { argv0, execPath, execArgv, argv } = process;
  if (basename(argv0) === 'sandbox') return [argv0.includes('/') ? resolve(argv0) : argv0];
  return [execPath, ...execArgv, resolve(argv[1] ?? '')];
}

function contextFlags({ text }: Input): readonly string[] {
  return ['host', 'context', 'ca'].flatMap((name) => {
    const value = text(name);
    return value === undefined ? [] : [`--${name}`, name === 'ca' ? resolve(value) : value];
  });
}

/** For the shell that ssh starts, and for ssh, which expands percent signs. */
function quote(word: string): string {
  return `'${word.replaceAll("'", "'\\''").replaceAll('%', '%%')}'`;
}

const ACTIONS = ['open', 'close', 'publish', 'unpublish'] as const;

export const ports: Verb = {
  name: 'ports',
  operands: '<sandbox|open|close|publish|unpublish> [sandbox] [port…]',
  completes: [[...ACTIONS], 'sandbox', []],
  resolvesNames: true,
  summary: 'Show, open, close and publish ports of a sandbox',
  details:
    'Open ports have URLs. A published port is one of the host, [address:]port:port-in-the-sandbox, and needs a ' +
    'network of the sandbox.',
  flags: {
    public: { type: 'boolean', help: 'with open: everyone may connect, without a key' },
    'mask-host': { type: 'boolean', help: 'with open: the server gets the header Host as localhost' },
  },
  example: 'sandbox ports open $ID 3000',
  async run({ operands, isSet }, { client, terminal, signal, isJson }) {
    const [first = '', second, ...words] = operands;
    const action = second === undefined ? undefined : ACTIONS.find((each) => each === first);
    if (second !== undefined && action === undefined)
      throw new UsageError(`there is no ${JSON.stringify(first)}; known are ${ACTIONS.join(', ')}`);
    const id = await resolveWord('sandbox', second ?? first, () => client, signal);
    const target = client.sandboxes.get(id).ports;
    if (action === undefined) {
      const [found, published] = await Promise.all([target.list({ signal }), target.published({ signal })]);
      if (isJson) terminal.printJson({ ports: found, ...(published.length > 0 && { published }) });
      else {
        if (found.length > 0 || published.length === 0)
          terminal.table(['PORT', 'ACCESS', 'OPENED'], found.map(toRow));
        if (published.length > 0) terminal.table(['PORT', 'PUBLISHED AS'], published.map(toPublishedRow));
      }
      return 0;
    }
    if (words.length === 0)
      throw new UsageError(`a port is missing: sandbox ports ${action} <sandbox> <port…>`);
    if (action === 'publish' || action === 'unpublish') {
      const published: PublishedPort[] = [];
      for (const { host_ip, host_port, guest_port } of words.map(toMapping)) {
        if (action === 'unpublish') await target.unpublish(guest_port, host_port, { signal });
        else
          published.push(
            await target.publish(guest_port, {
              hostPort: host_port,
              ...(host_ip !== undefined && { hostIp: host_ip }),
              signal,
            }),
          );
        if (!isJson) terminal.print(`${host_port}:${guest_port}`);
      }
      if (isJson) terminal.printJson(action === 'publish' ? { published } : { unpublished: words });
      return 0;
    }
    const opened: OpenPort[] = [];
    for (const port of words.map(toPort)) {
      if (action === 'close') await target.close(port, { signal });
      else {
        const access = isSet('public') ? 'public' : 'private';
        const host = isSet('mask-host') ? 'localhost' : 'sent';
        opened.push(await target.open(port, { access, host, signal }));
      }
      if (!isJson) terminal.print(String(port));
    }
    if (isJson) terminal.printJson(action === 'close' ? { closed: words.map(toPort) } : { ports: opened });
    return 0;
  },
};

function toRow({ port, access, opened_at }: OpenPort): string[] {
  return [String(port), access, opened_at];
}

function toPublishedRow({ host_ip = '', host_port, guest_port }: PublishedPort): string[] {
  const address = host_ip.includes(':') ? `[${host_ip}]` : host_ip;
  return [String(guest_port), address === '' ? String(host_port) : `${address}:${host_port}`];
}

function toPair(word: string): { readonly local: number; readonly port: number } {
  const [, local, port = ''] = /^(?:(\d{1,5}):)?(\d{1,5})$/.exec(word) ?? [];
  if (port === '' || Number(local) > MAX_PORT)
    throw new UsageError(`${JSON.stringify(word)} is neither a port nor local:port, such as 8080:80`);
  return { local: Number(local ?? port), port: toPort(port) };
}

function toPort(word: string): number {
  const port = /^\d{1,5}$/.test(word) ? Number(word) : 0;
  if (port >= 1 && port <= MAX_PORT) return port;
  throw new UsageError(`${JSON.stringify(word)} is not a port from 1 to ${MAX_PORT}`);
}
