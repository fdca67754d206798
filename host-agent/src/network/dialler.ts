// The process that relays a guest's connections that are bound to names (native/egressd.c), and the verdicts about
// them. Where it has ended, the guest's connections to these ports are refused until the next one runs.
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { Logger } from 'pino';
import { backOffMs } from '../lib/back-off.ts';
import { AppError, toError } from '../lib/errors.ts';
import { readProcessRecord } from '../lib/process-record.ts';
import type { Opening } from './allowed-addresses.ts';
import { type Authority, needsAuthority } from './authority/index.ts';
import type { NamedConnection } from './bound-rules.ts';
import type { ConnectionRecord } from './connection-record.ts';
import { DiallerControl, type DiallerVerdict } from './dialler-control.ts';
import { toLost, toRecord, toTag } from './dialler-records.ts';
import { type GatewayCommand, GatewayProcess, type GatewaySecrets } from './gateway-process.ts';
import { controlOf, endHeld, gateOf, isHeld, startHeld, type Users } from './held-process.ts';
import type { EgressPolicy, Verdict } from './policy.ts';
import { DIALLER_PORT, diallerRules, noDiallerRules } from './rules/dialler.ts';
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
  /** So many records of connections are missing. */
  readonly onMissed: (count: number) => void;
  readonly gateway: {
    readonly command: GatewayCommand;
    /** Certificates (PEM) that vouch for servers, besides those of Mozilla. */
    readonly roots?: string | undefined;
    /** Undefined: the guest trusts none. */
    readonly authority: () => Promise<Authority | undefined>;
    /** Secrets of the sandbox, and whether they may be sent without TLS. */
    readonly secrets?: GatewaySecrets | undefined;
  };
  readonly log: Logger;
};

const GATEWAY = '.gateway';
/** argv[0] of the process. */
const ARGV0 = 'sandboxd-egressd';
/** As much as all connections that it may have, with both their buffers. */
const LIMITS = { memoryMib: 320, threads: 4 };
/** A name is not resolved again within this time. */
const FRESH_MS = 30_000;
const MAX_FRESH = 4096;
/** As in native/egressd.c. */
const MAX_ADDRESSES = 16;
/** A verdict holds in the process for this long, also while no daemon runs. */
const VERDICT_S = 20;
/** An address is open for longer than a verdict that has it, and a connection to it takes to begin. */
const OPEN_S = VERDICT_S + 40;
const MAX_RETRY_MS = 10_000;
const BACK_OFF = { firstMs: 100, mostMs: MAX_RETRY_MS };
/** Of what the daemon and the process say to each other: one of an earlier version is not adopted. */
const ABOUT = { protocol: 3 };

export class Dialler {
  readonly #options: DiallerOptions;
  readonly #gateway: GatewayProcess;
  /** Resolved names. */
  readonly #fresh = new Map<string, { readonly addresses: readonly string[]; readonly untilMs: number }>();
  #control: DiallerControl | undefined;
  #generation: number | undefined;
  #isStopped = false;
  /** Of the process that runs now. */
  #connectedAt = 0;
  /** How many in a row ended soon. */
  #soonEnded = 0;
  /** Starts, changes and ends are made one at a time. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(options: DiallerOptions) {
    const { gateway, record, users, policy, onConnection, log } = options;
    this.#options = options;
    this.#generation = options.generation;
    this.#gateway = new GatewayProcess({
      ...{ command: gateway.command, record: gatewayOf(record), gate: gateOf(record), users, log },
      settings: async () => {
        const { source } = policy();
        const authority = needsAuthority(source) ? await gateway.authority() : undefined;
        const shared = { policy: source, generation: this.#generation, authority, roots: gateway.roots };
        return { ...shared, ...gateway.secrets?.now() };
      },
      prepare: async () => await gateway.secrets?.refresh(),
      ...{ onRecord: onConnection, onMissed: options.onMissed },
    });
  }

  /** The gateway gets the secrets that there are now. */
  async changeSecrets(): Promise<void> {
    await this.#gateway.change();
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
        const closed = (await this.#control?.settle(this.#whatMayStay())) ?? 0;
        return closed + (await this.#gateway.change());
      } catch (err) {
        // The next daemon carries the change out.
        if (this.#isStopped) throw err;
        this.#options.log.warn({ err }, 'the egress process of a sandbox is replaced');
        await this.#end();
        await this.#ensure();
        return 0;
      }
    });
  }

  /** Ends the process, and its connections with it; the next change starts one. */
  shut(): Promise<void> {
    return this.#inTurn(() => this.#end());
  }

  /** Idempotent. */
  async stop(): Promise<void> {
    this.detach();
    await this.#inTurn(() => this.#end());
  }

  /** The process stays; what it has read ends. */
  detach(): void {
    this.#isStopped = true;
    this.#control?.close();
    this.#gateway.detach();
  }

