// Who has how much of something that a gateway has a limited amount of. A tenant makes keys itself: all of its keys
// together leave half for others.
import { type Caller, clientOf } from './callers.ts';

export class Shares {
  readonly #max: number;
  readonly #maxOfKey: number;
  readonly #maxOfTenant: number;
  /** By the key, and by the tenant. */
  readonly #keys = new Map<string, number>();
  readonly #tenants = new Map<string, number>();
  #taken = 0;

  constructor(max: number, maxOfKey: number, maxOfTenant = max / 2) {
    this.#max = max;
    this.#maxOfKey = maxOfKey;
    this.#maxOfTenant = maxOfTenant;
  }

  /** False: it is too much, and nothing is taken. Clients without a key have only the limit for all. */
  take(caller: Caller, amount: number): boolean {
    const client = clientOf(caller);
    const { tenant } = caller;
    const isTooMuch =
      this.#taken + amount > this.#max ||
      (client !== undefined && (this.#keys.get(client) ?? 0) + amount > this.#maxOfKey) ||
      (tenant !== undefined && (this.#tenants.get(tenant) ?? 0) + amount > this.#maxOfTenant);
    if (isTooMuch) return false;
    this.#change(caller, amount);
    return true;
  }

  giveBack(caller: Caller, amount: number): void {
    this.#change(caller, -amount);
  }

  #change(caller: Caller, amount: number): void {
    this.#taken += amount;
    change(this.#keys, clientOf(caller), amount);
    change(this.#tenants, caller.tenant, amount);
  }
}

function change(counts: Map<string, number>, name: string | undefined, amount: number): void {
  if (name === undefined) return;
  const left = (counts.get(name) ?? 0) + amount;
  if (left === 0) counts.delete(name);
  else counts.set(name, left);
}
