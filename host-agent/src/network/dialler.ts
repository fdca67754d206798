// The process that relays a guest's connections that are bound to names (native/egressd.c), and the verdicts about
// them. Where it has ended, the guest's connections to these ports are refused until the next one runs.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { AppError, toError } from '../lib/errors.ts';
import { readProcessRecord } from '../lib/process-record.ts';
import type { Opening } from './allowed-addresses.ts';
import type { ConnectionRecord } from './connection-record.ts';
import { type DialledConnection, DiallerControl, type DiallerVerdict } from './dialler-control.ts';
import { controlOf, endHeld, isHeld, startHeld, type Users } from './held-process.ts';
import type { EgressPolicy, NamedConnection, Verdict } from './policy.ts';
import { DIALLER_PORT, diallerRules } from './rules/guest.ts';
import type { NetworkSlot } from './subnet.ts';

export type DiallerOptions = {
  readonly slot: Pick<NetworkSlot, 'namespace' | 'gateway'>;
  readonly program: string;
  /** Path of the process record. */
  readonly record: string;
  readonly users: Users;
  /** Runs nftables commands in the guest's namespace. */
  readonly nft: (commands: string) => Promise<unknown>;
  /** What holds now. */
  readonly policy: () => EgressPolicy;
  /** Of the policy; undefined: not known. */
  readonly generation: number | undefined;
  /** The addresses of an allowed name; empty: it has none that the guest may reach. Rejects if none are known. */
  readonly resolve: (name: string) => Promise<readonly string[]>;
  /** Lets the process connect to these addresses of the name; resolves when it can. */
  readonly open: (openings: readonly Opening[], name: string) => Promise<void>;
  readonly onConnection: (record: ConnectionRecord) => void;
  readonly log: Logger;
};

/** argv[0] of the process. */
const ARGV0 = 'sandboxd-egressd';
/** A name is not resolved again within this time. */
const FRESH_MS = 30_000;
const MAX_FRESH = 4096;
/** As in native/egressd.c. */
const MAX_ADDRESSES = 16;
/** A verdict holds in the process for this long, also while no daemon runs. */
const VERDICT_S = 20;
/** An address is open for longer than a verdict that has it, and a connection to it takes to begin. */
const OPEN_S = VERDICT_S + 40;
const RETRY_MS = 100;
const MAX_RETRY_MS = 10_000;
/** As in native/egressd.c. */
const MAX_TAG_CHARS = 600;

/** By the words of native/egressd.c. */
const REASONS: Readonly<Record<string, string>> = {
  silent: 'it said no name; a tcp rule opens a port for other protocols',
  slow: 'it took too long to say a name',
  hello: 'its TLS handshake says no valid name (SNI), or more than one',
  request: 'its HTTP request is not valid, or ambiguous',
  authority: 'its Host is not that of the connection',
  protocol: 'it is neither TLS nor HTTP; a tcp rule opens a port for other protocols',
  unreachable: 'no address of the name answered',
  'server-without-tls': 'the database has no TLS',
  'no-answer': 'no daemon answered',
  policy: 'the policy changed',
  ended: 'it ended',
  reset: 'an end reset it',
  idle: 'it was idle for too long',
};

type Tag = readonly [generation: number | null, rule: string | null, reason: string];

export class Dialler {
  readonly #options: DiallerOptions;
  /** Resolved names. */
  readonly #fresh = new Map<string, { readonly addresses: readonly string[]; readonly untilMs: number }>();
  #control: DiallerControl | undefined;
  #generation: number | undefined;
  #isStopped = false;
  /** Starts, changes and ends are made one at a time. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(options: DiallerOptions) {
    this.#options = options;
    this.#generation = options.generation;
  }

  /** Starts the process if the policy needs it, or adopts an earlier daemon's. AppError exhausted, internal. */
  async begin(): Promise<void> {
    if (this.#options.policy().boundPorts !== '') await this.#inTurn(() => this.#ensure());
  }

  /** Names that the guest has just resolved are not resolved again. */
  learn(openings: readonly Opening[], name: string): void {
    this.#fresh.delete(name);
    this.#fresh.set(name, {
      addresses: openings.slice(0, MAX_ADDRESSES).map(({ address }) => address),
      untilMs: performance.now() + FRESH_MS,
    });
    const [first] = this.#fresh.keys();
    if (this.#fresh.size > MAX_FRESH && first !== undefined) this.#fresh.delete(first);
  }

  /**
   * The policy has changed: resolves with the number of connections that were closed. A process that does not answer is
   * ended, and its connections with it.
   */
  change(generation: number | undefined): Promise<number> {
    this.#generation = generation;
    return this.#inTurn(async () => {
      const isNeeded = this.#options.policy().boundPorts !== '';
      if (!isNeeded && this.#control === undefined && !isHeld(this.#options.record)) return 0;
      try {
        await this.#ensure();
        return (await this.#control?.settle((connection) => this.#mayStay(connection))) ?? 0;
      } catch (err) {
        this.#options.log.warn({ err }, 'the egress process of a sandbox is replaced');
        await this.#end();
        await this.#ensure();
        return 0;
      }
    });
  }

  /** Idempotent. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#inTurn(() => this.#end());
  }

  /** The process stays. */
  detach(): void {
    this.#isStopped = true;
    this.#control?.close();
  }

