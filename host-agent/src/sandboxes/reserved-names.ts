// Names that are unique within a tenant. A name is reserved before the object that gets it is made or renamed, so that
// of concurrent requests only one has it.
import type { Owner } from '../keys/index.ts';
import { AppError } from '../lib/errors.ts';

export type Named = {
  readonly id: string;
  readonly owner: Owner | undefined;
  readonly name: string | undefined;
};

type ReservedNamesOptions<T extends Named> = {
  readonly all: () => Iterable<T>;
  /** For errors: `sandbox`. */
  readonly noun: string;
  /** What happens to an object whose name is reserved: `created or renamed`. */
  readonly change: string;
  /** Ends the error about a name that is taken. */
  readonly advice: (holder: T) => string;
};

const NO_NAME: Disposable = { [Symbol.dispose]: () => undefined };

export class ReservedNames<T extends Named> {
  readonly #options: ReservedNamesOptions<T>;
  /** Resolve when the request has ended. */
  readonly #reserved = new Map<string, Promise<void>>();

  constructor(options: ReservedNamesOptions<T>) {
    this.#options = options;
  }

  /** Until disposed; by then the object has the name, or does not exist. AppError conflict names the holder. */
  reserve(owner: Owner | undefined, name: string | undefined): Disposable {
    if (name === undefined) return NO_NAME;
    const { noun, change, advice } = this.#options;
    const holder = this.find(owner, name);
    if (holder !== undefined)
      throw new AppError('conflict', `the name ${name} is that of ${noun} ${holder.id}; ${advice(holder)}`);
    if (this.pending(owner, name) !== undefined)
      throw new AppError('conflict', `the name ${name} is that of a ${noun} that is being ${change}`);
    const { promise, resolve } = Promise.withResolvers<void>();
    const key = toKey(owner, name);
    this.#reserved.set(key, promise);
    return {
      [Symbol.dispose]: () => {
        this.#reserved.delete(key);
        resolve();
      },
    };
  }

  /** Resolves when the request that has reserved the name has ended; undefined if there is none. */
  pending(owner: Owner | undefined, name: string): Promise<void> | undefined {
    return this.#reserved.get(toKey(owner, name));
  }

  /** The object that has the name. */
  find(owner: Owner | undefined, name: string): T | undefined {
    for (const each of this.#options.all())
      if (each.name === name && each.owner?.tenant === owner?.tenant) return each;
    return undefined;
  }
}

function toKey(owner: Owner | undefined, name: string): string {
  return JSON.stringify([owner?.tenant, name]);
}
