// What a build is asked to do.
import { z } from 'zod';
import { E2bError, unsupported } from '../errors.ts';

const MAX_STEPS = 500;
const MAX_STEP_CHARS = 64 * 1024;
const SECRETS = z.unknown().optional();

const step = z.object({
  type: z.string().max(32),
  args: z.array(z.string().max(MAX_STEP_CHARS)).max(2000).default([]),
  filesHash: z.string().max(64).nullish(),
});

export const buildBody = z.object({
  fromImage: z.string().min(1).max(512).nullish(),
  fromTemplate: z.string().min(1).max(512).nullish(),
  fromImageRegistry: SECRETS,
  steps: z.array(step).max(MAX_STEPS).nullish(),
  startCmd: z.string().max(MAX_STEP_CHARS).nullish(),
  readyCmd: z.string().max(MAX_STEP_CHARS).nullish(),
});

export type Step =
  | { readonly type: 'RUN'; readonly line: string; readonly user: string | undefined }
  | {
      readonly type: 'COPY';
      readonly source: string;
      readonly destination: string;
      readonly user: string | undefined;
      readonly mode: string | undefined;
      readonly hash: string;
    }
  | { readonly type: 'ENV'; readonly pairs: readonly (readonly [string, string])[] }
  | { readonly type: 'WORKDIR'; readonly directory: string }
  | { readonly type: 'USER'; readonly user: string };

export type BuildRequest = {
  readonly from: { readonly template: string } | { readonly image: string };
  readonly steps: readonly Step[];
  readonly startCmd: string | undefined;
  readonly readyCmd: string | undefined;
};

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/;
const USER = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,31}$/;

/** E2bError 400, 501. */
export function toBuildRequest(body: z.output<typeof buildBody>): BuildRequest {
  if (body.fromImageRegistry != null)
    throw unsupported('fromImageRegistry: credentials of registries are those of the daemon');
  if ((body.fromImage == null) === (body.fromTemplate == null))
    throw new E2bError(400, 'a build needs exactly one of fromImage and fromTemplate');
  return {
    from: body.fromTemplate != null ? { template: body.fromTemplate } : { image: body.fromImage ?? '' },
    steps: (body.steps ?? []).map(toStep),
    startCmd: body.startCmd || undefined,
    readyCmd: body.readyCmd || undefined,
  };
}

function toStep({ type, args, filesHash }: z.output<typeof step>, at: number): Step {
  const [first = '', second = ''] = args;
  const fail = (problem: string): E2bError => new E2bError(400, `step ${at + 1} (${type}): ${problem}`);
  const userOf = (text: string | undefined): string | undefined => {
    if (!text) return undefined;
    if (!USER.test(text)) throw fail(`${JSON.stringify(text.slice(0, 64))} is not the name of a user`);
    return text;
  };
  if (first === '') throw fail('it has no arguments');
  if (args.some((arg) => arg.includes('\0'))) throw fail('an argument has a NUL byte');
  switch (type) {
    case 'RUN':
      return { type, line: first, user: userOf(args[1]) };
    case 'COPY': {
      if (second === '') throw fail('it needs a source and a destination');
      if (first.startsWith('/') || first.split('/').includes('..'))
        throw fail('its source must be a relative path within the uploaded files');
      if (args[3] && !/^0?[0-7]{3,4}$/.test(args[3])) throw fail('its mode must be octal, such as 0644');
      if (!filesHash) throw fail('it has no filesHash');
      const mode = args[3] || undefined;
      return { type, source: first, destination: second, user: userOf(args[2]), mode, hash: filesHash };
    }
    case 'ENV':
    case 'ARG': {
      if (args.length % 2 !== 0) throw fail('it needs a value for each name');
      const pairs = args.flatMap((name, index) =>
        index % 2 === 0 ? [[name, args[index + 1] ?? ''] as const] : [],
      );
      const bad = pairs.find(([name]) => !VARIABLE.test(name));
      if (bad !== undefined)
        throw fail(`${JSON.stringify(bad[0].slice(0, 64))} is not the name of a variable`);
      return { type: 'ENV', pairs };
    }
    case 'WORKDIR':
      return { type, directory: first };
    case 'USER':
      return { type, user: userOf(first) ?? '' };
    default:
      throw unsupported(`step ${at + 1}: ${type}`);
  }
}

/** As the log shows it. */
export function describeStep(step: Step): string {
  switch (step.type) {
    case 'RUN':
      return `RUN ${step.line}`;
    case 'COPY':
      return `COPY ${step.source} ${step.destination}`;
    case 'ENV':
      return `ENV ${step.pairs.map(([name]) => name).join(' ')}`;
    case 'WORKDIR':
      return `WORKDIR ${step.directory}`;
    case 'USER':
      return `USER ${step.user}`;
  }
}

/** A step failed: the fault of what it does. */
export class StepError extends Error {
  override readonly name = 'StepError';
}

// The log of a build, which clients fetch by offset while it runs. Long output is cut.

type LogLevel = 'debug' | 'info' | 'warn' | 'error';

type LogEntry = {
  readonly timestamp: string;
  readonly message: string;
  readonly level: LogLevel;
  readonly step?: string;
};

const MAX_ENTRIES = 2000;
const MAX_CHARS = 128 * 1024;
const MAX_MESSAGE_CHARS = 4096;

export class BuildLog {
  readonly #entries: LogEntry[] = [];
  #chars = 0;
  #isCut = false;

  add(message: string, level: LogLevel = 'info', step?: string): void {
    const text = message.slice(0, MAX_MESSAGE_CHARS);
    const isFull = this.#entries.length >= MAX_ENTRIES || this.#chars + text.length > MAX_CHARS;
    // How it ended is always logged.
    if (isFull && level !== 'error') {
      if (!this.#isCut) this.#push('the rest of the output is left out', 'warn', step);
      this.#isCut = true;
    } else this.#push(text, level, step);
  }

  page(offset: number, limit: number): readonly LogEntry[] {
    return this.#entries.slice(offset, offset + limit);
  }

  #push(message: string, level: LogLevel, step: string | undefined): void {
    this.#chars += message.length;
    const timestamp = new Date().toISOString();
    this.#entries.push({ timestamp, message, level, ...(step !== undefined && { step }) });
  }
}
