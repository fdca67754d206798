// Sandboxes that move between two hosts over a bucket, and where they are after both hosts lost their power.
import { execFile } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { ApiError } from '../support/api.ts';
import type { Daemon } from '../support/daemon.ts';
import { findViolations } from '../support/invariants.ts';
import { DAEMON_PROGRAM } from '../support/leftovers.ts';
import { scaled } from '../support/time-scale.ts';
import type { JournaledObjects } from './bucket.ts';
import { pausedWith, RUNNING } from './load.ts';
import { GONE, type Promises } from './promises.ts';

const run = promisify(execFile);
const MOVES_OF_ONE = 3;
const FIRST = ['return', 'arrive', 'delete'] as const;
const LIMIT_MS = scaled(120_000);
/** Statuses of a host that has not got it, or not yet: it is elsewhere, it moves, another was faster. */
const ELSEWHERE = [404, 409, 503];

export type Pair = readonly [Daemon, Daemon];
type Environment = Readonly<Record<string, string>>;

export class MovesLoad {
  readonly done: Record<string, number> = {};
  readonly refused: string[] = [];
  /** Of each name. */
  readonly ids = new Map<string, string>();
  readonly #promises: Promises;
  readonly #storeEnvironment: Environment;
  readonly #random: () => number;
  #hosts: Pair;
  #count = 0;
  #moves = 0;

  /** `storeEnvironment`: the settings of the hosts' snapshot store. */
  constructor(hosts: Pair, promises: Promises, storeEnvironment: Environment, random: () => number) {
    this.#hosts = hosts;
    this.#promises = promises;
    this.#storeEnvironment = storeEnvironment;
    this.#random = random;
  }

  async work(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        await this.#moveOne(`mover-${this.#count++}`, signal);
      } catch (error) {
        this.refused.push(`moves: ${(error as Error).message}`);
      }
    }
  }

  /** Makes one, moves it back and forth, and deletes it. The first of the hosts is where it is. */
  async #moveOne(name: string, signal: AbortSignal): Promise<void> {
    const body = { name, memory_mib: 128 };
    const { id } = await this.#promises.change(name, RUNNING, () => this.#hosts[0].api.create(body));
    this.ids.set(name, id);
    for (let moves = 0; moves < MOVES_OF_ONE; moves++) {
      const [from, to] = this.#hosts;
      const token = `t${this.#count++}`;
      await from.api.sh(id, `echo ${token} | tee /dev/shm/token > /root/token`);
      await this.#promises.change(name, pausedWith(token), () => drain(from, this.#storeEnvironment));
      this.#note('leave');
      const next = this.#next();
      if (next === 'delete') {
        await this.#promises.change(name, GONE, () => from.api.delete(id));
        this.#note('withdraw');
        return await endDrain(from, this.#storeEnvironment);
      }
      if (next === 'return') {
        await this.#promises.change(name, RUNNING, async () => {
          await endDrain(from, this.#storeEnvironment);
          await poll(async () => (await from.api.ask('getSandbox', { params: { id } })).state === 'running');
        });
        this.#note('return');
      } else {
        await this.#promises.change(name, RUNNING, () =>
          to.api.ask('resumeSandbox', { params: { id }, body: {} }),
        );
        this.#note('arrive');
        await endDrain(from, this.#storeEnvironment);
        await poll(async () => (await namesOn(from)).length === 0);
        this.#hosts = [to, from];
      }
      if (signal.aborted) return;
    }
    await this.#promises.change(name, GONE, () => this.#hosts[0].api.delete(id));
  }

  /** The first ones, so that also a short load has each. */
  #next(): 'return' | 'arrive' | 'delete' {
    const first = FIRST[this.#moves++];
    const draw = this.#random();
    return first ?? (draw < 0.2 ? 'delete' : draw < 0.5 ? 'return' : 'arrive');
  }

  #note(what: string): void {
    this.done[what] = (this.done[what] ?? 0) + 1;
  }
}

export type MovedContext = {
  readonly hosts: Pair;
  readonly load: Pick<MovesLoad, 'ids'>;
  readonly promises: Promises;
  readonly storeEnvironment: Environment;
  readonly objects: JournaledObjects;
  readonly random: () => number;
};

