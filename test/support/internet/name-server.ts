// The test's name server: dnsmasq with records that a test writes, for names below `test`. It has no upstream server.
import type { ChildProcess } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Place } from './place.ts';

export class NameServer {
  readonly #place: Place;
  readonly #dir: string;
  #program: ChildProcess | undefined;

  constructor(place: Place, dir: string) {
    this.#place = place;
    this.#dir = dir;
  }

  get address(): string {
    return this.#place.address;
  }

  /**
   * Replaces its records: lines of its configuration, such as `host-record=web.test,93.184.216.34,60` (the last is the
   * time to live), `cname=alias.test,web.test`, `txt-record=web.test,text`.
   */
  async serve(records: readonly string[]): Promise<void> {
    if (this.#program !== undefined) await this.#place.end(this.#program);
    const path = join(this.#dir, 'dnsmasq.conf');
    const settings = [
      ...[
        'no-resolv',
        'no-hosts',
        'keep-in-foreground',
        'local=/test/',
        'user=root',
        'pid-file',
        'bind-dynamic',
      ],
      ...['log-queries=extra', `log-facility=${this.#logPath}`, 'edns-packet-max=4096'],
    ];
    await writeFile(path, [...settings, ...records, ''].join('\n'));
    this.#program = this.#place.start('dnsmasq', `--conf-file=${path}`);
    await this.#place.listening('udp', 53);
  }

  /** All queries so far, in order: `A web.test`. */
  async questions(): Promise<string[]> {
    const log = await readFile(this.#logPath, 'utf8').catch(() => '');
    return [...log.matchAll(/ query\[([\w=]+)\] (\S+) from /g)].map(([, type, name]) => `${type} ${name}`);
  }

  get #logPath(): string {
    return join(this.#dir, 'dnsmasq.log');
  }
}
