// The diallers of all sandboxes of a daemon.
import { readdir, rmdir } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { Logger } from 'pino';
import type { DenialLog } from './denial-log.ts';
import { Dialler, type DiallerOptions, diallerOf, gatewayOf } from './dialler.ts';
import type { Egress } from './egress.ts';
import { endHeld, isControl, type Users } from './held-process.ts';
import { type NetworkSlot, runDirOf } from './subnet.ts';

export type DiallersOptions = {
  /** Path of the program (native/egressd.c). */
  readonly program: string;
  readonly runDir: string;
  readonly users: Users;
  readonly gateway: Omit<DiallerOptions['gateway'], 'authority' | 'secrets'>;
  readonly log: Logger;
};

type Parts = Pick<DiallerOptions, 'nft' | 'resolve'> & {
  readonly denials: Pick<DenialLog, 'connection'>;
  readonly onConnection: DiallerOptions['onConnection'];
  readonly onMissed: DiallerOptions['onMissed'];
  readonly egress: Pick<Egress, 'policy' | 'open'>;
  readonly authority: DiallerOptions['gateway']['authority'];
  readonly secrets: DiallerOptions['gateway']['secrets'];
};

const DIRECTORY = 'egress';

export class Diallers {
  readonly #options: DiallersOptions;
  /** Of their process records, private to the daemon; created and removed as needed. */
  readonly #dir: string;
  /** By the slot's namespace. */
  readonly #all = new Map<string, Dialler>();

  constructor(options: DiallersOptions) {
    this.#options = options;
    this.#dir = join(options.runDir, DIRECTORY);
  }

  /** Starts nothing. */
  open(slot: NetworkSlot, generation: number | undefined, parts: Parts): Dialler {
    const { egress, denials, onConnection, authority, secrets, ...options } = parts;
    const { program, users, gateway, log } = this.#options;
    const dialler = new Dialler({
      ...{ ...options, slot, program, users, log, generation },
      record: this.#recordOf(slot),
      gateway: { ...gateway, authority, secrets },
      policy: () => egress.policy,
      onConnection: (record) => {
        denials.connection(record);
        onConnection(record);
      },
      open: (openings, name) => egress.open(openings, name),
    });
    this.#all.set(slot.namespace, dialler);
    return dialler;
  }

  /** Also that of an earlier daemon. Idempotent. */
  async stop(slot: NetworkSlot): Promise<void> {
    await this.#all.get(slot.namespace)?.stop();
    this.#all.delete(slot.namespace);
    await this.#end(this.#recordOf(slot));
  }

  /** The processes stay. */
  detach(): void {
    for (const dialler of this.#all.values()) dialler.detach();
  }

  /** Garbage collection: ends those of links that no sandbox has. */
  async tidy(retained: ReadonlySet<string>): Promise<void> {
    const names = await readdir(this.#dir).catch(() => []);
    const records = new Set(names.filter((name) => !isControl(name)).map(diallerOf));
    const unused = [...records].filter((name) => !retained.has(name));
    const ended = await Promise.allSettled(unused.map((name) => this.#end(join(this.#dir, name))));
    for (const each of ended) if (each.status === 'rejected') throw each.reason;
  }

  /** When no sandbox has a network: not before, or one that is being started could lose it. */
  async removeDirectory(): Promise<void> {
    await rmdir(this.#dir).catch(() => undefined);
  }

  async #end(record: string): Promise<void> {
    await endHeld(gatewayOf(record), this.#options.users);
    await endHeld(record, this.#options.users);
  }

  #recordOf(slot: NetworkSlot): string {
    return join(runDirOf(slot), DIRECTORY, basename(slot.namespace));
  }
}
