// What the handlers of the control plane share.
import type { SandboxInfo } from '@sandboxd/client';
import { addressOf, type Caller, clientSignal, type HttpContext, headerOf } from '../../http/context.ts';
import { PARKED_HEADER, PLACE_HEADER } from '../../http/placement.ts';
import { OPERATOR } from '../../keys/index.ts';
import type { Requests, Rest } from '../rest.ts';
import type { SandboxRecords } from '../sandbox-records.ts';
import type { Asker, Catalogue } from '../templates/find-template.ts';
import { type Tokens, toSandbox } from './views.ts';

type ControlOptions = Pick<ControlContext, 'records' | 'catalogue'> & {
  readonly rest: Rest;
  readonly domain: () => string;
};

export class ControlContext {
  readonly records: SandboxRecords;
  readonly catalogue: Catalogue;
  readonly #domain: () => string;
  readonly #rest: Rest;

  /** `domain` is that of the host names of sandboxes, with its port. */
  constructor({ rest, records, catalogue, domain }: ControlOptions) {
    this.#rest = rest;
    this.records = records;
    this.catalogue = catalogue;
    this.#domain = domain;
  }

  get domain(): string {
    return this.#domain();
  }

  /**
   * The REST interface for the client of a request, until it leaves. A request with an Idempotency-Key goes on: a retry
   * gets its answer.
   */
  readonly requestsOf = (c: HttpContext): Requests =>
    headerOf(c, 'idempotency-key') === undefined
      ? this.#rest.as(callerOf(c), clientSignal(c))
      : this.lastingOf(c);

  askerOf(c: HttpContext): Asker {
    return { requests: this.requestsOf(c), principal: c.get('principal') };
  }

  /** Also for what must be finished once it has begun. */
  readonly lastingOf = (c: HttpContext): Requests => this.#rest.as(callerOf(c));

  /**
   * Finishes what a request has made, sandboxes or snapshots; if that fails, deletes it. As the operator, because a key
   * that may fork need not be able to delete.
   */
  async finish<T>(c: HttpContext, ids: readonly string[], work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      const rest = this.#rest.as({ principal: OPERATOR, address: addressOf(c) });
      const route = (id: string) => (id.startsWith('snap_') ? 'deleteSnapshot' : 'deleteSandbox');
      await Promise.allSettled(ids.map((id) => rest.call(route(id), { params: { id } })));
      throw error;
    }
  }

  async tokensFor(c: HttpContext, id: string): Promise<Tokens> {
    const traffic = this.records.find(id)?.ports === 'token' ? this.records.trafficToken(id) : null;
    return { envd: await this.records.tokenFor(id, c.get('principal')), traffic };
  }

  async show(c: HttpContext, info: SandboxInfo): Promise<ReturnType<typeof toSandbox>> {
    return toSandbox(info, this.records.find(info.id), await this.tokensFor(c, info.id), this.domain);
  }
}

function callerOf(c: HttpContext): Caller {
  return {
    principal: c.get('principal'),
    address: addressOf(c),
    place: headerOf(c, PLACE_HEADER),
    parked: headerOf(c, PARKED_HEADER),
  };
}
