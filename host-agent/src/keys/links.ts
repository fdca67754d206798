// Links to ports: each lets every client that has it use one port of a sandbox, until it ends. Only the hash of
// its token is stored.
import { createHash, randomBytes } from 'node:crypto';
import { MAX_PORT_LINKS } from '@sandboxd/api';
import { AppError } from '../lib/errors.ts';
import { randomSuffix } from '../lib/ids.ts';
import type { Store, Table } from '../store/store.ts';
import type { KeyHolder, Owner } from './principal.ts';

export type LinkRecord = {
  /** Base64url of the token's SHA-256. */
  readonly hash: string;
  readonly sandbox: string;
  readonly port: number;
  readonly createdAtMs: number;
  readonly expiresAtMs: number;
  /** Absent: all. */
  readonly methods?: readonly string[];
  /** The key that made it; absent on a daemon without keys. */
  readonly keyId?: string;
  readonly owner?: Owner;
};

export type Link = LinkRecord & { readonly id: string };

export type NewLink = Pick<LinkRecord, 'sandbox' | 'port' | 'methods' | 'owner'> & {
  readonly expiresS: number;
  readonly maker: KeyHolder | undefined;
};

/** Parameter of the query that carries the token of a link. */
export const LINK_PARAMETER = 'sandbox_link';

const SHAPE = /^sbl_[A-Za-z0-9_-]{32}$/;
const RANDOM_BYTES = 24;

export function isLinkToken(text: string): boolean {
  return SHAPE.test(text);
}

export class LinkRegistry {
  readonly #table: Table<LinkRecord>;
  readonly #isKeyValid: (keyId: string) => boolean;
  readonly #byHash = new Map<string, Link>();

  /** A link ends with the key that made it. */
  constructor(store: Store, isKeyValid: (keyId: string) => boolean) {
    this.#table = store.table('port_links');
    this.#isKeyValid = isKeyValid;
    for (const { id, record } of this.#table.all()) this.#byHash.set(record.hash, { ...record, id });
  }

  /** The link of a token, if it is valid. */
  find(token: string): Link | undefined {
    if (!isLinkToken(token)) return undefined;
    const link = this.#byHash.get(hash(token));
    return link !== undefined && this.isValid(link) ? link : undefined;
  }

  isValid({ hash, expiresAtMs, keyId }: Link): boolean {
    if (!this.#byHash.has(hash) || expiresAtMs <= Date.now()) return false;
    return keyId === undefined || this.#isKeyValid(keyId);
  }

  /** Oldest first; only valid ones. */
  list(sandbox: string, port: number): Link[] {
    return this.#of(sandbox)
      .filter((link) => link.port === port && this.isValid(link))
      .sort((a, b) => a.createdAtMs - b.createdAtMs);
  }

  /** Resolves with the token, which is not stored. AppError exhausted if the sandbox has as many as it may. */
  async create({
    maker,
    expiresS,
    ...about
  }: NewLink): Promise<{ readonly token: string; readonly link: Link }> {
    const invalid = this.#of(about.sandbox).filter((link) => !this.isValid(link));
    await Promise.all(invalid.map((link) => this.#remove(link)));
    // No await from here until it counts: requests at the same time share the bound.
    if (this.#of(about.sandbox).length >= MAX_PORT_LINKS)
      throw new AppError(
        'exhausted',
        `sandbox ${about.sandbox} has ${MAX_PORT_LINKS} links, which is all that one may have; delete some`,
      );
    const token = `sbl_${randomBytes(RANDOM_BYTES).toString('base64url')}`;
    const createdAtMs = Date.now();
    const record = {
      ...about,
      hash: hash(token),
      createdAtMs,
      expiresAtMs: createdAtMs + expiresS * 1000,
      ...(maker !== undefined && { keyId: maker.id }),
    };
    const link = { ...record, id: `link_${randomSuffix()}` };
    this.#byHash.set(link.hash, link);
    await this.#table.put(link.id, record).catch((error: unknown) => {
      this.#byHash.delete(link.hash);
      throw error;
    });
    return { token, link };
  }

  /** AppError not_found. */
  async delete(sandbox: string, port: number, id: string): Promise<void> {
    const link = this.list(sandbox, port).find((each) => each.id === id);
    if (link === undefined) throw new AppError('not_found', `port ${port} of ${sandbox} has no link ${id}`);
    await this.#remove(link);
  }

  /** Those of a sandbox that was deleted, or of one of its ports that was closed. */
  async deleteAll(sandbox: string, port?: number): Promise<void> {
    const links = this.#of(sandbox).filter((link) => port === undefined || link.port === port);
    await Promise.all(links.map((link) => this.#remove(link)));
  }

  /** At the start of a daemon: an earlier one may have been killed between the end of a port and that of its links. */
  async sweep(isOpen: (sandbox: string, port: number) => boolean): Promise<void> {
    const ended = [...this.#byHash.values()].filter(
      (link) => !this.isValid(link) || !isOpen(link.sandbox, link.port),
    );
    await Promise.all(ended.map((link) => this.#remove(link)));
  }

  #of(sandbox: string): Link[] {
    return [...this.#byHash.values()].filter((link) => link.sandbox === sandbox);
  }

  async #remove({ id, hash }: Link): Promise<void> {
    this.#byHash.delete(hash);
    await this.#table.remove(id);
  }
}

/** Tokens are random, so a fast hash protects them; finding one by its hash leaks no part of it by time. */
function hash(token: string): string {
  return createHash('sha256').update(token).digest('base64url');
}
