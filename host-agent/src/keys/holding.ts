// What counts towards the limits of keys and the quotas of tenants: sandboxes that exist or are reserved.
import type { Published } from './policy.ts';
import type { Owner } from './principal.ts';

/** A sandbox that exists or is reserved. */
export type Holding = {
  readonly owner: Owner | undefined;
  readonly vcpus: number;
  readonly memoryMib: number;
  readonly diskBytes: number;
  /** Absent: none. */
  readonly publish?: readonly Published[] | undefined;
  /** Its idle rule saves it, so it will become a snapshot. */
  readonly savesItself?: boolean;
  /** Then it holds only disk and ports. */
  readonly isPaused?: boolean;
};

export type Totals = {
  /** These three are of what is not paused. */
  readonly sandboxes: number;
  readonly vcpus: number;
  readonly memoryMib: number;
  readonly paused: number;
  readonly diskBytes: number;
  readonly ports: number;
};

/** A limit on a number, and what counts towards it now. */
export type LimitUse = {
  readonly limit: string;
  readonly of: 'key' | 'tenant';
  readonly used: number;
  readonly max: number;
};

export function totalsOf(holdings: readonly Omit<Holding, 'owner'>[]): Totals {
  const awake = holdings.filter(isAwake);
  const sum = <T>(all: readonly T[], of: (one: T) => number) =>
    all.reduce((total, one) => total + of(one), 0);
  return {
    sandboxes: awake.length,
    vcpus: sum(awake, ({ vcpus }) => vcpus),
    memoryMib: sum(awake, ({ memoryMib }) => memoryMib),
    paused: holdings.length - awake.length,
    diskBytes: sum(holdings, ({ diskBytes }) => diskBytes),
    ports: countPorts(holdings),
  };
}

/** What is not limited is left out. */
export function pickLimited<Limit extends string>(
  of: LimitUse['of'],
  limits: { readonly [name in NoInfer<Limit>]?: number | undefined },
  used: Readonly<Record<Limit, number>>,
): LimitUse[] {
  return (Object.keys(used) as Limit[]).flatMap((limit) => {
    const max = limits[limit];
    return max === undefined ? [] : [{ limit, of, used: used[limit], max }];
  });
}

export function isAwake({ isPaused }: Omit<Holding, 'owner'>): boolean {
  return isPaused !== true;
}

export function isSame(a: Owner | undefined, b: Owner | undefined): boolean {
  return a?.key === b?.key && a?.tenant === b?.tenant;
}

export function countPorts(all: Iterable<Pick<Holding, 'publish'>>): number {
  let count = 0;
  for (const { publish = [] } of all) count += publish.length;
  return count;
}