  async #ensure(): Promise<void> {
    const { record, users, program, slot, nft } = this.#options;
    if (this.#isStopped || this.#control !== undefined) return;
    const earlier = isHeld(record) ? readProcessRecord(record) : undefined;
    if (earlier?.uid !== undefined && isDeepStrictEqual(earlier.about, ABOUT)) {
      // Its daemon may have been killed before the rules named its user.
      await nft(diallerRules(earlier.uid));
      // What it reads ends with the daemon.
      await this.#gateway.end();
      await this.#connect().catch(() => undefined);
      if (this.#control !== undefined) return;
    }
    await this.#end();
    const gate = gateOf(record);
    const uid = await startHeld({
      program,
      argv0: ARGV0,
      record,
      users,
      limits: LIMITS,
      about: ABOUT,
      toArguments: (uid) => [
        ...[String(uid), slot.namespace, slot.gateway, String(DIALLER_PORT), controlOf(record), gate],
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
      onEnded: (connection) => {
        // The gateway reports its requests.
        if (!connection.isRead || !connection.isAllowed) onConnection(toRecord(connection));
      },
      onLost: (count) => onConnection(toLost(count)),
      onClosed: (isBroken) => {
        if (this.#control !== control) return;
        this.#control = undefined;
        if (this.#isStopped) return;
        log.warn({ record, isBroken }, 'the egress process of a sandbox has ended; the next one is started');
        void this.#startAgain(isBroken);
      },
    });
    this.#control = control;
    this.#connectedAt = performance.now();
  }

  /** Soon, or ever later where one after the other ends: a guest that breaks it decides when that is. */
  async #startAgain(isBroken: boolean): Promise<void> {
    const hasLasted = performance.now() - this.#connectedAt >= MAX_RETRY_MS;
    this.#soonEnded = hasLasted ? 0 : this.#soonEnded + 1;
    let failures = this.#soonEnded - 1;
    try {
      // Nothing that it does meanwhile is of the policy's.
      await this.#inTurn(async () => {
        if (this.#control === undefined && (isBroken || !isHeld(this.#options.record))) await this.#end();
      });
    } catch (err) {
      this.#options.log.warn({ err }, 'cannot end the egress process of a sandbox');
    }
    for (;;) {
      const waitMs = backOffMs(failures, BACK_OFF);
      if (waitMs > 0) await sleep(waitMs, undefined, { ref: false });
      if (this.#isStopped || this.#options.policy().boundPorts === '') return;
      try {
        await this.#inTurn(() => this.#ensure());
        return;
      } catch (err) {
        this.#options.log.warn({ err }, 'cannot start the egress process of a sandbox');
      }
      failures = Math.max(failures, 0) + 1;
    }
  }

  async #end(): Promise<void> {
    const { record, users, nft } = this.#options;
    this.#control?.close();
    this.#control = undefined;
    await this.#gateway.end();
    // The user id is free afterwards. A network that is lost has no rules.
    if (!this.#isStopped && readProcessRecord(record) !== undefined)
      await nft(noDiallerRules()).catch(() => undefined);
    await endHeld(record, users);
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
        if (verdict.isRead === true && connection.by === undefined) {
          await this.#gateway.ensure();
          if (policy() !== judged) continue;
          return { isAllowed: true, isRead: true, ttlS: VERDICT_S, tag: this.#toTag(verdict) };
        }
        // Of a connection that a newer policy does not read.
        if (verdict.isRead !== true && connection.by === 'dial')
          return { isAllowed: false, tag: this.#toTag({ isAllowed: false, reason: 'the policy changed' }) };
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
      const isGateways = policy().judge(connection).isRead === true && connection.by === undefined;
      this.#options.log[isGateways ? 'warn' : 'debug'](
        { err: toError(error) },
        'cannot judge a connection of a sandbox',
      );
      const reason = isGateways
        ? 'the process that reads requests could not be started'
        : 'its name could not be resolved';
      return { isAllowed: false, tag: this.#toTag({ isAllowed: false, reason }) };
    }
  }

  async #addressesOf(name: string): Promise<readonly string[]> {
    const fresh = this.#fresh.get(name);
    if (fresh !== undefined && fresh.untilMs > performance.now()) return fresh.addresses;
    return (await this.#options.resolve(name)).slice(0, MAX_ADDRESSES);
  }

  /** One that was bound to its name may also stay where the port is open without. */
  #whatMayStay(): (connection: NamedConnection) => boolean {
    const policy = this.#options.policy();
    const known = new Map<string, boolean>();
    return (connection) => {
      const { kind, name, port, hasEch, by } = connection;
      const key = `${kind} ${name} ${port} ${hasEch} ${by}`;
      const verdict = policy.judge(connection);
      const isOpen = by === undefined && policy.isOpenUnbound(name, { protocol: 'tcp', port });
      const isAsJudged = verdict.isAllowed && (verdict.isRead === true) === (by !== undefined);
      const mayStay = known.get(key) ?? (isAsJudged || isOpen);
      known.set(key, mayStay);
      return mayStay;
    };
  }

  #toTag(verdict: Verdict): string {
    return toTag(this.#generation, verdict);
  }
}

/** The record of its gateway. */
export function gatewayOf(record: string): string {
  return `${record}${GATEWAY}`;
}

/** From the name of either record. */
export function diallerOf(name: string): string {
  return name.endsWith(GATEWAY) ? name.slice(0, -GATEWAY.length) : name;
}
