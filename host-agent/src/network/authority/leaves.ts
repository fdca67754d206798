// Certificates for the servers that a guest reaches through inspection, made when a connection needs one.
import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { AppError } from '../../lib/errors.ts';
import { isName } from '../resolver/allowlist.ts';
import { type Issuer, signLeaf, subjectOf } from './certificate.ts';
import { type Authority, BACK_DATED_MS, makeKeyPair } from './make-authority.ts';

/** In PEM. */
export type Leaf = { readonly cert: string; readonly key: string };

const DAY_MS = 24 * 60 * 60 * 1000;
/** 99 days with the day before now: clients begin to refuse longer ones. */
const LIFETIME_MS = 98 * DAY_MS;
const RENEW_BEFORE_MS = 14 * DAY_MS;
const MAX_KEPT = 1000;

type LeavesOptions = { readonly maxKept?: number; readonly now?: () => number };

type Kept = { readonly leaf: Leaf; readonly renewAtMs: number };

export class Leaves {
  readonly #issuer: Issuer;
  readonly #issuerEndsMs: number;
  readonly #maxKept: number;
  readonly #now: () => number;
  /** By name, the least recently used first. */
  readonly #kept = new Map<string, Kept>();
  /** One for all leaves, never stored. */
  #keyPair: Promise<{ publicKey: KeyObject; key: string }> | undefined;

  constructor(authority: Authority, { maxKept = MAX_KEPT, now = Date.now }: LeavesOptions = {}) {
    const certificate = new X509Certificate(authority.certificate);
    this.#issuer = { subject: subjectOf(certificate), key: createPrivateKey(authority.key) };
    this.#issuerEndsMs = certificate.validToDate.getTime();
    this.#maxKept = maxKept;
    this.#now = now;
  }

  /** For one normalized name. AppError invalid_argument for all else, such as an address or a wildcard. */
  async get(name: string): Promise<Leaf> {
    assertName(name);
    return this.#find(name);
  }

  /** For all names one label below a normalized name of two or more labels. */
  async getBelow(parent: string): Promise<Leaf> {
    assertName(parent);
    assertName(`x.${parent}`);
    return this.#find(`*.${parent}`);
  }

  get kept(): number {
    return this.#kept.size;
  }

  async #find(name: string): Promise<Leaf> {
    this.#keyPair ??= makeLeafKeyPair();
    const { publicKey, key } = await this.#keyPair;
    const now = this.#now();
    const found = this.#kept.get(name);
    this.#kept.delete(name);
    const kept = found !== undefined && now < found.renewAtMs ? found : this.#make(name, now, publicKey, key);
    this.#kept.set(name, kept);
    for (const [oldest] of this.#kept) {
      if (this.#kept.size <= this.#maxKept) break;
      this.#kept.delete(oldest);
    }
    return kept.leaf;
  }

  #make(name: string, now: number, publicKey: KeyObject, key: string): Kept {
    const untilMs = Math.min(now + LIFETIME_MS, this.#issuerEndsMs);
    const period = { from: new Date(now - BACK_DATED_MS), until: new Date(untilMs) };
    const cert = signLeaf({ name, period, publicKey }, this.#issuer);
    return { leaf: { cert, key }, renewAtMs: untilMs - RENEW_BEFORE_MS };
  }
}

async function makeLeafKeyPair() {
  const { publicKey, privateKey } = await makeKeyPair('ec', { namedCurve: 'P-256' });
  return { publicKey, key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString() };
}

/** Names such as 10.0.0.1 are read as addresses by clients. */
function assertName(name: string): void {
  if (isName(name) && !/\.[0-9]+$/.test(name)) return;
  const shown = JSON.stringify(name.slice(0, 80));
  throw new AppError('invalid_argument', `no certificate for ${shown}: it is not a DNS name`);
}