  async #ensure(): Promise<void> {
    const { record, users, program, slot, nft } = this.#options;
    if (this.#isStopped || this.#control !== undefined) return;
    const earlier = isHeld(record) ? readProcessRecord(record)?.uid : undefined;
    if (earlier !== undefined) {
      // Its daemon may have been killed before the rules named its user.
      await nft(diallerRules(earlier));
      await this.#connect().catch(() => undefined);
      if (this.#control !== undefined) return;
    }
    await endHeld(record, users);
    const uid = await startHeld({
      program,
      argv0: ARGV0,
      record,
      users,
      toArguments: (uid) => [
        ...[String(uid), slot.namespace, slot.gateway, String(DIALLER_PORT), controlOf(record)],
      ],
      toError: (text) => new AppError('internal', `cannot start the egress process: ${text || 'it ended'}`),
    });
    await nft(diallerRules(uid));
    await this.#connect();
  }

  async #connect(): Promise<void> {
    const { record, onConnection, log } = this.#options;
    const control = await DiallerControl.open(controlOf(record), {
      judge: (connection) => this.#judge(connection),
      onEnded: (connection) => onConnection(toRecord(connection)),
      onLost: (count) => onConnection(toLost(count)),
      onClosed: () => {
        if (this.#control !== control) return;
        this.#control = undefined;
        if (this.#isStopped) return;
        log.warn({ record }, 'the egress process of a sandbox has ended; the next one is started');
        void this.#startAgain();
      },
    });
    this.#control = control;
  }

  async #startAgain(): Promise<void> {
    for (let waitMs = RETRY_MS; !this.#isStopped; waitMs = Math.min(2 * waitMs, MAX_RETRY_MS)) {
      try {
        await this.#inTurn(() => this.#ensure());
        return;
      } catch (err) {
        this.#options.log.warn({ err }, 'cannot start the egress process of a sandbox');
      }
      await sleep(waitMs, undefined, { ref: false });
    }
  }

  async #end(): Promise<void> {
    this.#control?.close();
    this.#control = undefined;
    await endHeld(this.#options.record, this.#options.users);
  }

  #inTurn<T>(change: () => Promise<T>): Promise<T> {
    const done = this.#last.then(change, change);
    this.#last = done.catch(() => undefined);
    return done;
  }

  async #judge(connection: NamedConnection): Promise<DiallerVerdict> {
    const { policy, open } = this.#options;
    try {
      for (;;) {
        const judged = policy();
        const verdict = judged.judge(connection);
        if (!verdict.isAllowed) return { isAllowed: false, tag: this.#toTag(verdict) };
        const addresses = await this.#addressesOf(connection.name);
        if (addresses.length === 0) {
          const reason = 'its name has no address that the guest may reach';
          return { isAllowed: false, tag: this.#toTag({ ...verdict, reason }) };
        }
        await open(
          addresses.map((address) => ({ address, ttlS: OPEN_S })),
          connection.name,
        );
        // The newer policy wins.
        if (policy() !== judged) continue;
        return { isAllowed: true, ttlS: VERDICT_S, tag: this.#toTag(verdict), addresses: [...addresses] };
      }
    } catch (error) {
      this.#options.log.debug({ err: toError(error) }, 'cannot judge a connection of a sandbox');
      const reason = 'its name could not be resolved';
      return { isAllowed: false, tag: this.#toTag({ isAllowed: false, reason }) };
    }
  }

  async #addressesOf(name: string): Promise<readonly string[]> {
    const fresh = this.#fresh.get(name);
    if (fresh !== undefined && fresh.untilMs > performance.now()) return fresh.addresses;
    return (await this.#options.resolve(name)).slice(0, MAX_ADDRESSES);
  }

  /** One that was bound to its name may also stay where the port is open without. */
  #mayStay(connection: NamedConnection): boolean {
    const policy = this.#options.policy();
    const { name, port } = connection;
    return policy.judge(connection).isAllowed || policy.check(name, { protocol: 'tcp', port }).isAllowed;
  }

  #toTag({ by, reason }: Verdict): string {
    const tag: Tag = [this.#generation ?? null, by === undefined ? null : nameRule(by), reason];
    return Buffer.from(JSON.stringify(tag)).toString('base64url').slice(0, MAX_TAG_CHARS);
  }
}

function nameRule(by: NonNullable<Verdict['by']>): string {
  if ('allowlist' in by) return by.allowlist;
  if ('preset' in by) return `preset ${by.preset}`;
  const target = 'host' in by.rule ? by.rule.host : by.rule.cidr;
  return `${target}:${by.rule.ports.join(',').slice(0, 64)}/${by.rule.protocol}`;
}

/** One that was cut is of no use. */
function readTag(text: string | undefined): Tag | undefined {
  if (text === undefined) return undefined;
  try {
    return JSON.parse(Buffer.from(text, 'base64url').toString()) as Tag;
  } catch {
    return undefined;
  }
}

function toRecord(connection: DialledConnection): ConnectionRecord {
  const { isAllowed, reason, kind, name, address, port, bytesUp, bytesDown, ms, tag } = connection;
  const [generation, rule, text] = readTag(tag) ?? [null, null, ''];
  return {
    verdict: isAllowed ? 'allowed' : 'denied',
    reason: reason === 'not-allowed' && text !== '' ? text : (REASONS[reason] ?? 'it was refused'),
    protocol: kind ?? 'tcp',
    ...(generation !== null && { generation }),
    ...(rule !== null && { rule }),
    ...(name !== undefined && { name }),
    ...(address !== undefined && { address }),
    port,
    bytesUp,
    bytesDown,
    ms,
  };
}

function toLost(count: number): ConnectionRecord {
  return {
    verdict: 'denied',
    reason: `${count} connections were over the limits of new ones or of all`,
    protocol: 'tcp',
  };
}
