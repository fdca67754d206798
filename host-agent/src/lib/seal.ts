// Records that are encrypted at rest: AES-256-GCM under one key of the daemon, bound to the id of their record.
import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from 'node:crypto';
import {
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  linkSync,
  openSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { AppError, errnoOf, firstLine } from './errors.ts';
import { KEY_FILE, readPrivateFile } from './private-file.ts';

/** Name of the key among systemd's credentials, and of the file beside the registry. */
export const SEAL_KEY_NAME = 'secrets-key';

const FORMAT = 1;
const KEY_ID_BYTES = 8;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const HEAD_BYTES = 1 + KEY_ID_BYTES + NONCE_BYTES;
const KEY_BYTES = 32;
const CIPHER = 'aes-256-gcm';

/** Where the key is: `beside` the registry, it protects copies of the registry alone. */
export type SealKeySource = 'credential' | 'file' | 'beside';

export type SealKeyOptions = {
  /** Of the daemon; the key is beside it where nothing else has it. */
  readonly dataDir: string;
  /** Named by the operator. */
  readonly keyFile?: string | undefined;
  /** `$CREDENTIALS_DIRECTORY` of systemd. */
  readonly credentialsDir?: string | undefined;
};

/** Seals and opens with one key, which is read, or made, at the first use. */
export class Sealer {
  readonly #options: SealKeyOptions;
  #keys: Keys | undefined;

  constructor(options: SealKeyOptions) {
    this.#options = options;
  }

  /** Reads, or makes, the key. AppError `internal` if it cannot be used; the message says where it is. */
  get source(): SealKeySource {
    return this.#ready().source;
  }

  /** Whether there is one, without making it. */
  get hasKey(): boolean {
    const { dataDir, keyFile, credentialsDir } = this.#options;
    const dirs = [dataDir, ...(credentialsDir === undefined ? [] : [credentialsDir])];
    return keyFile !== undefined || dirs.some((dir) => existsSync(join(dir, SEAL_KEY_NAME)));
  }

  /** Path of a key that the daemon made before its operator named another. */
  findUnusedKey(): string | undefined {
    const { dataDir, keyFile, credentialsDir } = this.#options;
    const beside = join(dataDir, SEAL_KEY_NAME);
    const isNamed =
      keyFile !== undefined ||
      (credentialsDir !== undefined && existsSync(join(credentialsDir, SEAL_KEY_NAME)));
    return isNamed && keyFile !== beside && existsSync(beside) ? beside : undefined;
  }

  /** `id`: of the record and of the field, such as `secrets/acme/github`. Text of the base64 alphabet. */
  seal(id: string, plain: Uint8Array): string {
    const { key, keyId } = this.#ready();
    const head = Buffer.concat([Buffer.from([FORMAT]), keyId, randomBytes(NONCE_BYTES)]);
    const cipher = createCipheriv(CIPHER, key, head.subarray(-NONCE_BYTES), { authTagLength: TAG_BYTES });
    cipher.setAAD(toContext(head, id));
    return Buffer.concat([head, cipher.update(plain), cipher.final(), cipher.getAuthTag()]).toString(
      'base64',
    );
  }

  /** The caller wipes what it gets. AppError `internal` if it is of another record or key, or was changed. */
  open(id: string, sealed: string): Buffer {
    const { key, keyId } = this.#ready();
    const bytes = Buffer.from(sealed, 'base64');
    if (bytes.length < HEAD_BYTES + TAG_BYTES || bytes[0] !== FORMAT)
      throw new AppError('internal', `the sealed record ${id} is not in a form that this daemon knows`);
    const head = bytes.subarray(0, HEAD_BYTES);
    if (!head.subarray(1, 1 + KEY_ID_BYTES).equals(keyId))
      throw new AppError('internal', `the record ${id} is sealed with another key than the daemon has now`);
    const decipher = createDecipheriv(CIPHER, key, head.subarray(-NONCE_BYTES), { authTagLength: TAG_BYTES });
    decipher.setAAD(toContext(head, id));
    decipher.setAuthTag(bytes.subarray(-TAG_BYTES));
    const plain = decipher.update(bytes.subarray(HEAD_BYTES, -TAG_BYTES));
    try {
      decipher.final();
      return plain;
    } catch (cause) {
      plain.fill(0);
      throw new AppError('internal', `the sealed record ${id} was changed, or is of another record`, {
        cause,
      });
    }
  }

  /** Size of what was sealed. */
  static plainBytes(sealed: string): number {
    return Math.max(0, Buffer.byteLength(sealed, 'base64') - HEAD_BYTES - TAG_BYTES);
  }

  /** Hexadecimal digest of a value that only this daemon can compute, so that it cannot be searched for. */
  digest(value: Uint8Array): string {
    return createHmac('sha256', this.#ready().digestKey).update(value).digest('hex');
  }

  /** Ends its use. */
  close(): void {
    this.#keys?.key.fill(0);
    this.#keys?.digestKey.fill(0);
    this.#keys = undefined;
  }

  #ready(): Keys {
    this.#keys ??= readKeys(this.#options);
    return this.#keys;
  }
}

type Keys = {
  readonly source: SealKeySource;
  readonly key: Buffer;
  readonly keyId: Buffer;
  readonly digestKey: Buffer;
};

function readKeys({ dataDir, keyFile, credentialsDir }: SealKeyOptions): Keys {
  const credential = credentialsDir && readIfThere(join(credentialsDir, SEAL_KEY_NAME), true);
  const beside = join(dataDir, SEAL_KEY_NAME);
  if (credential) return toKeys('credential', credential);
  if (keyFile !== undefined) return toKeys('file', readPrivate(keyFile));
  return toKeys('beside', readIfThere(beside) ?? makeKeyFile(beside));
}

function toKeys(source: SealKeySource, material: Buffer): Keys {
  const derive = (use: string, length: number) =>
    Buffer.from(hkdfSync('sha256', material, '', `sandboxd ${use}`, length));
  const keys = {
    source,
    key: derive('sealed records', KEY_BYTES),
    keyId: derive('id of the key', KEY_ID_BYTES),
    digestKey: derive('digests of values', KEY_BYTES),
  };
  material.fill(0);
  return keys;
}

/** The record cannot be taken for another one, nor its head be exchanged. */
function toContext(head: Buffer, id: string): Buffer {
  return Buffer.concat([head, Buffer.from(id)]);
}

function readIfThere(path: string, isCredential = false): Buffer | undefined {
  try {
    return readPrivate(path, isCredential);
  } catch (error) {
    const cause = error instanceof AppError ? error.cause : undefined;
    if (errnoOf(cause) === 'ENOENT') return undefined;
    throw error;
  }
}

/** AppError `internal` if others can read it, or it is too short for a key. */
function readPrivate(path: string, isCredential = false): Buffer {
  return readPrivateFile(path, { ...KEY_FILE, what: 'the key of sealed records', isCredential });
}

/** Whole or absent, also after a crash; where another process was first, its key is used. */
function makeKeyFile(path: string): Buffer {
  const temporary = `${path}.${randomBytes(8).toString('hex')}`;
  try {
    writeFileSync(temporary, randomBytes(KEY_BYTES), { mode: 0o600, flag: 'wx', flush: true });
    linkSync(temporary, path);
    const directory = openSync(dirname(path), constants.O_RDONLY);
    try {
      fsyncSync(directory);
    } finally {
      closeSync(directory);
    }
  } catch (cause) {
    if (errnoOf(cause) !== 'EEXIST')
      throw new AppError('internal', `cannot make the key of sealed records, ${path}: ${firstLine(cause)}`, {
        cause,
      });
  } finally {
    rmSync(temporary, { force: true });
  }
  return readPrivate(path);
}
