// The daemon's end of the control connection of a dialler (native/egressd.c, which has the protocol). A dialler that
// was broken by its guest could ask for what its policy allows anyway, report connections that there were not, and keep
// those that a change of the policy closes, to where they lead already. What it says is limited, and ends nothing else.
import { once } from 'node:events';
import { connect, isIPv4, type Socket } from 'node:net';
import { AppError } from '../lib/errors.ts';
import { TokenBucket } from '../lib/token-bucket.ts';
import { deadline, raceSignal } from '../lib/wait.ts';
import type { NamedConnection } from './bound-rules.ts';
import { isName } from './resolver/allowlist.ts';

/** `tag`: the daemon's own word about the verdict, without spaces, which comes back in the record. */
export type DiallerVerdict =
  | { readonly isAllowed: true; readonly isRead: true; readonly ttlS: number; readonly tag: string }
  | {
      readonly isAllowed: true;
      readonly isRead?: false;
      readonly ttlS: number;
      readonly tag: string;
      readonly addresses: string[];
    }
  | { readonly isAllowed: false; readonly tag: string };

/** A connection that is over. */
export type DialledConnection = {
  readonly isAllowed: boolean;
  /** A word of native/egressd.c. */
  readonly reason: string;
  readonly kind: NamedConnection['kind'] | undefined;
  /** Its requests were read, and have records of their own. */
  readonly isRead: boolean;
  readonly name: string | undefined;
  readonly address: string | undefined;
  readonly port: number;
  readonly bytesUp: number;
  readonly bytesDown: number;
  readonly ms: number;
  readonly tag: string | undefined;
};

export type ControlHandlers = {
  /** Never rejects. */
  readonly judge: (connection: NamedConnection) => Promise<DiallerVerdict>;
  readonly onEnded: (connection: DialledConnection) => void;
  /** Connections that were over the limits. */
  readonly onLost: (count: number) => void;
  /** `isBroken`: it wrote what it never writes, or too much. */
  readonly onClosed: (isBroken: boolean) => void;
};

type JudgedFlow = { readonly id: string; readonly connection: NamedConnection };

const TIMEOUT_MS = 10_000;
const MAX_LINE_CHARS = 4096;
/** As many connections as there can be, those of the gateway among them (MAX_LINKS and MAX_GATE of egressd.c). */
const MAX_FLOWS = 1024 + 1280;
/** More than its own limit of new connections. */
const ASKS_PER_S = 200;
const ASKS_AT_ONCE = 2048;
/** More than the ends of all connections at once, beside a list of them. */
const LINES_PER_S = 1000;
const LINES_AT_ONCE = 8192;
/** More than the verdicts about all that it may ask at once. */
const MAX_UNREAD_BYTES = 4 * 1024 * 1024;
const MAX_PORT = 65_535;
const KINDS = ['tls', 'http', 'postgres'] as const;

export class DiallerControl {
  readonly #socket: Socket;
  readonly #handlers: ControlHandlers;
  readonly #asks = new TokenBucket(ASKS_PER_S, ASKS_AT_ONCE);
  readonly #lines = new TokenBucket(LINES_PER_S, LINES_AT_ONCE);
  #isBroken = false;
  #isClosed = false;
  #text = '';
  #flows: JudgedFlow[] | undefined;
  #answered: ((flows: readonly JudgedFlow[]) => void) | undefined;
  #synced: (() => void) | undefined;

