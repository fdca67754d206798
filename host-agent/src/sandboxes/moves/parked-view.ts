// One client's view of sandboxes that only the snapshot store has: those of other tenants do not exist for it.
import PQueue from 'p-queue';
import type { Owner } from '../../keys/index.ts';
import { inSteps } from '../../lib/in-steps.ts';
import { matchesFilter, type SandboxFilter } from '../filter.ts';
import type { ParkedSandboxes } from '../interface.ts';
import { noSandbox, type SandboxRecord } from '../record.ts';
import type { DeletedSandboxes, ParkedSandbox, SandboxInfo } from '../types.ts';
import type { Moves } from './index.ts';
import type { Offer } from './offers.ts';

const FIND_MS = 10_000;
const MAX_CONCURRENT_DELETES = 16;
const MISSING = ['not_found'];

type ParkedViewDeps = {
  readonly moves: Pick<Moves, 'takeOver' | 'describe' | 'offers'>;
  readonly isVisible: (owner: Owner | undefined) => boolean;
  /** A sandbox that this host has, of any owner. */
  readonly findHere: (id: string) => { readonly record: Pick<SandboxRecord, 'owner'> } | undefined;
};

export class ParkedView implements ParkedSandboxes {
  readonly #deps: ParkedViewDeps;

  constructor(deps: ParkedViewDeps) {
    this.#deps = deps;
  }

  async takeOver(id: string): Promise<void> {
    const { moves, isVisible } = this.#deps;
    await inSteps(MISSING, async () => {
      if (!this.#isHere(id)) await moves.takeOver(id, isVisible);
    });
  }

  async describe(id: string): Promise<ParkedSandbox | undefined> {
    const { moves, isVisible } = this.#deps;
    return await inSteps(MISSING, async () =>
      this.#isHere(id) ? undefined : await moves.describe(id, isVisible),
    );
  }

  /** AppError not_found for one that is here and that this client may not see. */
  #isHere(id: string): boolean {
    const { findHere, isVisible } = this.#deps;
    const found = findHere(id);
    if (found !== undefined && !isVisible(found.record.owner)) throw noSandbox(id);
    return found !== undefined;
  }

  async get(id: string): Promise<SandboxInfo> {
    return (await this.#find(id)).info;
  }

  async list(filter: SandboxFilter = {}): ReturnType<ParkedSandboxes['list']> {
    const { offers, problem } = await this.#visible(filter);
    return { found: offers.map(({ info }) => info), ...(problem !== undefined && { problem }) };
  }

  async delete(id: string): Promise<void> {
    const offer = await this.#find(id);
    await this.#deps.moves.offers?.remove(offer, AbortSignal.timeout(FIND_MS));
  }

  async deleteAll(filter: SandboxFilter): Promise<DeletedSandboxes> {
    const { offers } = await this.#visible(filter, { isNow: true });
    const deleted: string[] = [];
    const failed: { readonly id: string; readonly error: unknown }[] = [];
    const queue = new PQueue({ concurrency: MAX_CONCURRENT_DELETES });
    const remove = async (offer: Offer): Promise<void> => {
      const { id } = offer.info;
      try {
        await this.#deps.moves.offers?.remove(offer, AbortSignal.timeout(FIND_MS));
        deleted.push(id);
      } catch (error) {
        failed.push({ id, error });
      }
    };
    await queue.addAll(offers.map((offer) => () => remove(offer)));
    return { deleted, failed };
  }

  async #visible(filter: SandboxFilter, how?: { readonly isNow: boolean }) {
    const { moves, isVisible, findHere } = this.#deps;
    const { offers = [], ...rest } = (await moves.offers?.list(how)) ?? {};
    const visible = offers.filter(
      ({ info, owner }) => isVisible(owner) && findHere(info.id) === undefined && matchesFilter(info, filter),
    );
    return { ...rest, offers: visible.sort((a, b) => Number(a.info.createdAt) - Number(b.info.createdAt)) };
  }

  /** AppError not_found, upstream. */
  async #find(id: string): Promise<Offer> {
    const { moves, isVisible } = this.#deps;
    return await inSteps(MISSING, async () => {
      const offer = this.#isHere(id) ? undefined : await moves.offers?.find(id, AbortSignal.timeout(FIND_MS));
      if (offer === undefined || !isVisible(offer.owner)) throw noSandbox(id);
      return offer;
    });
  }
}
