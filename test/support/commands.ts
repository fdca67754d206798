// A client of detached commands, and a soak of many of them.
import { createHash } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';
import type { Test } from 'tap';
import type { Api } from './api.ts';

export type Command = {
  readonly id: string;
  readonly state: string;
  readonly pid?: number;
  readonly cmd: readonly string[];
  readonly detached: boolean;
  readonly result?: { readonly exit_code: number; readonly signal?: string; readonly usage?: object };
};
export type Line = {
  readonly seq: number;
  readonly data?: string;
  readonly dropped_bytes?: number;
  readonly state?: string;
  readonly result?: Command['result'];
};

export class Commands {
  readonly #api: Api;
  readonly #id: string;

  constructor(api: Api, id: string) {
    this.#api = api;
    this.#id = id;
  }

  path(cid: string, rest = ''): string {
    return `/sandboxes/${this.#id}/commands/${cid}${rest}`;
  }

  async sh(script: string, options: object = {}): Promise<Command> {
    const body = { cmd: ['sh', '-c', script], detach: true, ...options };
    return (await this.#api.call('POST', `/sandboxes/${this.#id}/exec`, body)) as Command;
  }

  async list(): Promise<readonly Command[]> {
    const { commands } = (await this.#api.call('GET', `/sandboxes/${this.#id}/commands`)) as {
      commands: Command[];
    };
    return commands;
  }

  async get({ id }: Pick<Command, 'id'>): Promise<Command> {
    return (await this.#api.call('GET', this.path(id))) as Command;
  }

  async wait({ id }: Pick<Command, 'id'>): Promise<Command> {
    return (await this.#api.call('GET', this.path(id, '/wait'))) as Command;
  }

  async post({ id }: Pick<Command, 'id'>, verb: string, body: object): Promise<Command> {
    return (await this.#api.call('POST', this.path(id, `/${verb}`), body)) as Command;
  }

  async stdin({ id }: Pick<Command, 'id'>, text: string, isLast = false): Promise<number> {
    const url = `${this.#api.url}${this.path(id, `/stdin${isLast ? '?close=1' : ''}`)}`;
    const answer = await fetch(url, { method: 'POST', body: text });
    await answer.text();
    return answer.status;
  }

  async kill({ id }: Pick<Command, 'id'>, graceS = 10): Promise<Command> {
    return (await this.#api.call('DELETE', this.path(id, `?grace_s=${graceS}`))) as Command;
  }

  /** Reads lines until `isEnough`, or the end. */
  async lines(
    { id }: Pick<Command, 'id'>,
    query: string,
    isEnough: (lines: readonly Line[]) => boolean = () => false,
  ): Promise<Line[]> {
    const answer = await fetch(`${this.#api.url}${this.path(id, `/output?${query}`)}`, {
      headers: { accept: 'application/x-ndjson' },
    });
    const lines: Line[] = [];
    let rest = '';
    for await (const part of answer.body ?? []) {
      rest += Buffer.from(part).toString();
      const whole = rest.split('\n');
      rest = whole.pop() ?? '';
      for (const line of whole) if (line !== '') lines.push(JSON.parse(line));
      if (isEnough(lines)) break;
    }
    return lines;
  }
}

export const textOf = (lines: readonly Line[]): string => lines.map(({ data = '' }) => data).join('');
export const seqsOf = (lines: readonly Line[]): number[] =>
  lines.flatMap(({ seq, data }) => (data === undefined ? [] : [seq]));
export const upTo = (end: number): number[] => Array.from({ length: end }, (_, n) => n);

/** How a command of the soak ends, by its number. */
const ENDS = ['exit', 'kill', 'signal', 'exit'] as const;

/**
 * Runs `count` commands, ten at a time, which end in different ways; each must have its result once, and its output byte
 * by byte. `disturb` is called between the tens, and may replace the daemon.
 */
export async function eachExactlyOnce(
  t: Pick<Test, 'equal' | 'match' | 'ok'>,
  api: Api,
  id: string,
  count: number,
  disturb: (started: readonly Command[]) => Promise<Api> = async () => api,
): Promise<void> {
  let client = new Commands(api, id);
  const all: Command[] = [];
  let last = api;
  for (let first = 0; first < count; first += 10) {
    const numbers = upTo(Math.min(10, count - first)).map((n) => first + n);
    const started = await Promise.all(
      numbers.map((n) =>
        client.sh(
          `seq ${n} ${n + 500}; echo end; [ $((${n} % 4)) = 0 ] || [ $((${n} % 4)) = 3 ] || exec sleep 600; exit ${n % 256}`,
        ),
      ),
    );
    const current = await disturb(started);
    client = new Commands(current, id);
    all.push(...started);
    last = current;
    await Promise.all(
      started.map(async (command, index) => {
        const n = first + index;
        const end = ENDS[n % ENDS.length];
        // The output is whole before it ends.
        await client.lines(command, 'follow=1', (lines) => textOf(lines).endsWith('end\n'));
        if (end === 'kill') await client.kill(command, 0);
        if (end === 'signal') await client.post(command, 'signal', { signal: 'SIGTERM' });
        const { result } = await client.wait(command);
        if (end === 'exit') t.equal(result?.exit_code, n % 256, command.id);
        else t.equal(result?.signal, end === 'kill' ? 'SIGKILL' : 'SIGTERM', command.id);
        const expected = `${upTo(501)
          .map((each) => `${n + each}\n`)
          .join('')}end\n`;
        const digest = (text: string): string => createHash('sha256').update(text).digest('hex');
        t.equal(digest(textOf(await client.lines(command, ''))), digest(expected), command.id);
      }),
    );
    const ids = (await client.list()).map((command) => command.id);
    for (const command of started) t.equal(ids.filter((each) => each === command.id).length, 1, command.id);
  }
  const { events } = await readExecLog(last, id, ...all.map((command) => ` of ${command.id}`));
  for (const command of all)
    t.equal(events.split(` of ${command.id}\n`).length, 2, `the end of ${command.id} is logged once`);
}

/** The log of the sandbox's commands, once its events have all of `awaited`. */
export async function readExecLog(
  api: Api,
  id: string,
  ...awaited: readonly string[]
): Promise<{ readonly stdout: string; readonly events: string }> {
  let stdout = '';
  let events = '';
  for (let since = 0; ; ) {
    const page = (await api.call('GET', `/sandboxes/${id}/logs?source=exec&since=${since}`)) as {
      readonly next_offset: number;
      readonly records: readonly { readonly stream: string; readonly text: string }[];
    };
    for (const { stream, text } of page.records) {
      if (stream === 'stdout') stdout += text;
      if (stream === 'event') events += `${text}\n`;
    }
    if (page.next_offset === since) {
      if (awaited.every((each) => events.includes(each))) return { stdout, events };
      await setTimeout(100);
    }
    since = page.next_offset;
  }
}
