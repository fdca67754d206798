// The head of a request: placeholders become values where every condition holds, and what is left of the guest's
// headers cannot make the answer unreadable.
import {
  type BoundSecret,
  type Destination,
  type FormName,
  judgeSecret,
  renderInjection,
  type SecretUse,
  type Standing,
  type UsableSecret,
  usableAt,
} from './bound-secret.ts';

export type Headers = readonly (readonly [name: string, value: string])[];

export type RequestHead = {
  readonly method: string;
  /** Path and query, as they will be sent. */
  readonly target: string;
  /** As they will be sent: hop-by-hop headers of the guest are gone. Bytes as in `latin1`. */
  readonly headers: Headers;
};

export type SubstitutedHead = {
  readonly kind: 'pass';
  readonly head: RequestHead;
  readonly uses: readonly SecretUse[];
  /** Secrets whose placeholder is sent as it is: in a form, or over a connection, that the secret does not allow. */
  readonly unreplaced: readonly string[];
  /** What Basic credentials became, whose encoding has more than the value. */
  readonly pairs: readonly string[];
};

export type RefusedHead = {
  readonly kind: 'refused';
  readonly status: 403 | 431;
  /** For the guest and the log; without values. */
  readonly reason: string;
  readonly secret: string;
};

/** Of a request with all values, characters. */
const MAX_HEAD_CHARS = 256 * 1024;
/** They frame the message, or name its receiver. */
const NEVER = new Set([
  ...['host', 'connection', 'content-length', 'expect', 'keep-alive', 'te', 'trailer'],
  ...['transfer-encoding', 'upgrade'],
]);
const MAY_ECHO = new Set(['TRACE', 'TRACK']);
/** Parts and other encodings of an answer would hide values from the redaction. */
const HIDING = new Set(['accept-encoding', 'range', 'if-range', 'sec-websocket-extensions', 'a-im']);

type Found = { readonly secret: BoundSecret; readonly standing: Standing };

/** `secrets`: all that the sandbox has. */
export function substituteHead(
  head: RequestHead,
  secrets: readonly BoundSecret[],
  destination: Destination,
): SubstitutedHead | RefusedHead {
  try {
    return new HeadSubstitution(secrets, destination).run(head);
  } catch (error) {
    if (error instanceof Refusal) return error.answer;
    throw error;
  }
}

/** Headers of a request whose answer is redacted. */
export function withReadableAnswer(headers: Headers): Headers {
  const kept = headers.filter(([name]) => !HIDING.has(name.toLowerCase()));
  return [...kept, ['accept-encoding', 'identity']];
}

class Refusal extends Error {
  readonly answer: RefusedHead;

  constructor(status: 403 | 431, secret: string, reason: string) {
    super(reason);
    this.answer = { kind: 'refused', status, secret, reason };
  }
}

class HeadSubstitution {
  readonly #byPlaceholder: readonly (Found & { readonly placeholder: string })[];
  readonly #injected: readonly UsableSecret[];
  readonly #destination: Destination;
  readonly #uses = new Map<string, SecretUse>();
  readonly #unreplaced = new Set<string>();
  readonly #pairs: string[] = [];
  #chars = 0;

