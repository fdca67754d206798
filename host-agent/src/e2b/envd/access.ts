// Who may use envd of a sandbox: holders of its access token, and of URLs of files that are signed with it.
import { createHash } from 'node:crypto';
import { setImmediate } from 'node:timers/promises';
import type { Authenticator } from '../../http/authentication.ts';
import { addressOf, type HttpContext, headerOf } from '../../http/context.ts';
import type { Principal } from '../../keys/index.ts';
import { E2bError } from '../errors.ts';
import { areEqual, type SandboxRecords } from '../sandbox-records.ts';

/** SHA-256 in Base64. */
const SIGNATURE = /^v1_[A-Za-z0-9+/]{43}$/;
const EXPIRATION = /^\d{0,15}$/;
/** A signature may be that of any sandbox; meanwhile others are served. */
const TOKENS_AT_A_TIME = 500;

export type Admitted = { readonly id: string; readonly principal: Principal };

export class EnvdAccess {
  readonly #records: SandboxRecords;
  readonly #authenticator: Authenticator;

  constructor(records: SandboxRecords, authenticator: Authenticator) {
    this.#records = records;
    this.#authenticator = authenticator;
  }

  /** E2bError 401, after a delay that grows with the number of wrong tokens. */
  async admit(c: HttpContext, id: string): Promise<Admitted> {
    const token = headerOf(c, 'x-access-token');
    if (token === undefined)
      throw new E2bError(401, 'unauthorized access, please provide a valid access token');
    return await this.#admitToken(c, id, token);
  }

  /** For `/files`. A URL that names no sandbox is that of the sandbox whose token signed it. E2bError 401. */
  async admitFiles(c: HttpContext, id: string | undefined): Promise<Admitted> {
    const token = headerOf(c, 'x-access-token');
    if (token !== undefined && id !== undefined) return await this.#admitToken(c, id, token);
    const byToken = token === undefined ? undefined : await this.find(token);
    if (byToken !== undefined) return byToken;
    const query = c.req.query();
    const { signature, signature_expiration: expiration } = query;
    if (signature === undefined) throw new E2bError(401, 'missing signature query parameter');
    const signed = await this.findSigner(c.req.method, query, id);
    if (signed === undefined) return await this.#refuse(c, 'invalid signature');
    if (expiration !== undefined && Number(expiration) * 1000 < Date.now())
      throw new E2bError(401, 'signature is already expired');
    return signed;
  }

  /** The sandbox whose token signed a URL of a file, maybe for a time that is over. */
  async findSigner(
    method: string,
    query: Readonly<Record<string, string>>,
    sandbox?: string,
  ): Promise<Admitted | undefined> {
    const { path = '', username = '', signature = '', signature_expiration: expiration } = query;
    if (!SIGNATURE.test(signature) || !EXPIRATION.test(expiration ?? '')) return undefined;
    const operation = method === 'POST' ? 'write' : 'read';
    const signatureBy = signer({ path, operation, username, expiration });
    let tried = 0;
    for (const each of this.#records.tokens(sandbox)) {
      if (++tried % TOKENS_AT_A_TIME === 0) await setImmediate();
      if (areEqual(signature, signatureBy(each.token))) return each;
    }
    return undefined;
  }

  /** The sandbox of an access token: an earlier JavaScript SDK names none beside it. */
  async find(token: string): Promise<Admitted | undefined> {
    let tried = 0;
    for (const each of this.#records.tokensLike(token)) {
      if (++tried % TOKENS_AT_A_TIME === 0) await setImmediate();
      if (areEqual(token, each.token)) return each;
    }
    return undefined;
  }

  async #admitToken(c: HttpContext, id: string, token: string): Promise<Admitted> {
    const principal = this.#records.holderOf(id, token);
    if (principal !== undefined) return { id, principal };
    return await this.#refuse(c, 'unauthorized access, please provide a valid access token');
  }

  async #refuse(c: HttpContext, message: string): Promise<never> {
    await this.#authenticator.delayAnswer(addressOf(c));
    throw new E2bError(401, message);
  }
}

type Signed = {
  readonly path: string;
  readonly operation: 'read' | 'write';
  readonly username: string;
  readonly expiration?: string | undefined;
};

export function sign({ token, ...signed }: Signed & { readonly token: string }): string {
  return signer(signed)(token);
}

/** The signature by a token. What all have in common is hashed once, because it can be long. */
function signer({ path, operation, username, expiration }: Signed): (token: string) => string {
  const common = createHash('sha256').update(`${path}:${operation}:${username}:`);
  const end = expiration === undefined ? '' : `:${expiration}`;
  return (token) => {
    const digest = common.copy().update(`${token}${end}`).digest('base64');
    return `v1_${digest.replace(/=+$/, '')}`;
  };
}
