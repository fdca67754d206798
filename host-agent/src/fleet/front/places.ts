// Where a sandbox is: in the map, or in the engine, which may know it earlier.
import type { IncomingMessage } from 'node:http';
import { AppError } from '../../lib/errors.ts';
import { isId } from '../../lib/ids.ts';
import { raceSignal } from '../../lib/wait.ts';
import type { Catalogue, FleetMap, Host, Place } from '../catalogue.ts';
import { AskLimits } from './ask-limits.ts';
import { type Caller, type Callers, RefusedCaller } from './callers.ts';

/** Another gateway may have made it just now. */
const UNKNOWN_WAIT_MS = 250;
/** For the key and the engine together; then the map decides alone. */
const ASK_MS = 1000;
/** A host lets a client that guesses keys wait for 10 s. */
const CHECK_MS = 13_000;
/** A key that a host refused is refused again without a question for this time. */
const REFUSED_MS = 2000;
const MAX_REFUSED = 1000;

export type FoundPlace = { readonly host: Host; readonly place: Place };

export type PlacesDeps = {
  readonly map: FleetMap;
  readonly catalogue: Pick<Catalogue, 'find'>;
  readonly callers: Pick<Callers, 'find' | 'identify'>;
};

/** Has the engine asked once before a sandbox is unknown: only for keys that a host accepts, and so often. */
export class Places {
  readonly #deps: PlacesDeps;
  readonly #limits = new AskLimits();
  /** By the digest of the key. */
  readonly #refused = new Map<string, { readonly error: RefusedCaller; readonly untilMs: number }>();

  constructor(deps: PlacesDeps) {
    this.#deps = deps;
  }

  /** AppError as `findPlace`: about ids of sandboxes only to keys that hosts do not refuse. */
  async find(id: string, request: Pick<IncomingMessage, 'headers'>): Promise<FoundPlace> {
    let checked: Promise<Caller> | undefined;
    const check = (): Promise<Caller> => {
      checked ??= this.#check(request, AbortSignal.timeout(CHECK_MS));
      checked.catch(() => undefined);
      return checked;
    };
    try {
      return await findPlace(this.#deps.map, id, () => this.#ask(id, check));
    } catch (error) {
      if (error instanceof RefusedCaller || !isId('sbx', id)) throw error;
      await check().catch((failure: unknown) => {
        if (failure instanceof RefusedCaller) throw failure;
      });
      throw error;
    }
  }

  /** Rejects if the engine may not be asked, or does not answer in time. */
  async #ask(id: string, check: () => Promise<Caller>): Promise<Place | undefined> {
    const { catalogue } = this.#deps;
    const signal = AbortSignal.timeout(ASK_MS);
    const { tenant, digest } = await raceSignal(check(), signal);
    this.#limits.count(digest, tenant);
    return await catalogue.find(id, tenant, signal);
  }

  async #check(request: Pick<IncomingMessage, 'headers'>, signal: AbortSignal): Promise<Caller> {
    const { digest } = this.#deps.callers.identify(request);
    const known = this.#refused.get(digest);
    if (known !== undefined && known.untilMs > performance.now()) throw known.error;
    this.#refused.delete(digest);
    try {
      return await this.#deps.callers.find(request, signal);
    } catch (error) {
      if (error instanceof RefusedCaller) {
        // The oldest is the first.
        if (this.#refused.size >= MAX_REFUSED) this.#refused.delete(this.#refused.keys().next().value ?? '');
        this.#refused.set(digest, { error, untilMs: performance.now() + REFUSED_MS });
      }
      throw error;
    }
  }
}

/**
 * `ask`: the engine. RefusedCaller; AppError not_found; upstream when its host left the fleet; exhausted when the map
 * may be too old to know it.
 */
export async function findPlace(
  map: FleetMap,
  id: string,
  ask: () => Promise<Place | undefined> = () => Promise.reject(new Error('not asked')),
): Promise<FoundPlace> {
  const missing = new AppError('not_found', `sandbox ${id.slice(0, 100)} does not exist`);
  if (!isId('sbx', id)) throw missing;
  const place = await findKnown(map, id, ask);
  if (place === undefined) {
    if (map.isCurrent && !map.mayHave(id)) throw missing;
    const why = map.isCurrent
      ? 'a host has not named all that it has yet'
      : 'the list of sandboxes may be too old';
    const message = `sandbox ${id} is not known here, and ${why}; try again`;
    throw new AppError('exhausted', message, { retryAfterS: 5 });
  }
  if (place.isMoving === true)
    throw new AppError('exhausted', `sandbox ${id} moves to another host; try again`, { retryAfterS: 1 });
  const host = place.host === undefined ? undefined : map.host(place.host);
  if (host !== undefined) return { host, place };
  if (place.host === undefined)
    throw new AppError('exhausted', `sandbox ${id} has no host yet; try again`, { retryAfterS: 1 });
  throw new AppError('upstream', `the host ${place.host} of the sandbox left the fleet`);
}

async function findKnown(
  map: FleetMap,
  id: string,
  ask: () => Promise<Place | undefined>,
): Promise<Place | undefined> {
  const known = map.find(id);
  if (known?.host !== undefined) return known;
  try {
    const found = await ask();
    const late = map.find(id);
    if (late?.host !== undefined || found?.host !== undefined) return late?.host === undefined ? found : late;
    // The engine looks for the name of a new place: one that has moved has another.
  } catch (error) {
    if (error instanceof RefusedCaller) throw error;
    // The map decides.
  }
  const late = map.find(id);
  if (late !== undefined || !map.isCurrent) return late;
  // A host that names it wakes no waiter.
  return (await map.settle(id, UNKNOWN_WAIT_MS)) ?? map.find(id);
}
