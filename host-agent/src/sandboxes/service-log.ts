// Copies the output of a service to the sandbox's log, from the position that the log stores: after a lost connection,
// a restart of the daemon, or in a fork, nothing is missing or duplicated.
import type { ServiceRecord } from '@sandboxd/proto';
import type { Logger } from 'pino';
import type { Guest } from '../guest/guest.ts';
import type { OutputSubscription } from '../guest/service.ts';
import { joinText, NOTHING } from '../lib/utf8-joiner.ts';
import type { CapturePosition, SandboxLog } from '../logs/index.ts';

const RETRY_MS = 1000;

export type ServiceLogDeps = {
  readonly guest: Pick<Guest, 'service' | 'isConnected' | 'watchConnections'>;
  readonly log: SandboxLog;
  readonly logger: Logger;
  readonly onOutput?: () => void;
};

export class ServiceLog {
  readonly #deps: ServiceLogDeps;
  readonly #unwatch: () => void;
  #position: CapturePosition;
  #subscription: OutputSubscription | undefined;
  #retry: NodeJS.Timeout | undefined;
  #isStopped = false;

  /** Starts at once if connected, else with the next connection. */
  constructor(deps: ServiceLogDeps) {
    this.#deps = deps;
    this.#position = deps.log.position ?? {
      ring: '',
      nextSeq: 0,
      held: { stdout: NOTHING, stderr: NOTHING },
    };
    this.#unwatch = deps.guest.watchConnections(() => this.#subscribe());
    if (deps.guest.isConnected) this.#subscribe();
  }

  stop(): void {
    this.#isStopped = true;
    this.#unwatch();
    clearTimeout(this.#retry);
    this.#subscription?.cancel();
  }

  #subscribe(): void {
    const { guest, log } = this.#deps;
    if (this.#isStopped || this.#subscription !== undefined || log.hasFailed) return;
    clearTimeout(this.#retry);
    const { ring, nextSeq } = this.#position;
    try {
      const subscription = guest.service.output(
        { ring, fromSeq: nextSeq, isFollowing: true, isWaiting: true },
        {
          records: (records, bytes) => this.#receive(subscription, records, bytes),
          end: () => this.#subscriptionLost(new Error('the guest agent ended the output')),
          failed: (error) => this.#subscriptionLost(error),
        },
      );
      this.#subscription = subscription;
    } catch (error) {
      this.#subscriptionLost(error);
    }
  }

  /** A new connection subscribes again; without one, the retry timer does. */
  #subscriptionLost(err: unknown): void {
    this.#subscription = undefined;
    if (this.#isStopped) return;
    this.#deps.logger.debug({ err }, 'the subscription to the service output ended');
    clearTimeout(this.#retry);
    this.#retry = setTimeout(() => {
      if (this.#deps.guest.isConnected) this.#subscribe();
    }, RETRY_MS).unref();
  }

  #receive(subscription: OutputSubscription, records: readonly ServiceRecord[], bytes: number): void {
    const { log, onOutput } = this.#deps;
    if (records.some(({ kind }) => kind !== 'ring')) onOutput?.();
    for (const record of records) this.#record(record);
    if (log.hasFailed) this.stop();
    // Flow control: the bytes are acknowledged when the log has space. Meanwhile output waits in the guest's ring.
    else log.whenWritable(() => subscription.consumed(bytes));
  }

  #record(record: ServiceRecord): void {
    const { log } = this.#deps;
    const { ring, nextSeq, held } = this.#position;
    if (record.kind === 'ring') {
      if (record.id === ring) return;
      this.#flushHeld();
      this.#position = { ring: record.id, nextSeq: record.seq, held: { stdout: NOTHING, stderr: NOTHING } };
    } else if (record.kind === 'gap') {
      this.#flushHeld();
      this.#position = { ring, nextSeq: record.seq, held: { stdout: NOTHING, stderr: NOTHING } };
      const gap = `about ${record.bytes} bytes of output (${record.records} records) were not logged`;
      const reason = 'the service wrote faster than they could be taken';
      log.event('service', `${gap}: ${reason}`, this.#position);
    } else if (record.seq >= nextSeq) {
      const joined = joinText(held[record.stream], record.data);
      this.#position = {
        ring,
        nextSeq: record.seq + 1,
        held: { ...held, [record.stream]: joined.held },
      };
      if (joined.whole.length === 0) return;
      const { stream, unixMs } = record;
      log.append({ source: 'service', stream, timeMs: unixMs, data: joined.whole }, this.#position);
    }
  }

  /** Logs incomplete characters, whose remaining bytes will never arrive. */
  #flushHeld(): void {
    for (const stream of ['stdout', 'stderr'] as const) {
      const data = this.#position.held[stream];
      if (data.length > 0) {
        this.#deps.log.append({ source: 'service', stream, timeMs: Date.now(), data }, this.#position);
      }
    }
  }
}
