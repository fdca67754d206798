// Resumes of sandboxes that are not on this host: each is a question to the snapshot store.
import { ownerOf, sharerOf } from '../../keys/index.ts';
import { ConcurrencyLimit } from '../../lib/concurrency-limit.ts';
import { AppError, isAppError } from '../../lib/errors.ts';
import type { Sandboxes } from '../../sandboxes/interface.ts';
import type { HttpContext } from '../context.ts';
import { PARKED_HEADER, type Placement, writeParked } from '../placement.ts';

/** Ids come from clients. */
const MAX_LOOK_UPS = 64;
const MAX_LOOK_UPS_OF_EACH = 8;

export class LookUps {
  readonly #placement: Placement;
  readonly #limit = new ConcurrencyLimit({
    what: 'resumes of sandboxes that are looked for in the snapshot store',
    ...{ max: MAX_LOOK_UPS, maxPerClient: MAX_LOOK_UPS_OF_EACH },
  });

  constructor(placement: Placement) {
    this.#placement = placement;
  }

  /** Does nothing for one that is here. In a fleet its place says which host takes it over: AppError exhausted. */
  async take(c: HttpContext, sandboxes: Sandboxes, id: string): Promise<void> {
    if (isHere(sandboxes, id)) return;
    using _slot = this.#limit.acquire(sharerOf(ownerOf(c.get('principal'))));
    if (!this.#placement.needsPlace) return await sandboxes.takeOver(id);
    const parked = await sandboxes.findParked(id);
    if (parked === undefined) return;
    c.header(PARKED_HEADER, writeParked(parked));
    const message = `sandbox ${id} is in the snapshot store, and has no host; resume it through the gateway of the fleet`;
    throw new AppError('exhausted', message, { retryAfterS: 1 });
  }
}

function isHere(sandboxes: Sandboxes, id: string): boolean {
  try {
    sandboxes.get(id);
    return true;
  } catch (error) {
    // One that has moved away may be back in the store.
    if (isAppError(error) && ['not_found', 'exhausted'].includes(error.code)) return false;
    throw error;
  }
}
