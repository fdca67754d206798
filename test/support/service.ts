// A client's view of the service and the logs.
import { setTimeout as sleep } from 'node:timers/promises';
import type { AnswerOf } from './answers.ts';
import type { Api } from './api.ts';
import { scaled } from './time-scale.ts';

type StatusJson = AnswerOf<'getService'>;

type OutputPageJson = Extract<AnswerOf<'readServiceLogs'>, { next_seq: number }>;

export type LogRecordJson = AnswerOf<'readLogs'>['records'][number];
export type LogPageJson = { readonly next_offset: number; readonly records: readonly LogRecordJson[] };

export class ServiceClient {
  readonly #api: Api;
  readonly #id: string;

  constructor(api: Api, id: string) {
    this.#api = api;
    this.#id = id;
  }

  status(): Promise<StatusJson> {
    return this.#api.call('GET', `/sandboxes/${this.#id}/service`);
  }

  put(spec: Record<string, unknown>): Promise<StatusJson> {
    return this.#api.call('PUT', `/sandboxes/${this.#id}/service`, spec);
  }

  post(verb: 'start' | 'stop' | 'restart', body?: unknown): Promise<StatusJson> {
    return this.#api.call('POST', `/sandboxes/${this.#id}/service/${verb}`, body);
  }

  page(query = ''): Promise<OutputPageJson> {
    return this.#api.call('GET', `/sandboxes/${this.#id}/service/logs?from_seq=0${query}`);
  }

  /** The status once it is in `state`; rejects after a minute. */
  async reaches(state: string, isTrue: (status: StatusJson) => boolean = () => true): Promise<StatusJson> {
    let status = await this.status();
    for (let tries = 0; status.state !== state || !isTrue(status); tries++) {
      if (tries > scaled(300)) throw new Error(`not ${state} but ${JSON.stringify(status)}`);
      await sleep(200);
      status = await this.status();
    }
    return status;
  }

  log(query = ''): Promise<LogPageJson> {
    return this.#api.call('GET', `/sandboxes/${this.#id}/logs${query}`);
  }

  /** All records from `since` to the end of the log. */
  async wholeLog(query = '', since = 0): Promise<LogPageJson> {
    const records: LogRecordJson[] = [];
    for (let offset = since; ; ) {
      const page = await this.log(`?since=${offset}${query}`);
      records.push(...page.records);
      if (page.next_offset === offset) return { next_offset: offset, records };
      offset = page.next_offset;
    }
  }

  /** The log's text of one source and stream once it contains `wanted`; rejects after a minute. */
  async logged(wanted: string | RegExp, source = 'service'): Promise<string> {
    for (let tries = 0; ; tries++) {
      const { records } = await this.wholeLog(`&source=${source}`);
      const text = records.map((record) => record.text).join('');
      if (typeof wanted === 'string' ? text.includes(wanted) : wanted.test(text)) return text;
      if (tries > scaled(300)) throw new Error(`${wanted} is not in the log: ${text.slice(-2000)}`);
      await sleep(200);
    }
  }
}
