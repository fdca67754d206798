// One request to envd: who asks, which sandbox, as which user of the guest.
import { addressOf, clientSignal, endOf, type HttpContext, headerOf } from '../../http/context.ts';
import { ownerOf, type Principal, sharerOf } from '../../keys/index.ts';
import type { ConcurrencyLimit } from '../../lib/concurrency-limit.ts';
import type { Requests, Rest } from '../rest.ts';
import { ConnectError } from './connect-protocol.ts';
import { type GuestUser, type GuestUsers, resolvePath } from './guest-users.ts';

type CallOptions = {
  readonly id: string;
  readonly principal: Principal;
  readonly rest: Rest;
  readonly users: GuestUsers;
  readonly userName: string | undefined;
  /** Of its template. */
  readonly defaults: { readonly user?: string; readonly workdir?: string } | undefined;
};

export class EnvdCall {
  readonly id: string;
  /** Until the client leaves. */
  readonly requests: Requests;
  /** For what must go on without the client. */
  readonly lasting: Requests;
  readonly principal: Principal;
  readonly #users: GuestUsers;
  readonly #userName: string | undefined;
  readonly #defaults: CallOptions['defaults'];
  readonly #end: ReturnType<typeof endOf>;
  #user: Promise<GuestUser> | undefined;

  constructor(c: HttpContext, { id, principal, rest, users, userName, defaults }: CallOptions) {
    const caller = { principal, address: addressOf(c) };
    this.id = id;
    this.principal = principal;
    this.lasting = rest.as(caller);
    this.requests = rest.as(caller, clientSignal(c));
    this.#end = endOf(c);
    this.#users = users;
    this.#userName = userName;
    this.#defaults = defaults;
  }

  /** A slot until the answer is sent, or its client has left. ConnectError resource_exhausted. */
  occupy(limit: ConcurrencyLimit): void {
    const slot = acquire(limit, this.principal);
    if (this.#end === undefined || this.#end.destroyed) slot[Symbol.dispose]();
    else this.#end.once('close', () => slot[Symbol.dispose]());
  }

  get params() {
    return { id: this.id };
  }

  /** ConnectError unauthenticated. */
  user(): Promise<GuestUser> {
    this.#user ??= this.#users.find(this.requests, this.id, this.#userName ?? this.#defaults?.user);
    return this.#user;
  }

  /** Where a command begins; empty: in the directory of its template, else at home. ConnectError. */
  async directory(text: string): Promise<string> {
    const workdir = this.#defaults?.workdir;
    return text === '' && workdir !== undefined ? workdir : resolvePath(text, await this.user());
  }

  /** ConnectError. */
  async path(text: string): Promise<string> {
    if (text.startsWith('/') && !text.includes('\0')) return text.replace(/(?<=.)\/+$/, '');
    return resolvePath(text, await this.user());
  }
}

/** ConnectError resource_exhausted: an AppError would look as if the guest was lost. */
export function acquire(limit: ConcurrencyLimit, principal: Principal): Disposable {
  try {
    return limit.acquire(sharerOf(ownerOf(principal)));
  } catch (error) {
    throw new ConnectError('resource_exhausted', (error as Error).message);
  }
}

/** The name before the colon of Basic credentials; the password has no meaning. */
export function userNameOf(c: HttpContext): string | undefined {
  const basic = /^basic +([A-Za-z0-9+/=_-]+) *$/i.exec(headerOf(c, 'authorization') ?? '')?.[1];
  if (basic === undefined) return undefined;
  return Buffer.from(basic, 'base64').toString().split(':', 1)[0] || undefined;
}