/** What is wrong with sandboxes that moved, once both hosts have finished what was under way. Deletes all of them. */
export async function inspectMoves(context: MovedContext, position: number): Promise<string[]> {
  const { load, promises, storeEnvironment, objects, random } = context;
  const [left, right] = context.hosts;
  // Whoever is asked first.
  const hosts: Pair = random() < 0.5 ? [left, right] : [right, left];
  const broken: string[] = [];
  // A drain that was under way goes on, or is cancelled first.
  if (random() < 0.5) for (const host of hosts) await endDrain(host, storeEnvironment);
  for (const name of promises.keys) {
    const allowed = promises.allowed(name, position);
    const id = load.ids.get(name);
    const saved = allowed.find((value) => value.startsWith(pausedWith('')));
    try {
      if (promises.required(name, position) === GONE) {
        if (id !== undefined && !(await isNowhere(hosts, id))) broken.push(`${name} is there, not ${GONE}`);
        continue;
      }
      if (id === undefined) continue;
      const owner = await findOwner(hosts, id, { canBeGone: allowed.includes(GONE) });
      if (owner === undefined) continue;
      const others = hosts.filter((host) => host !== owner.host);
      for (const other of others)
        if (await canResume(other, id)) broken.push(`${name} is on two hosts, not on one`);
      if (owner.hasFailed) {
        if (!allowed.includes(RUNNING)) broken.push(`${name} has failed, not ${allowed.join(' or ')}`);
        continue;
      }
      const tokens = await owner.host.api.sh(id, 'cat /dev/shm/token /root/token');
      const token = saved?.slice(pausedWith('').length);
      if (tokens !== `${token}\n${token}`)
        broken.push(`${name} has ${JSON.stringify(tokens)}, not ${allowed.join(' or ')}`);
    } catch (error) {
      broken.push(`${name}: ${(error as Error).message}, not ${allowed.join(' or ')}`);
    }
  }
  for (const host of hosts) await endDrain(host, storeEnvironment);
  const everywhere = async (): Promise<string[]> => (await Promise.all(hosts.map(namesOn))).flat();
  const hasOneOfEach = async (): Promise<boolean> => {
    const names = await everywhere();
    return new Set(names).size === names.length;
  };
  await poll(hasOneOfEach).catch(async () =>
    broken.push(`sandboxes on both hosts: ${(await everywhere()).join(' ')}`),
  );
  for (const { api } of hosts)
    for (const { id } of (await api.ask('listSandboxes')).sandboxes) await api.delete(id);
  const offered = (): string[] => [...objects.keys()].filter((key) => key.includes('/sandboxes/'));
  await poll(async () => offered().length === 0).catch(() =>
    broken.push(`in the bucket, and of no sandbox: ${offered().join(' ')}`),
  );
  for (const host of hosts) broken.push(...(await findViolations(host)));
  return broken;
}

type Owner = { readonly host: Daemon; readonly hasFailed: boolean };

/** The host that has it, and lets it run unless it has failed; undefined: none has it, and `canBeGone`. */
async function findOwner(
  hosts: Pair,
  id: string,
  { canBeGone }: { readonly canBeGone: boolean },
): Promise<Owner | undefined> {
  let owner: Owner | undefined;
  await poll(async () => {
    for (const host of hosts) {
      const { sandboxes } = await host.api.ask('listSandboxes');
      const hasFailed = sandboxes.some((each) => each.id === id && each.state === 'failed');
      if (hasFailed || (await canResume(host, id))) owner = { host, hasFailed };
      if (owner !== undefined) return true;
    }
    return canBeGone && (await isNowhere(hosts, id));
  });
  return owner;
}

async function canResume({ api }: Daemon, id: string): Promise<boolean> {
  try {
    await api.ask('resumeSandbox', { params: { id }, body: {} });
    return true;
  } catch (error) {
    if (error instanceof ApiError && ELSEWHERE.includes(error.status)) return false;
    throw error;
  }
}

/** Neither a host has it nor the bucket offers it. */
async function isNowhere(hosts: Pair, id: string): Promise<boolean> {
  for (const { api } of hosts) {
    const { status } = await api.fetch(`/sandboxes/${id}/resume`, { method: 'POST' });
    if (status !== 404) return false;
  }
  return true;
}

async function namesOn({ api }: Daemon): Promise<string[]> {
  return (await api.ask('listSandboxes')).sandboxes.map(({ name, id }) => name ?? id);
}

function drain(host: Daemon, environment: Environment): Promise<unknown> {
  return runDrain(host, environment, ['--json']);
}

async function endDrain(host: Daemon, environment: Environment): Promise<void> {
  await runDrain(host, environment, ['--cancel']);
}

function runDrain({ directories }: Daemon, environment: Environment, args: string[]): Promise<unknown> {
  const env = { ...process.env, ...environment, SANDBOXD_DATA_DIR: directories.dataDir };
  return run(DAEMON_PROGRAM, ['drain', ...args], { env, timeout: LIMIT_MS });
}

async function poll(isTrue: () => Promise<boolean>): Promise<void> {
  for (const endMs = performance.now() + LIMIT_MS; !(await isTrue()); await sleep(100))
    if (performance.now() > endMs) throw new Error(`it did not become true: ${isTrue}`);
}
