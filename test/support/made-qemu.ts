// QEMU's control socket in the test's own process: records commands and answers them; and clients of it.
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { pino } from 'pino';
import type { Test } from 'tap';
import type { Controlled, ControlOptions } from '../../host-agent/src/engines/control.ts';
import type { VmmIdentity } from '../../host-agent/src/engines/engine.ts';
import type { CellOptions, Jail } from '../../host-agent/src/engines/jail/jail.ts';
import { QEMU } from '../../host-agent/src/engines/qemu/control.ts';

type Answer = (args: Readonly<Record<string, unknown>>) => unknown;

export class MadeQemu {
  readonly commands: { readonly execute: string; readonly arguments: Readonly<Record<string, unknown>> }[] =
    [];
  readonly sockets = new Set<Socket>();
  readonly #server: Server;
  /** Answers by command; a thrown error is a refusal, `never` sends no answer. Other commands get an empty answer. */
  on: Partial<Record<string, Answer>> = {};
  status = 'running';
  connections = 0;
  greeting = '{"QMP": {"version": {}, "capabilities": []}}\r\n';

  private constructor(path: string) {
    this.#server = createServer((socket) => this.#serve(socket)).listen(path);
  }

  static async listen(t: Test, path: string): Promise<MadeQemu> {
    const qemu = new MadeQemu(path);
    await once(qemu.#server, 'listening');
    t.teardown(() => qemu.close());
    return qemu;
  }

  /** Names of the commands, without the handshake and state queries. */
  get names(): string[] {
    const own = ['qmp_capabilities', 'query-status'];
    return this.commands.map(({ execute }) => execute).filter((name) => !own.includes(name));
  }

  count(name: string): number {
    return this.commands.filter(({ execute }) => execute === name).length;
  }

  say(event: string, data?: unknown): void {
    this.write(`${JSON.stringify({ event, data })}\r\n`);
  }

  write(text: string): void {
    for (const socket of this.sockets) socket.write(text);
  }

  hangUp(): void {
    for (const socket of this.sockets) socket.destroy();
  }

  close(): void {
    this.hangUp();
    this.#server.close();
  }

  #serve(socket: Socket): void {
    this.sockets.add(socket);
    this.connections++;
    socket.on('close', () => this.sockets.delete(socket)).on('error', () => undefined);
    createInterface({ input: socket })
      .on('error', () => undefined)
      .on('line', (line) => void this.#answer(socket, line));
    socket.write(this.greeting);
  }

  async #answer(socket: Socket, line: string): Promise<void> {
    const { execute, arguments: args, id } = JSON.parse(line);
    this.commands.push({ execute, arguments: args });
    let said: object;
    try {
      const usual = execute === 'query-status' ? { status: this.status } : {};
      said = { return: (await this.on[execute]?.(args)) ?? usual };
    } catch (error) {
      const { message, className = 'GenericError' } = error as Error & { className?: string };
      said = { error: { class: className, desc: message } };
    }
    socket.write(`${JSON.stringify({ ...said, id })}\r\n`);
  }
}

export const never = (): Promise<never> => new Promise(() => undefined);

/** A jail whose process does nothing, and whose VMM answers from this process. */
export class MadeJail {
  readonly asked: CellOptions[] = [];
  readonly vmms: MadeQemu[] = [];
  needsDirectWrites = false;
  readonly #t: Test;
  /** Called for each VMM before it starts. */
  prepare: (vmm: MadeQemu, options: CellOptions) => void = () => undefined;

  constructor(t: Test) {
    this.#t = t;
  }

  async enter(options: CellOptions) {
    this.asked.push(options);
    const pathAfter = (start: string): string | undefined =>
      options.args
        .find((arg) => arg.includes(start))
        ?.split(start)[1]
        ?.split(',', 1)[0];
    // The file that the VMM would create.
    const memory = pathAfter('mem-path=');
    if (memory?.startsWith('/dev/') === false) writeFileSync(memory, Buffer.alloc(4096));
    const vmm = await MadeQemu.listen(this.#t, pathAfter('unix:') ?? '');
    this.vmms.push(vmm);
    this.prepare(vmm, options);
    // Used by no other test and no daemon.
    const uid = 1_878_000_000 + randomInt(1_000_000);
    const user = ['--reuid', String(uid), '--regid', String(uid), '--clear-groups'];
    return { uid, program: '/usr/bin/setpriv', args: [...user, '/usr/bin/sleep', '600'] };
  }

  async confirm(): Promise<void> {}

  get asJail(): Jail {
    return this as unknown as Jail;
  }
}

/** The control of one VM that records its requested actions; not connected yet. */
export async function makeControl(
  t: Test,
  {
    kind = QEMU,
    isAdopted = false,
    jail,
    process,
  }: {
    kind?: typeof QEMU;
    isAdopted?: boolean;
    jail?: { uid: number };
    process?: Pick<VmmIdentity, 'pid' | 'memory'>;
  } = {},
) {
  const dir = mkdtempSync(join(tmpdir(), 'qc-'));
  const alive = setInterval(() => undefined, 1000);
  t.teardown(() => {
    clearInterval(alive);
    seen.isOver = true;
    rmSync(dir, { recursive: true, force: true });
  });
  const memory = { kind: 'file', path: join(dir, 'memory') } as const;
  const paths = { dir, socketDir: dir };
  const seen = {
    checks: 0,
    polls: 0,
    verdicts: [] as string[],
    causes: [] as string[],
    resumed: 0,
    isOver: false,
  };
  const vm = {
    identity: {
      engine: 'qemu',
      pid: 2 ** 30,
      startTicks: 1,
      bootId: 'b',
      paths,
      memory,
      ...(jail && { jail }),
      ...process,
    } as VmmIdentity,
    get isOver() {
      return seen.isOver;
    },
    checkState: async () => {
      seen.checks += 1;
      return { kind: 'runs' };
    },
    terminate: async (reason: string) => void seen.verdicts.push(reason),
    checkExit: () => void seen.polls++,
  } as Partial<Controlled> as Controlled;
  const options: ControlOptions = {
    log: pino({ level: 'silent' }),
    isAdopted,
    onResumed: () => void seen.resumed++,
    onIoPause: (cause) => void seen.causes.push(cause),
  };
  const control = kind.control(vm, options);
  const qemu = await MadeQemu.listen(t, join(dir, 'qmp.sock'));
  t.teardown(() => control.close());
  return { dir, seen, vm, control, qemu, connect: () => control.connect(AbortSignal.timeout(20_000)) };
}