  private constructor(socket: Socket, handlers: ControlHandlers) {
    this.#socket = socket;
    this.#handlers = handlers;
    socket.unref();
    socket.setEncoding('latin1');
    socket.on('error', () => socket.destroy());
    socket.on('data', (text: string) => this.#receive(text));
    socket.on('close', () => {
      if (!this.#isClosed) handlers.onClosed(this.#isBroken);
    });
  }

  /** Rejects if there is none. */
  static async open(path: string, handlers: ControlHandlers): Promise<DiallerControl> {
    const socket = connect(path);
    await once(socket, 'connect');
    return new DiallerControl(socket, handlers);
  }

  /**
   * Has it forget its verdicts, and close the connections that may not stay. Resolves with their number when they are
   * closed. One call at a time. AppError internal.
   */
  async settle(mayStay: (connection: NamedConnection) => boolean): Promise<number> {
    const list = Promise.withResolvers<readonly JudgedFlow[]>();
    this.#flows = [];
    this.#answered = list.resolve;
    await this.#wait('list', list.promise);
    const closing = (await list.promise).filter(({ connection }) => !mayStay(connection));
    for (const { id } of closing) this.#socket.write(`close ${id} policy -\n`);
    const sync = Promise.withResolvers<void>();
    this.#synced = sync.resolve;
    await this.#wait('sync 1', sync.promise);
    return closing.filter(({ connection }) => connection.by !== 'dial').length;
  }

  close(): void {
    this.#isClosed = true;
    this.#socket.destroy();
  }

  async #wait(line: string, answer: Promise<unknown>): Promise<void> {
    const failed = (why: string) => new AppError('internal', `the egress process ${why}`);
    const ended = Promise.withResolvers<never>();
    const onClose = () => ended.reject(failed('has ended'));
    this.#socket.once('close', onClose);
    try {
      using limit = deadline(TIMEOUT_MS, () => failed('does not answer'));
      if (this.#socket.destroyed) throw failed('has ended');
      this.#socket.write(`${line}\n`);
      await raceSignal(Promise.race([answer, ended.promise]), limit.signal);
    } finally {
      this.#socket.off('close', onClose);
    }
  }

  #receive(text: string): void {
    this.#text += text;
    const lines = this.#text.split('\n');
    this.#text = lines.pop() ?? '';
    if ([this.#text, ...lines].some(({ length }) => length > MAX_LINE_CHARS)) this.#break();
    for (const line of lines) {
      if (this.#socket.destroyed) return;
      try {
        if (this.#lines.take()) this.#obey(line.split(' '));
        else this.#break();
      } catch {
        this.#break();
      }
    }
  }

  #break(): void {
    this.#isBroken = true;
    this.#socket.destroy();
  }

  #obey([verb, ...words]: readonly string[]): void {
    if (verb === 'ask') this.#judge(words).catch(() => this.#break());
    else if (verb === 'end') this.#end(words);
    else if (verb === 'lost') this.#handlers.onLost(toCount(words[0]));
    else if (verb === 'synced') this.#synced?.();
    else if (verb === 'flow') this.#addFlow(words);
    else if (verb === 'flows') {
      this.#answered?.(this.#flows ?? []);
      this.#flows = undefined;
    }
  }

  #addFlow([id = '', ...words]: readonly string[]): void {
    const connection = readConnection(words);
    if (connection !== undefined && /^\d{1,20}$/.test(id) && (this.#flows?.length ?? MAX_FLOWS) < MAX_FLOWS)
      this.#flows?.push({ id, connection });
    else this.#break();
  }

  async #judge([id = '', ...words]: readonly string[]): Promise<void> {
    const connection = readConnection(words);
    if (connection === undefined || !/^\d{1,20}$/.test(id) || !this.#asks.take()) {
      this.#break();
      return;
    }
    const verdict = await this.#handlers.judge(connection);
    if (this.#socket.destroyed) return;
    if (this.#socket.writableLength > MAX_UNREAD_BYTES) this.#break();
    this.#socket.write(
      verdict.isAllowed && verdict.isRead === true
        ? `read ${id} ${verdict.ttlS} ${verdict.tag}\n`
        : verdict.isAllowed
          ? `yes ${id} ${verdict.ttlS} ${verdict.tag} ${verdict.addresses.join(' ')}\n`
          : `no ${id} not-allowed ${verdict.tag}\n`,
    );
  }

  #end(words: readonly string[]): void {
    const [, verdict, reason = '', kind = '', name, address, port, up, down, ms, tag] = words;
    this.#handlers.onEnded({
      isAllowed: verdict === 'allowed',
      reason,
      kind: readKind(kind)?.kind,
      isRead: kind.endsWith('+read'),
      name: name !== undefined && isName(name) ? name : undefined,
      address: address !== undefined && isIPv4(address) ? address : undefined,
      port: toPort(port) ?? 0,
      bytesUp: toCount(up),
      bytesDown: toCount(down),
      ms: toCount(ms),
      tag: tag === '-' ? undefined : tag,
    });
  }
}

function toCount(text: string | undefined): number {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : 0;
}

function toPort(text: string | undefined): number | undefined {
  const port = toCount(text);
  return port > 0 && port <= MAX_PORT ? port : undefined;
}

function readKind(word: string): Pick<NamedConnection, 'kind' | 'hasEch' | 'by'> | undefined {
  const [, first, ech, by] = /^([a-z]+)(\+ech)?(?:\+(read|dial))?$/.exec(word) ?? [];
  const kind = KINDS.find((each) => each === first);
  if (kind === undefined) return undefined;
  return { kind, hasEch: ech !== undefined, ...((by === 'read' || by === 'dial') && { by }) };
}

function readConnection([word = '', name = '', text]: readonly string[]): NamedConnection | undefined {
  const kind = readKind(word);
  const port = toPort(text);
  return kind === undefined || !isName(name) || port === undefined ? undefined : { ...kind, name, port };
}
