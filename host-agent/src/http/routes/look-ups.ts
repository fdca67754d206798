// Sandboxes that are not on this host, and that the snapshot store offers: each request about one is a question to the
// store. In a fleet a gateway asks, and finds a host for those that need one.
import type { RouteName } from '@sandboxd/api';
import { ownerOf, sharerOf } from '../../keys/index.ts';
import { ConcurrencyLimit } from '../../lib/concurrency-limit.ts';
import { AppError, isAppError } from '../../lib/errors.ts';
import type { ParkedSandboxes, Sandboxes, SandboxHost } from '../../sandboxes/interface.ts';
import { type HttpContext, headerOf } from '../context.ts';
import { ASK_PARKED, PARKED_HEADER, type Placement, writeParked } from '../placement.ts';

/** Ids come from clients. */
const MAX_LOOK_UPS = 64;
const MAX_LOOK_UPS_OF_EACH = 8;
/** What needs no host, and so is answered from the store. */
const ANSWERED: ReadonlySet<RouteName> = new Set([
  'listSandboxes',
  'getSandbox',
  'deleteSandbox',
  'deleteSandboxes',
]);

export class LookUps {
  readonly #host: SandboxHost;
  readonly #placement: Placement;
  readonly #limit = new ConcurrencyLimit({
    what: 'sandboxes that are looked for in the snapshot store',
    ...{ max: MAX_LOOK_UPS, maxPerClient: MAX_LOOK_UPS_OF_EACH },
  });

  constructor(host: SandboxHost, placement: Placement) {
    this.#host = host;
    this.#placement = placement;
  }

  /**
   * Before the input of a request is read. Does nothing unless a gateway asks it about a sandbox that needs a host:
   * AppError exhausted with its place, not_found.
   */
  async assertHere(c: HttpContext, route: RouteName): Promise<void> {
    if (ANSWERED.has(route) || !this.isAsked(c)) return;
    const id = c.req.param('id') ?? '';
    if (!/^sbx_/.test(id)) return;
    await this.take(c, id);
    // For one that is here the gateway sends the request itself.
    throw new AppError('exhausted', `sandbox ${id} is on this host by now; try again`, { retryAfterS: 1 });
  }

  /** What the store offers, if a gateway asks for that. */
  find(c: HttpContext): ParkedSandboxes | undefined {
    return this.isAsked(c) ? this.#host.as(c.get('principal')).parked : undefined;
  }

  isAsked(c: HttpContext): boolean {
    return this.#placement.needsPlace && headerOf(c, PARKED_HEADER) === ASK_PARKED;
  }

  /** For the duration of one question. AppError exhausted. */
  acquire(c: HttpContext): Disposable {
    return this.#limit.acquire(sharerOf(ownerOf(c.get('principal'))));
  }

  /** Does nothing for one that is here. In a fleet its place says which host takes it over: AppError exhausted. */
  async take(c: HttpContext, id: string): Promise<void> {
    const sandboxes = this.#host.as(c.get('principal'));
    if (isHere(sandboxes, id)) return;
    using _slot = this.acquire(c);
    if (!this.#placement.needsPlace) return await sandboxes.parked.takeOver(id);
    const parked = await sandboxes.parked.describe(id);
    if (parked === undefined) return;
    c.header(PARKED_HEADER, writeParked(parked));
    const message = `sandbox ${id} is in the snapshot store, and has no host; use it through the gateway of the fleet`;
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
