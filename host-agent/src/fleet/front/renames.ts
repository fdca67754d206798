// Changes of a sandbox's name: the name is claimed for the fleet as by a create, and the earlier one is free again.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { show } from '@sandboxd/api';
import { z } from 'zod';
import { AppError } from '../../lib/errors.ts';
import { type Catalogue, ClaimTaken } from '../catalogue.ts';
import { type JsonBody, readJsonBody } from './body.ts';
import type { Callers } from './callers.ts';
import { toNameClaim } from './create-request.ts';
import { answer } from './creates.ts';
import { isDone } from './fan-out.ts';
import { pickHostHeaders, toBodyHeaders } from './headers.ts';
import type { HostAnswer, HostConnections } from './host-connections.ts';
import { parseJson } from './json.ts';
import { signalOf } from './keyed.ts';
import type { FoundPlace } from './places.ts';

const CHANGE_MS = 5 * 60_000;
const READ_MS = 10_000;
const READ_HEADERS = ['authorization', 'x-request-id'];

const sandbox = z.object({ name: z.string().optional() });

export type RenamesDeps = {
  readonly catalogue: Pick<Catalogue, 'claim' | 'unclaim'>;
  readonly callers: Pick<Callers, 'find'>;
  readonly connections: Pick<HostConnections, 'send'>;
};

type Call = {
  readonly request: IncomingMessage;
  readonly path: string;
  readonly body: JsonBody;
  readonly signal: AbortSignal;
};

export class Renames {
  readonly #deps: RenamesDeps;

  constructor(deps: RenamesDeps) {
    this.#deps = deps;
  }

  /** RefusedCaller; AppError conflict for a name of another sandbox, exhausted when the engine does not answer. */
  async change(
    request: IncomingMessage,
    response: ServerResponse,
    path: string,
    found: FoundPlace,
  ): Promise<void> {
    const signal = signalOf(request, response);
    const caller = await this.#deps.callers.find(request, signal);
    using body = await readJsonBody(request, response, caller);
    const call = { request, path, body, signal };
    const wanted = body.value?.name ?? '';
    const isRename = body.value !== undefined && 'name' in body.value && typeof wanted === 'string';
    // A sandbox without a place has no claims, and a host says what is wrong.
    const before = isRename && found.place.uid !== '' ? await this.#readName(found, call) : undefined;
    if (before === undefined || before === wanted) return answer(response, await this.#send(found, call));
    // It goes on without its client, which may have the name already.
    const whole = { ...call, signal: AbortSignal.timeout(CHANGE_MS) };
    answer(response, await this.#rename(found, whole, { before, wanted: String(wanted) }));
  }

  async #rename(
    found: FoundPlace,
    call: Call,
    { before, wanted }: { readonly before: string; readonly wanted: string },
  ): Promise<HostAnswer> {
    const isNew = wanted !== '' && (await this.#claim(wanted, found, call.signal));
    let isConnected = false;
    const onConnect = (): void => {
      isConnected = true;
    };
    try {
      const made = await this.#send(found, call, onConnect);
      await this.#free(
        [...(isNew ? [wanted] : []), ...(isDone({ found: made }) ? [before] : [])],
        found,
        call,
      );
      return made;
    } catch (error) {
      // Otherwise it may have the name: both stay claimed until it ends.
      if (isNew && !isConnected) await this.#unclaim(wanted, found);
      throw error;
    }
  }

  /** True: it did not have it. */
  async #claim(name: string, { place }: FoundPlace, signal: AbortSignal): Promise<boolean> {
    try {
      return await this.#deps.catalogue.claim(toNameClaim(name), place, signal);
    } catch (error) {
      if (!(error instanceof ClaimTaken)) throw error;
      throw new AppError(
        'conflict',
        `another sandbox of the fleet, ${error.place.id}, has the name ${show(name)}; use another name, or delete it`,
      );
    }
  }

  /** Those that the sandbox does not have: another request may have changed its name meanwhile. */
  async #free(names: readonly string[], found: FoundPlace, call: Call): Promise<void> {
    const candidates = names.filter((name) => name !== '');
    if (candidates.length === 0) return;
    const now = await this.#readName(found, call).catch(() => undefined);
    if (now === undefined) return;
    for (const name of candidates) if (name !== now) await this.#unclaim(name, found);
  }

  /** One that stays is that of the sandbox until it ends. */
  async #unclaim(name: string, { place }: FoundPlace): Promise<void> {
    await this.#deps.catalogue.unclaim(toNameClaim(name), place).catch(() => undefined);
  }

  /** Empty: it has none. Undefined: the host shows this client none. */
  async #readName({ host, place }: FoundPlace, { request, signal }: Call): Promise<string | undefined> {
    const headers = [...pickHostHeaders(request, READ_HEADERS), 'Accept', 'application/json'];
    const read = { method: 'GET', path: `/sandboxes/${place.id}`, headers };
    const limit = AbortSignal.any([signal, AbortSignal.timeout(READ_MS)]);
    const found = await this.#deps.connections.send(host, read, undefined, limit);
    if (!isDone({ found })) return undefined;
    const { data } = sandbox.safeParse(parseJson(found.body.toString()));
    return data && (data.name ?? '');
  }

  async #send(
    { host }: FoundPlace,
    { request, path, body, signal }: Call,
    onConnect?: () => void,
  ): Promise<HostAnswer> {
    const headers = [...toBodyHeaders(request), 'Content-Length', String(body.bytes.length)];
    const limit = AbortSignal.any([signal, AbortSignal.timeout(CHANGE_MS)]);
    const exchange = onConnect === undefined ? {} : { onConnect };
    return await this.#deps.connections.send(host, { method: 'PATCH', path, headers }, body, limit, exchange);
  }
}
