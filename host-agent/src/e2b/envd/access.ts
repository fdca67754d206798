// Who may use envd of a sandbox: holders of its access token, and of URLs of files that are signed with it.
import { createHash } from 'node:crypto';
import type { Authenticator } from '../../http/authentication.ts';
import { addressOf, type HttpContext, headerOf } from '../../http/context.ts';
import type { Principal } from '../../keys/index.ts';
import { E2bError } from '../errors.ts';
import { areEqual, type SandboxRecords } from '../sandbox-records.ts';

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
    const { path = '', username = '', signature, signature_expiration: expiration } = c.req.query();
    if (signature === undefined) throw new E2bError(401, 'missing signature query parameter');
    const operation = c.req.method === 'POST' ? 'write' : 'read';
    for (const each of this.#records.tokens(id)) {
      const expected = sign({ path, operation, username, token: each.token, expiration });
      if (!areEqual(signature, expected)) continue;
      if (expiration !== undefined && Number(expiration) * 1000 < Date.now())
        throw new E2bError(401, 'signature is already expired');
      return each;
    }
    return await this.#refuse(c, 'invalid signature');
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

export function sign({
  path,
  operation,
  username,
  token,
  expiration,
}: {
  readonly path: string;
  readonly operation: 'read' | 'write';
  readonly username: string;
  readonly token: string;
  readonly expiration?: string | undefined;
}): string {
  const parts = [path, operation, username, token, ...(expiration === undefined ? [] : [expiration])];
  const digest = createHash('sha256').update(parts.join(':')).digest('base64');
  return `v1_${digest.replace(/=+$/, '')}`;
}