  constructor(secrets: readonly BoundSecret[], destination: Destination) {
    this.#destination = destination;
    this.#byPlaceholder = secrets.flatMap((secret) =>
      secret.placeholder === null
        ? []
        : [{ secret, placeholder: secret.placeholder, standing: judgeSecret(secret, destination) }],
    );
    const injecting = secrets.filter(({ inject }) => inject !== undefined);
    for (const secret of injecting)
      if (judgeSecret(secret, destination) === 'empty') throw new Refusal(403, secret.name, noValue(secret));
    this.#injected = usableAt(injecting, destination);
  }

  run({ method, target, headers }: RequestHead): SubstitutedHead {
    const replaced = headers.flatMap(([name, value]) => this.#header(name, value));
    const head = {
      method,
      target: this.#target(target),
      headers: [...replaced, ...this.#injections()],
    };
    const [use] = this.#uses.values();
    if (use !== undefined && (MAY_ECHO.has(method) || replaced.some(([name]) => isMaxForwards(name))))
      throw new Refusal(403, use.secret, `a request with secret ${use.secret} must not ask for its own echo`);
    if (this.#chars > MAX_HEAD_CHARS)
      throw new Refusal(
        431,
        use?.secret ?? '',
        'the head of the request is too large with the values of its secrets',
      );
    const uses = [...this.#uses.values()];
    return { kind: 'pass', head, uses, unreplaced: [...this.#unreplaced], pairs: this.#pairs };
  }

  #header(name: string, value: string): [string, string][] {
    const lower = name.toLowerCase();
    if (this.#injected.some(({ inject }) => inject?.header.toLowerCase() === lower)) return [];
    if (NEVER.has(lower)) return [[name, value]];
    const basic = lower === 'authorization' ? /^(basic +)([\w+/-]+=*) *$/i.exec(value) : null;
    return [[name, basic ? this.#basic(basic, value) : this.#text(lower, value)]];
  }

  #basic([, scheme = '', encoded = '']: RegExpExecArray, value: string): string {
    const pair = Buffer.from(encoded, 'base64').toString('latin1');
    const replaced = this.#replace(pair, 'basic', ({ forms }) => forms.includes('basic'));
    if (replaced === pair) return value;
    const sent = Buffer.from(replaced, 'latin1').toString('base64');
    this.#pairs.push(sent);
    return scheme + sent;
  }

  #text(lower: string, value: string): string {
    const isBearer = lower === 'authorization' && /^bearer /i.test(value);
    return this.#replace(value, isBearer ? 'bearer' : 'header', ({ forms }) =>
      forms.some((form) =>
        typeof form === 'string'
          ? form === 'header' || (form === 'bearer' && isBearer)
          : 'header' in form && form.header.toLowerCase() === lower,
      ),
    );
  }

  #target(target: string): string {
    const at = target.indexOf('?');
    const path = at === -1 ? target : target.slice(0, at);
    for (const { placeholder, secret } of this.#byPlaceholder)
      if (path.includes(placeholder)) this.#unreplaced.add(secret.name);
    if (at === -1) return target;
    const pairs = target.slice(at + 1).split('&');
    return `${path}?${pairs.map((pair) => this.#parameter(pair)).join('&')}`;
  }

  #parameter(pair: string): string {
    const at = pair.indexOf('=');
    const [name, value] = at === -1 ? [pair, ''] : [pair.slice(0, at), pair.slice(at + 1)];
    const decoded = decodeName(name);
    const replaced = this.#replace(
      value,
      'query',
      ({ forms }) =>
        forms.some((form) => typeof form === 'object' && 'query' in form && form.query === decoded),
      encodeURIComponent,
    );
    // One in the name itself is refused or reported, and never replaced.
    this.#replace(name, 'query', () => false);
    return at === -1 ? pair : `${name}=${replaced}`;
  }

  #injections(): [string, string][] {
    return this.#injected.flatMap((secret): [string, string][] => {
      if (secret.inject === undefined) return [];
      const text = renderInjection(secret.inject, secret.value.toString('latin1'));
      this.#note(secret, 'inject');
      this.#chars += text.length;
      const basic = /^basic +([\w+/-]+=*)$/i.exec(text)?.[1];
      if (basic !== undefined) this.#pairs.push(basic);
      return [[secret.inject.header, text]];
    });
  }

  /** Throws a Refusal where a placeholder is for another host, or has no value. */
  #replace(
    text: string,
    form: FormName,
    isAllowed: (secret: BoundSecret) => boolean,
    encode: (value: string) => string = (value) => value,
  ): string {
    let replaced = text;
    for (const { placeholder, secret, standing } of this.#byPlaceholder) {
      if (!replaced.includes(placeholder)) continue;
      if (standing === 'elsewhere') throw new Refusal(403, secret.name, this.#elsewhere(secret));
      if (standing === 'empty') throw new Refusal(403, secret.name, noValue(secret));
      if (standing === 'plain' || secret.value === null || !isAllowed(secret)) {
        this.#unreplaced.add(secret.name);
        continue;
      }
      const parts = replaced.split(placeholder);
      const value = encode(secret.value.toString('latin1'));
      this.#chars += (parts.length - 1) * value.length;
      if (this.#chars > MAX_HEAD_CHARS)
        throw new Refusal(
          431,
          secret.name,
          'the head of the request is too large with the values of its secrets',
        );
      replaced = parts.join(value);
      this.#note(secret, form);
    }
    return replaced;
  }

  #note({ name: secret }: BoundSecret, form: FormName): void {
    this.#uses.set(`${form}/${secret}`, { secret, form });
  }

  #elsewhere({ name }: BoundSecret): string {
    const { name: host, port } = this.#destination;
    return `secret ${name} is not for ${host}:${port}`;
  }
}

function noValue({ name }: BoundSecret): string {
  return `secret ${name} has no value here: it was deleted, or its sandbox was imported without it`;
}

function isMaxForwards(name: string): boolean {
  return name.toLowerCase() === 'max-forwards';
}

/** Undefined for one that is not encoded correctly. */
function decodeName(name: string): string | undefined {
  try {
    return decodeURIComponent(name.replaceAll('+', ' '));
  } catch {
    return undefined;
  }
}
