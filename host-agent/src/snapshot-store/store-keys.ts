// Keys of the snapshot store, derived from one file that all hosts have: one set for each tenant, and one for the
// documents that name whose chunks are whose.
import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from 'node:crypto';
import { AppError } from '../lib/errors.ts';

const CIPHER = 'aes-256-gcm';
const KEY_BYTES = 32;
const KEY_ID_BYTES = 8;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const TENANT_TAG_BYTES = 16;
const FORMAT = 1;
const CHUNK_HEAD_BYTES = 1 + NONCE_BYTES;
const DOCUMENT_HEAD_BYTES = 1 + KEY_ID_BYTES + NONCE_BYTES;
/** What encryption adds to a chunk. */
export const CHUNK_OVERHEAD_BYTES = CHUNK_HEAD_BYTES + TAG_BYTES;

/** Whose chunks: undefined for those of clients without a tenant. */
export type TenantName = string | undefined;
/** That of images, which are of all tenants. No tenant has this name. */
export const IMAGES_TENANT = '/images';

export class StoreKeys {
  readonly #derive: (use: string, length: number) => Buffer;
  readonly #documentKey: Buffer;
  readonly #keyId: Buffer;
  readonly #tenants = new Map<TenantName, TenantKeys>();

  /** `material`: at least 32 bytes; it is wiped. */
  constructor(material: Buffer) {
    const root = Buffer.from(hkdfSync('sha256', material, '', 'sandboxd snapshot store', KEY_BYTES));
    material.fill(0);
    this.#derive = (use, length) => Buffer.from(hkdfSync('sha256', root, '', `sandboxd ${use}`, length));
    this.#documentKey = this.#derive('documents', KEY_BYTES);
    this.#keyId = this.#derive('id of the key', KEY_ID_BYTES);
  }

  tenant(name: TenantName): TenantKeys {
    const found = this.#tenants.get(name);
    if (found !== undefined) return found;
    const whose = name === undefined ? 'no tenant' : `tenant ${name}`;
    const keys = new TenantKeys((use, length) => this.#derive(`${use} of ${whose}`, length));
    this.#tenants.set(name, keys);
    return keys;
  }

  /** The same text is sealed differently each time. `path`: of the object, so that none can stand for another. */
  seal(path: string, plain: Uint8Array): Buffer {
    const head = Buffer.concat([Buffer.from([FORMAT]), this.#keyId, randomBytes(NONCE_BYTES)]);
    return Buffer.concat([head, encrypt(this.#documentKey, head, path, plain)]);
  }

  /** AppError `internal` with the reason. */
  open(path: string, sealed: Buffer): Buffer {
    const head = sealed.subarray(0, DOCUMENT_HEAD_BYTES);
    if (sealed.length < DOCUMENT_HEAD_BYTES + TAG_BYTES || head[0] !== FORMAT)
      throw damaged(`${path} is cut off, or of another version`);
    if (!head.subarray(1, 1 + KEY_ID_BYTES).equals(this.#keyId))
      throw damaged(`${path} is sealed with another key than snapshot_store_key_file of this host`);
    return decrypt(this.#documentKey, head, path, sealed.subarray(DOCUMENT_HEAD_BYTES));
  }
}

/** Equal chunks of one tenant have one name and one ciphertext; those of two tenants have nothing in common. */
export class TenantKeys {
  /** The tenant in paths. */
  readonly tag: string;
  readonly #nameKey: Buffer;
  readonly #chunkKey: Buffer;
  readonly #nonceKey: Buffer;

  constructor(derive: (use: string, length: number) => Buffer) {
    this.tag = derive('tag', TENANT_TAG_BYTES).toString('hex');
    this.#nameKey = derive('names of chunks', KEY_BYTES);
    this.#chunkKey = derive('chunks', KEY_BYTES);
    this.#nonceKey = derive('nonces of chunks', KEY_BYTES);
  }

  /** A keyed digest: only with the key can one tell whether a known content is there. */
  nameOf(plain: Uint8Array): string {
    return createHmac('sha256', this.#nameKey).update(plain).digest('hex');
  }

  /**
   * `packed`: the compressed content, which another version of zstd packs otherwise. So the nonce comes from these
   * bytes: no key and nonce are ever used for two different ones.
   */
  seal(name: string, packed: Uint8Array): Buffer {
    const nonce = createHmac('sha256', this.#nonceKey).update(packed).digest().subarray(0, NONCE_BYTES);
    const head = Buffer.concat([Buffer.from([FORMAT]), nonce]);
    return Buffer.concat([head, encrypt(this.#keyOf(name), head, name, packed)]);
  }

  /** AppError `internal`. */
  open(name: string, sealed: Buffer): Buffer {
    const head = sealed.subarray(0, CHUNK_HEAD_BYTES);
    if (sealed.length < CHUNK_OVERHEAD_BYTES || head[0] !== FORMAT)
      throw damaged(`the chunk ${name} is cut off, or of another version`);
    return decrypt(this.#keyOf(name), head, name, sealed.subarray(CHUNK_HEAD_BYTES));
  }

  #keyOf(name: string): Buffer {
    return createHmac('sha256', this.#chunkKey).update(name).digest();
  }
}

/** Nonce: the end of `head`. */
function encrypt(key: Buffer, head: Buffer, context: string, plain: Uint8Array): Buffer {
  const cipher = createCipheriv(CIPHER, key, head.subarray(-NONCE_BYTES), { authTagLength: TAG_BYTES });
  cipher.setAAD(Buffer.concat([head, Buffer.from(context)]));
  return Buffer.concat([cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
}

function decrypt(key: Buffer, head: Buffer, context: string, sealed: Buffer): Buffer {
  const decipher = createDecipheriv(CIPHER, key, head.subarray(-NONCE_BYTES), { authTagLength: TAG_BYTES });
  decipher.setAAD(Buffer.concat([head, Buffer.from(context)]));
  decipher.setAuthTag(sealed.subarray(-TAG_BYTES));
  const plain = decipher.update(sealed.subarray(0, -TAG_BYTES));
  try {
    decipher.final();
    return plain;
  } catch (cause) {
    throw damaged(`${context} was changed`, cause);
  }
}

export function damaged(what: string, cause?: unknown): AppError {
  return new AppError('internal', `the snapshot store is damaged: ${what}`, { stage: 'store', cause });
}
