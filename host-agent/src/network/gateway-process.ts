// The process that reads requests for one guest (src/gateway), as the daemon has it: it starts when a connection needs
// it, in a jail without a network, and ends when none has for a while, with the daemon, or with the process that dials.
import { createHash } from 'node:crypto';
import type { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { backOffMs } from '../lib/back-off.ts';
import { AppError } from '../lib/errors.ts';
import { TokenBucket } from '../lib/token-bucket.ts';
import { deadline, raceSignal } from '../lib/wait.ts';
import type { ConnectionRecord } from './connection-record.ts';
import { readGatewayLine } from './gateway-lines.ts';
import { costOfLine, GATEWAY_LINES, type GatewaySettings, MAX_GATEWAY_LINE } from './gateway-wire.ts';
import { endHeld, startHeld, type Users } from './held-process.ts';

/** How its program is started. */
export type GatewayCommand = {
  /** Path of the jail (native/jail.c). */
  readonly jail: string;
  /** Mount point of its root directory: any directory of which others may know. */
  readonly root: string;
  readonly program: string;
  readonly args: readonly string[];
  /** What it finds in its root directory. */
  readonly files: readonly string[];
};

/** Of the sandbox. */
export type GatewaySecrets = {
  /** As they are known, and whether they may be sent without TLS. */
  readonly now: () => Pick<GatewaySettings, 'secrets' | 'allowsPlainHttp'>;
  /** Resolves when those are known that take a while. */
  readonly refresh: () => Promise<void>;
};

export type GatewayProcessOptions = {
  readonly command: GatewayCommand;
  /** Path of the process record. */
  readonly record: string;
  /** Path of the socket where it gets connections (native/egressd-gate.h). */
  readonly gate: string;
  readonly users: Users;
  /** What holds now. */
  readonly settings: () => Promise<GatewaySettings>;
  /** Reads what the settings need and may take a while: a change does not wait for that. */
  readonly prepare: () => Promise<void>;
  readonly onRecord: (record: ConnectionRecord) => void;
  /** So many records were too many. */
  readonly onMissed: (count: number) => void;
  readonly log: Logger;
};

type Waiting = { readonly number: number; readonly resolve: (closed: number) => void };

const ARGV0 = 'sandboxd-gateway';
const SETTLE_TIMEOUT_MS = 10_000;
/** It ends after so long without a connection. */
const IDLE_MS = 60_000;
/** After so many that ended soon, the next one waits, ever longer up to this. */
const FREE_STARTS = 3;
const MAX_DELAY_MS = 10_000;
const BACK_OFF = { firstMs: 100, mostMs: MAX_DELAY_MS };
/** Connections wait for so long for a gateway, in the process that dials. */
const WAITING_MS = 10_000;
/** A second failure within this time ends it. */
const FAILURE_MS = 60_000;
const FILES = 4096;
const THREADS = 32;
/** Of which its own objects and buffers may be 192 MiB (src/gateway). */
const LIMITS = { memoryMib: 320, threads: THREADS };

export class GatewayProcess {
  readonly #options: GatewayProcessOptions;
  #channel: Duplex | undefined;
  #isDetached = false;
  #usedAt = 0;
  #startedAt = 0;
  /** Its end. */
  #isCounted = false;
  /** How many in a row ended soon, and until when none is started for that. */
  #soonEnded = 0;
  #notBefore = 0;
  #number = 0;
  #waiting: Waiting | undefined;
  /** Digest of what it knows, which may have values of secrets. */
  #known: string | undefined;
  /** Starts, changes and ends are made one at a time. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(options: GatewayProcessOptions) {
    this.#options = options;
  }

  /** Resolves when it runs, and knows what holds. AppError exhausted, internal. */
  async ensure(): Promise<void> {
    this.#usedAt = performance.now();
    if (!this.#isRunning) await this.#options.prepare();
    await this.#inTurn(async () => {
      if (!this.#isRunning) await this.#start();
    });
  }

  get #isRunning(): boolean {
    return this.#channel !== undefined && !this.#channel.destroyed;
  }

  /** Resolves with the number of requests that were closed. One that does not answer is ended, with all that it has. */
  change(): Promise<number> {
    return this.#inTurn(async () => {
      if (this.#channel === undefined) return 0;
      try {
        return await this.#settle();
      } catch (err) {
        this.#options.log.warn({ err }, 'the gateway of a sandbox is ended: it does not take a change');
        await this.#end();
        return 0;
      }
    });
  }

  /** Also one of an earlier daemon. */
  end(): Promise<void> {
    // What waits for one is over as well.
    this.#usedAt = Number.NEGATIVE_INFINITY;
    return this.#inTurn(() => this.#end());
  }

  /** It ends by itself when its channel does. */
  detach(): void {
    this.#isDetached = true;
    const channel = this.#channel;
    this.#channel = undefined;
    channel?.destroy();
  }

  async #start(): Promise<void> {
    const { command, record, gate, users } = this.#options;
    await this.#end();
    if (performance.now() < this.#notBefore)
      throw new AppError('exhausted', 'the gateway ended too often, and is not started for some seconds');
    this.#startedAt = performance.now();
    this.#isCounted = false;
    let channel: Duplex | undefined;
    try {
      await startHeld({
        ...{ program: command.jail, argv0: ARGV0, record, users, limits: LIMITS },
        onChannel: (opened) => {
          channel = opened;
        },
        toArguments: (uid) => toJailArguments(command, uid, gate),
        toError: (text) => new AppError('internal', `cannot start the gateway: ${text || 'it ended'}`),
      });
      if (channel === undefined) throw new AppError('internal', 'the gateway has no channel');
      this.#listen(channel);
      await this.#settle();
    } catch (error) {
      this.#delayNext();
      await this.#end();
      throw error;
    }
  }

  #listen(channel: Duplex): void {
    // It keeps within half of that: what is over is not its own doing any more, and ends it.
    const lines = new TokenBucket(2 * GATEWAY_LINES.perS, 2 * GATEWAY_LINES.atOnce);
    let text = '';
    let failedAt = Number.NEGATIVE_INFINITY;
    const obey = (line: string): void => {
      const message = lines.take(costOfLine(line)) ? readGatewayLine(line) : undefined;
      if (message === undefined) channel.destroy();
      else if ('record' in message) this.#options.onRecord(message.record);
      else if ('missed' in message) this.#options.onMissed(message.missed);
      else if ('failed' in message) {
        if (performance.now() - failedAt < FAILURE_MS) channel.destroy();
        else this.#options.log.error({ failed: message.failed }, 'the gateway of a sandbox failed');
        failedAt = performance.now();
      } else if ('idle' in message) void this.#endIfUnused();
      else if (message.settled === this.#waiting?.number) this.#waiting.resolve(message.closed);
    };
    this.#channel = channel;
    channel.setEncoding('utf8');
    channel.on('data', (data: string) => {
      text += data;
      const whole = text.split('\n');
      text = whole.pop() ?? '';
      if (text.length > MAX_GATEWAY_LINE) channel.destroy();
      for (const line of whole) if (!channel.destroyed) obey(line);
    });
    channel.on('error', () => channel.destroy());
    channel.on('close', () => {
      if (this.#channel !== channel) return;
      this.#delayNext();
      this.#options.log.warn('the gateway of a sandbox has ended');
      void this.#replace(channel);
    });
    unref(channel);
  }

  /** Connections that were judged and not handed over yet wait for the next one. */
  async #replace(channel: Duplex): Promise<void> {
    const isAwaited = () => performance.now() - this.#usedAt < WAITING_MS && !this.#isDetached;
    try {
      await this.#inTurn(async () => {
        if (this.#channel === channel) await this.#end();
      });
      if (!isAwaited()) return;
      await this.#options.prepare();
      await sleep(Math.max(0, this.#notBefore - performance.now()), undefined, { ref: false });
      await this.#inTurn(async () => {
        if (this.#channel === undefined && isAwaited()) await this.#start();
      });
    } catch (err) {
      this.#options.log.warn({ err }, 'cannot replace the gateway of a sandbox');
    }
  }

  /** A guest that breaks it decides when that is. */
  #delayNext(): void {
    // Its channel may say it as well.
    if (this.#isCounted) return;
    this.#isCounted = true;
    const now = performance.now();
    this.#soonEnded = now - this.#startedAt > MAX_DELAY_MS ? 0 : this.#soonEnded + 1;
    this.#notBefore = now + backOffMs(this.#soonEnded - FREE_STARTS + 1, BACK_OFF);
  }

  async #settle(): Promise<number> {
    const channel = this.#channel;
    const settings = await this.#options.settings();
    const known = createHash('sha256').update(JSON.stringify(settings)).digest('base64');
    if (known === this.#known) return 0;
    if (channel === undefined || channel.destroyed) throw new AppError('internal', 'the gateway has ended');
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    const failed = (why: string) => new AppError('internal', `the gateway ${why}`);
    const onClose = () => reject(failed('has ended'));
    this.#waiting = { number: ++this.#number, resolve };
    channel.once('close', onClose);
    try {
      using limit = deadline(SETTLE_TIMEOUT_MS, () => failed('does not answer'));
      const line = Buffer.from(`${JSON.stringify({ settle: this.#number, settings })}\n`);
      channel.write(line, () => line.fill(0));
      const closed = await raceSignal(promise, limit.signal);
      this.#known = known;
      return closed;
    } finally {
      channel.off('close', onClose);
      this.#waiting = undefined;
    }
  }

  async #endIfUnused(): Promise<void> {
    await this.#inTurn(async () => {
      if (performance.now() - this.#usedAt >= IDLE_MS) await this.#end();
    }).catch((err) => this.#options.log.warn({ err }, 'cannot end the gateway of a sandbox'));
  }

  async #end(): Promise<void> {
    const channel = this.#channel;
    this.#channel = this.#known = undefined;
    channel?.destroy();
    await endHeld(this.#options.record, this.#options.users);
  }

  #inTurn<T>(change: () => Promise<T>): Promise<T> {
    const done = this.#last.then(change, change);
    this.#last = done.catch(() => undefined);
    return done;
  }
}

/** It has a network of its own, which is empty, and one socket. */
function toJailArguments(
  { root, program, args, files }: GatewayCommand,
  uid: number,
  gate: string,
): readonly string[] {
  const options = { root, uid, fds: 4, files: FILES, 'file-bytes': 0, threads: THREADS };
  return [
    ...Object.entries(options).flatMap(([name, value]) => [name, String(value)]),
    ...files.flatMap((path) => ['rx', path]),
    ...['rw', gate, 'dev', '/dev/null', 'dev', '/dev/urandom'],
    ...['--', ARGV0, program, ...args, gate],
  ];
}

/** A daemon that stops does not wait for it. */
function unref(channel: Duplex): void {
  if ('unref' in channel && typeof channel.unref === 'function') channel.unref();
}
