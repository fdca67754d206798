// What E2B's interface keeps with a sandbox and the REST interface does not have. Also the access tokens of sandboxes,
// which are computed: each is of one sandbox and of one key, and allows what that key does now.
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Logger } from 'pino';
import { type KeyHolder, type KeyRegistry, OPERATOR, type Principal } from '../keys/index.ts';
import type { LifecycleEvents } from '../sandboxes/lifecycle-events.ts';
import type { Store, Table } from '../store/store.ts';
import type { TemplateRecords } from './templates/template-records.ts';

export type SandboxRecord = {
  /** As the create named it. */
  readonly templateId: string;
  readonly metadata: Readonly<Record<string, string>>;
  /** Who may use its ports: all clients, holders of the traffic token, or none. */
  readonly ports: 'public' | 'token' | 'closed';
  /** Its servers get `localhost` with the port as Host. */
  readonly masksHost: boolean;
  readonly allowInternetAccess: boolean | null;
  readonly network?: object;
  /** Of commands, from its template. */
  readonly defaults?: { readonly user?: string; readonly workdir?: string };
  /** Ids of the keys that got a token; one signs file URLs that name no sandbox. */
  readonly keyIds: readonly string[];
};

/** In place of a key's id, where every client is the operator. */
const NO_KEY = '0'.repeat(16);
const MAX_KEYS = 16;
const UPLOAD_TOKEN_MS = 60 * 60_000;
/** Of the time when a token ends, in seconds. */
const END_DIGITS = 10;
/** Tokens that are not computed again for each signed URL. */
const MAX_KNOWN_TOKENS = 20_000;

type Keys = Pick<KeyRegistry, 'holder' | 'isClosed' | 'assertDecided'>;

export class SandboxRecords {
  readonly #table: Table<SandboxRecord>;
  readonly #keys: Keys;
  readonly #secret: Buffer;
  readonly #tokens = new Map<string, string>();
  /** Ids of keys by sandbox, so that a signed URL reads no records. */
  readonly #keyIds: Map<string, readonly string[]>;

  private constructor(table: Table<SandboxRecord>, keys: Keys, secret: string) {
    this.#table = table;
    this.#keys = keys;
    this.#secret = Buffer.from(secret, 'hex');
    this.#keyIds = new Map(table.all().map(({ id, record }) => [id, record.keyIds]));
  }

  static async open(store: Store, keys: Keys): Promise<SandboxRecords> {
    const secrets = store.table<string>('e2b_secrets');
    const secret = secrets.get('tokens') ?? randomBytes(32).toString('hex');
    await secrets.put('tokens', secret);
    return new SandboxRecords(store.table('e2b_sandboxes'), keys, secret);
  }

  find(id: string): SandboxRecord | undefined {
    return this.#table.get(id);
  }

  async put(id: string, record: SandboxRecord): Promise<void> {
    await this.#table.put(id, record);
    this.#keyIds.set(id, record.keyIds);
  }

  async delete(id: string): Promise<void> {
    await this.#table.remove(id);
    this.#keyIds.delete(id);
  }

