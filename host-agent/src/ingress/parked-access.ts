// Ports of sandboxes that no host has, which the snapshot store offers: a gateway of the fleet asks whether its request
// may wake one, by the same rules as for a sandbox that is here.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { PARKED_HEADER } from '../http/placement.ts';
import type { Principal } from '../keys/index.ts';
import { AppError } from '../lib/errors.ts';
import { inSteps } from '../lib/in-steps.ts';
import { type Access, type AccessRequest, type Grant, noPort } from './access.ts';
import type { PortHost, SandboxPorts } from './port-host.ts';
import { refuse } from './refusals.ts';

const REFUSALS = ['not_found', 'unauthenticated', 'forbidden'];

export type ParkedPorts = {
  readonly isVisible: (principal: Principal) => boolean;
  readonly access: SandboxPorts['access'];
  /** Value of the header by which the gateway finds a host. */
  readonly place: string;
};

export type ParkedAccessOptions = {
  /** Of sandboxes of this host. */
  readonly own: Pick<Access, 'admit'>;
  readonly over: (host: PortHost) => Pick<Access, 'admit'>;
  /** Whether a gateway asks it by itself. */
  readonly isQuestion: (request: IncomingMessage) => boolean;
  /** Undefined: the store does not offer it. AppError upstream. */
  readonly find: (id: string) => Promise<ParkedPorts | undefined>;
};

class NeedsHost extends AppError {
  readonly place: string;

  constructor(id: string, place: string) {
    super('exhausted', `sandbox ${id} is in the snapshot store, and has no host`, { retryAfterS: 1 });
    this.place = place;
  }
}

export class ParkedAccess {
  readonly #options: ParkedAccessOptions;

  constructor(options: ParkedAccessOptions) {
    this.#options = options;
  }

  /** As `Access.admit`. To a gateway that asks, each answer is a refusal. */
  async admit(asked: AccessRequest): Promise<Grant> {
    const { own, isQuestion } = this.#options;
    if (!isQuestion(asked.request as IncomingMessage)) return await own.admit(asked);
    return await inSteps(REFUSALS, () => this.#answer(asked));
  }

  async #answer(asked: AccessRequest): Promise<never> {
    const { sought } = asked;
    if (sought === undefined || !('id' in sought)) throw noPort();
    const { id } = sought;
    const parked = await this.#options.find(id);
    const find = (principal: Principal): SandboxPorts | undefined => {
      if (parked === undefined || !parked.isVisible(principal)) return undefined;
      const connectPort = () => Promise.reject(new NeedsHost(id, parked.place));
      return { id, access: parked.access, hostHeader: () => 'sent', connectPort };
    };
    await this.#options.over({ find }).admit(asked);
    throw parked === undefined ? noPort() : new NeedsHost(id, parked.place);
  }
}

/** As `refuse`; a gateway hears where the store has what it asked for. */
export function refuseParked(...[request, response, error, requestId]: Parameters<typeof refuse>): void {
  if (error instanceof NeedsHost) answerPlace(response, error.place);
  else refuse(request, response, error, requestId);
}

function answerPlace(response: ServerResponse, place: string): void {
  response.writeHead(503, { [PARKED_HEADER]: place, 'content-length': 0, 'cache-control': 'no-store' });
  response.end();
}
