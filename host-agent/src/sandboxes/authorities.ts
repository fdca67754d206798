// Certificate authorities of inspected TLS, one for each lineage: a sandbox whose policy needs one makes it; its
// snapshots and forks have the same, because running processes keep it in memory. The keys are encrypted in the
// registry, and leave it only for the gateways of their sandboxes.
import { X509Certificate } from 'node:crypto';
import { AppError } from '../lib/errors.ts';
import type { Sealer } from '../lib/seal.ts';
import { type Authority, makeAuthority, needsAuthority, subjectHash } from '../network/authority/index.ts';
import type { Table } from '../store/store.ts';
import type { SandboxRecord } from './record.ts';

/** By the id of the sandbox that made it. */
export type AuthorityRecord = { readonly certificate: string; readonly sealedKey: string };

/** `persist`: to be called in the transaction that writes the record of its sandbox. */
export type MadeAuthority = { readonly id: string; readonly persist: () => void };

/** What clients and guests may know. */
export type AuthorityInfo = { readonly certificate: string; readonly fingerprint: string };

/** As calls to the guest's agent have it; an empty certificate: nothing is inspected. */
export type GuestTrust = { readonly certificate: string; readonly subjectHash: string };

const NO_TRUST: GuestTrust = { certificate: '', subjectHash: '' };

type AuthoritiesOptions = {
  readonly records: Table<AuthorityRecord>;
  readonly sealer: Pick<Sealer, 'seal' | 'open'>;
};

export class Authorities {
  readonly #options: AuthoritiesOptions;
  /** Number of forks in progress, by authority: no record may refer to it meanwhile. */
  readonly #held = new Map<string, number>();

  constructor(options: AuthoritiesOptions) {
    this.#options = options;
  }

  async make(sandboxId: string): Promise<MadeAuthority> {
    const { records, sealer } = this.#options;
    const { certificate, key } = await makeAuthority(sandboxId);
    const sealedKey = sealer.seal(toSealId(sandboxId), Buffer.from(key));
    return {
      id: sandboxId,
      persist: () => void records.put(sandboxId, { certificate, sealedKey }),
    };
  }

  /** With its key, for the gateway of the sandbox. AppError internal if the key cannot be decrypted any more. */
  open(id: string): Authority {
    const found = this.#options.records.get(id);
    if (found === undefined)
      throw new AppError('internal', `the registry has no certificate authority of ${id}`);
    const { certificate, sealedKey } = found;
    const key = this.#options.sealer.open(toSealId(id), sealedKey);
    try {
      return { certificate, key: key.toString() };
    } finally {
      key.fill(0);
    }
  }

  describe({ authority }: Pick<SandboxRecord, 'authority'>): AuthorityInfo | undefined {
    const found = authority === undefined ? undefined : this.#options.records.get(authority);
    if (found === undefined) return undefined;
    const { fingerprint256 } = new X509Certificate(found.certificate);
    return { certificate: found.certificate, fingerprint: fingerprint256 };
  }

  /** Undefined for a sandbox that never had an authority. */
  trustOf({ authority, options }: Pick<SandboxRecord, 'authority' | 'options'>): GuestTrust | undefined {
    if (authority === undefined) return undefined;
    if (options.network === undefined || !needsAuthority(options.network)) return NO_TRUST;
    const found = this.#options.records.get(authority);
    if (found === undefined) return NO_TRUST;
    return { certificate: found.certificate, subjectHash: subjectHash(found.certificate) };
  }

  /** It stays, although nothing that refers to it may exist for a moment. */
  hold(id: string | undefined): Disposable {
    if (id !== undefined) this.#held.set(id, (this.#held.get(id) ?? 0) + 1);
    return {
      [Symbol.dispose]: () => {
        if (id === undefined) return;
        const count = (this.#held.get(id) ?? 1) - 1;
        if (count > 0) this.#held.set(id, count);
        else this.#held.delete(id);
      },
    };
  }

  /** Removes those to which none of these records refers. */
  async collect(users: () => Iterable<{ readonly authority?: string }>): Promise<void> {
    const { records } = this.#options;
    if (!records.hasLatest()) return;
    const all = records.all();
    const used = new Set(Array.from(users(), ({ authority }) => authority));
    for (const { id } of all) if (!used.has(id) && !this.#held.has(id)) await records.remove(id);
  }

  /** Of a sandbox that no user ever saw. */
  async discard(id: string): Promise<void> {
    await this.#options.records.remove(id);
  }
}

function toSealId(id: string): string {
  return `authorities/${id}`;
}