  /** Removes the records of sandboxes that an earlier daemon deleted. */
  async sweep(exists: (id: string) => boolean): Promise<void> {
    for (const { id } of this.#table.all()) if (!exists(id)) await this.delete(id);
  }

  /** The access token of a sandbox for one client. */
  async tokenFor(id: string, principal: Principal): Promise<string> {
    const keyId = keyIdOf(principal);
    const record = this.#table.get(id);
    if (record !== undefined && !record.keyIds.includes(keyId))
      await this.put(id, { ...record, keyIds: [...record.keyIds, keyId].slice(-MAX_KEYS) });
    return this.#token(id, keyId);
  }

  /**
   * The client that has the token of a sandbox. Undefined for another token, and when its key is no longer valid.
   * AppError exhausted, here and below, while the keys of the fleet are not known.
   */
  holderOf(id: string, token: string): Principal | undefined {
    const keyId = token.slice(0, NO_KEY.length);
    if (!areEqual(token, this.#compute(id, keyId))) return undefined;
    return this.#known(keyId);
  }

  /** The clients whose token may have signed a URL, with these tokens; of one sandbox or of all. */
  *tokens(
    sandbox?: string,
  ): Generator<{ readonly id: string; readonly token: string; readonly principal: Principal }> {
    let unknown: string | undefined;
    const own = [[sandbox ?? '', this.#keyIds.get(sandbox ?? '') ?? []] as const];
    for (const [id, keyIds] of sandbox === undefined ? this.#keyIds : own)
      for (const keyId of keyIds) {
        const principal = this.#principal(keyId);
        if (principal !== undefined) yield { id, token: this.#token(id, keyId), principal };
        else unknown ??= keyId;
      }
    if (unknown !== undefined) this.#known(unknown);
  }

  /** Those of the key that has made a token. */
  *tokensLike(
    token: string,
  ): Generator<{ readonly id: string; readonly token: string; readonly principal: Principal }> {
    const keyId = token.slice(0, NO_KEY.length);
    const principal = this.#known(keyId);
    if (principal === undefined) return;
    for (const [id, keyIds] of this.#keyIds)
      if (keyIds.includes(keyId)) yield { id, token: this.#token(id, keyId), principal };
  }

  trafficToken(id: string): string {
    return this.#hmac(`traffic ${id}`);
  }

  /** For the upload of one file of a template by a client without its key, for an hour. */
  uploadToken(what: string, principal: Principal): string {
    const end = Math.ceil((Date.now() + UPLOAD_TOKEN_MS) / 1000);
    return this.#uploadToken(what, keyIdOf(principal), end.toString(16).padStart(END_DIGITS, '0'));
  }

  /** The client that has the token. Undefined for another token, an old one, and when its key is no longer valid. */
  uploaderOf(what: string, token: string, nowMs = Date.now()): Principal | undefined {
    const keyId = token.slice(0, NO_KEY.length);
    const end = token.slice(NO_KEY.length, NO_KEY.length + END_DIGITS);
    if (!areEqual(token, this.#uploadToken(what, keyId, end))) return undefined;
    return Number.parseInt(end, 16) * 1000 > nowMs ? this.#known(keyId) : undefined;
  }

  #uploadToken(what: string, keyId: string, end: string): string {
    return `${keyId}${end}${this.#hmac(`upload ${what} ${keyId} ${end}`)}`;
  }

  /** Whether the key of a client may still be used. */
  isValid(principal: Principal): boolean {
    return this.#principal(keyIdOf(principal)) !== undefined;
  }

  /** AppError exhausted while the keys of the fleet are not known, and may have this one. */
  #known(keyId: string): KeyHolder | typeof OPERATOR | undefined {
    const principal = this.#principal(keyId);
    if (principal === undefined) this.#keys.assertDecided(keyId !== NO_KEY);
    return principal;
  }

  #principal(keyId: string): KeyHolder | typeof OPERATOR | undefined {
    if (!this.#keys.isClosed) return OPERATOR;
    return keyId === NO_KEY ? undefined : this.#keys.holder(keyId);
  }

  #token(id: string, keyId: string): string {
    const name = `${id} ${keyId}`;
    const known = this.#tokens.get(name);
    if (known !== undefined) return known;
    const token = this.#compute(id, keyId);
    const [oldest] = this.#tokens.keys();
    if (this.#tokens.size >= MAX_KNOWN_TOKENS && oldest !== undefined) this.#tokens.delete(oldest);
    this.#tokens.set(name, token);
    return token;
  }

  #compute(id: string, keyId: string): string {
    return `${keyId}${this.#hmac(`access ${id} ${keyId}`)}`;
  }

  #hmac(text: string): string {
    return createHmac('sha256', this.#secret).update(text).digest('hex');
  }
}

/** Of the key that a client has. */
export function keyIdOf(principal: Principal): string {
  return principal.kind === 'key' ? principal.id : NO_KEY;
}

/** Constant-time comparison. */
export function areEqual(a: string, b: string): boolean {
  const [x, y] = [Buffer.from(a), Buffer.from(b)];
  return x.length === y.length && timingSafeEqual(x, y);
}

/** Ids of E2B have letters and digits only. */
export function toE2bId(id: string): string {
  return id.replace('_', '');
}

/** Undefined for text that is not an id of a sandbox. Older SDKs append a client id behind a hyphen. */
export function toOwnId(text: string): string | undefined {
  const suffix = /^sbx_?([0-9a-v]{13})(?:-[\w-]*)?$/.exec(text)?.[1];
  return suffix === undefined ? undefined : `sbx_${suffix}`;
}

// Records of sandboxes and snapshots end with them, however they are deleted.

export function forgetDeleted(
  events: Pick<LifecycleEvents, 'subscribe'>,
  { records, templates, log }: { records: SandboxRecords; templates: TemplateRecords; log: Logger },
): void {
  const failed = (err: unknown): void => log.warn({ err }, 'cannot remove a record of E2B');
  events.subscribe((event) => {
    if (event.kind === 'deleted') records.delete(event.sandbox).catch(failed);
    if (event.kind === 'snapshot-deleted') templates.forgetSnapshot(event.snapshot).catch(failed);
  });
}
