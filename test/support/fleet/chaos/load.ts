// Clients of a fleet under chaos: what they made and deleted, by the answers that they got.
import { setTimeout as sleep } from 'node:timers/promises';
import { scaled } from '../../time-scale.ts';
import { ask } from '../fleet.ts';
import { pick } from './random.ts';
import { idOf, type World } from './world.ts';

const MOST = 30;
const NAMES = 8;
/** Answers to requests come, or their connections end. */
const ANSWER_MS = 120_000;

type Second = { readonly key: string; readonly former: string; readonly id: string };

export class Load {
  readonly #world: World;
  /** Made, and not deleted. */
  readonly alive = new Set<string>();
  /** A delete was answered. */
  readonly gone = new Set<string>();
  /** Their pods were deleted: the engine may have lost that with their Node, or a move was faster. */
  readonly perhaps = new Set<string>();
  /** By what was done, and its status. */
  readonly answers = new Map<string, number>();
  /** A delete is asked for. */
  readonly #going = new Set<string>();
  readonly #byKey = new Map<string, string>();
  /** They lost the claim of their key: they moved, or their Node was deleted. */
  readonly #unclaimed = new Set<string>();
  readonly #unknown = new Set<string>();
  readonly #second: Second[] = [];
  readonly #hostOf = new Map<string, string>();
  #keys = 0;
  #isOver = false;

  constructor(world: World) {
    this.#world = world;
  }

  start(workers: number): { stop(): Promise<void> } {
    const run = async (): Promise<void> => {
      while (!this.#isOver) await this.#work();
    };
    const done = Promise.all(Array.from({ length: workers }, run));
    return {
      stop: async () => {
        this.#isOver = true;
        await done;
      },
    };
  }

  /** One that is there, and that no client deletes. */
  choose(): string | undefined {
    return pick(
      this.#world.random,
      [...this.alive].filter((id) => !this.#going.has(id)),
    );
  }

  dropPlace(id: string): void {
    this.#going.add(id);
    this.alive.delete(id);
    this.perhaps.add(id);
  }

  unplace(pod: string): void {
    this.#unclaimed.add(idOf(pod));
  }

  /** What the world has now: a guest runs once, and a sandbox that changed its host has no claims any more. */
  observe(): void {
    const guests = this.#world.guests();
    const twice = guests.filter((id, index) => guests.indexOf(id) !== index);
    for (const id of twice) this.#world.problems.add(`${id} runs twice`);
    for (const { id, host } of this.#world.registries()) {
      if ((this.#hostOf.get(id) ?? host) !== host) this.#unclaimed.add(id);
      this.#hostOf.set(id, host);
    }
  }

  get moved(): number {
    return this.#unclaimed.size;
  }

  /** Those that an answer did not know, though they are there: its gateway did not hear the API server. */
  get unknown(): string[] {
    return [...this.#unknown].filter((id) => this.alive.has(id));
  }

  /** Keys that led to a second sandbox, though nothing took the claim of the first one. */
  get ambiguous(): string[] {
    const isWrong = ({ former }: Second): boolean => !this.#unclaimed.has(former);
    return this.#second.filter(isWrong).map(({ key, former, id }) => `${key} is ${former} and ${id}`);
  }

  async #work(): Promise<void> {
    const { random } = this.#world;
    const gateway = pick(random, this.#world.gateways);
    if (gateway === undefined) return void (await sleep(20));
    const { url } = gateway;
    const id = this.choose();
    const choice = random(10);
    if (id !== undefined && (this.alive.size > MOST || choice < 3)) return await this.#delete(url, id);
    if (id !== undefined && choice === 3)
      return void (await this.#ask(url, 'GET', `/sandboxes/${id}`, 'get'));
    if (id !== undefined && choice === 4) return await this.#use(url, id);
    await this.#create(url);
  }

  async #create(url: string): Promise<void> {
    const { random } = this.#world;
    const isRetry = this.#keys > 0 && random(4) === 0;
    const key = isRetry ? `key-${random(this.#keys)}` : `key-${this.#keys++}`;
    const headers = random(2) === 0 || isRetry ? { 'idempotency-key': key } : undefined;
    const body = !headers && random(3) === 0 ? { name: `name-${random(NAMES)}` } : {};
    const made = await this.#ask(url, 'POST', '/sandboxes', 'create', body, headers);
    if (made?.status !== 201) return void (await sleep(scaled(100)));
    const { id } = made.body;
    const former = headers && this.#byKey.get(key);
    if (headers) this.#byKey.set(key, id);
    if (former !== undefined && former !== id && !this.gone.has(former) && !this.#going.has(former))
      this.#second.push({ key, former, id });
    if (!this.gone.has(id) && !this.#going.has(id)) this.alive.add(id);
  }

  async #use(url: string, id: string): Promise<void> {
    const verb = pick(this.#world.random, ['pause', 'resume', 'exec']) ?? '';
    await this.#ask(url, 'POST', `/sandboxes/${id}/${verb}`, verb, verb === 'exec' ? { cmd: ['true'] } : {});
  }

  async #delete(url: string, id: string): Promise<void> {
    this.#going.add(id);
    const { status } = (await this.#ask(url, 'DELETE', `/sandboxes/${id}`, 'delete')) ?? {};
    this.alive.delete(id);
    if (status === 204) this.gone.add(id);
    // A gateway whose watch is late does not know it yet.
    else if (status === 404) this.alive.add(id);
  }

  async #ask(
    url: string,
    method: string,
    path: string,
    what: string,
    body?: object,
    headers: Record<string, string> = {},
  ): ReturnType<typeof ask> extends Promise<infer A> ? Promise<A | undefined> : never {
    let isLate = false;
    const limit = new Promise<undefined>((resolve) => {
      setTimeout(() => {
        isLate = true;
        resolve(undefined);
      }, ANSWER_MS).unref();
    });
    const asked = ask(url, method, path, body, { accept: 'application/json', ...headers }).catch(
      () => undefined,
    );
    const answer = await Promise.race([asked, limit]);
    if (isLate) this.#world.problems.add(`${what} ${path} has no answer`);
    const [, id] = /(sbx_\w+)/.exec(path) ?? [];
    if (answer?.status === 404 && id !== undefined && !this.#unknown.has(id)) {
      this.#unknown.add(id);
      this.#world.test.comment(
        [`404 to ${what}: ${JSON.stringify(answer.body)}`, ...this.#world.explain(id)].join('\n'),
      );
    }
    const seen = `${what} ${answer?.status ?? 'lost'}`;
    this.answers.set(seen, (this.answers.get(seen) ?? 0) + 1);
    return answer;
  }
}
