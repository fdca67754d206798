// The ExecReq: a body of POST exec, the first message of a WebSocket.
import { z } from 'zod';
import type { ExecRequest } from '../../sandboxes/face.ts';
import { checkFields, integer, isUnicode, optional, text } from './read-fields.ts';

const MAX_COLUMNS = 65_535;
/** Longer time limits are none: the protocol's milliseconds stay exact below 2^53. */
const MAX_TIMEOUT_S = 2 ** 40;

const variableSchema = text();

const cmdError = 'must be a non-empty array of strings, the program first';

export const cwdSchema = optional(
  text('must be an absolute path').refine((path) => path.startsWith('/'), {
    error: 'must be an absolute path',
  }),
  '',
);

/** Not zod's record, which loses a variable of the name `__proto__`. */
export const envSchema = optional(
  z
    .custom<Readonly<Record<string, string>>>(isObject, { error: 'must be an object of strings' })
    .superRefine((env, context) => {
      for (const [name, value] of Object.entries<unknown>(env)) {
        if (!isVariableName(name)) {
          const message =
            'must have names that are not empty, hold no = and no NUL, and are whole Unicode characters';
          context.addIssue({ code: 'custom', message });
        }
        const { error } = variableSchema.safeParse(value);
        for (const { message } of error?.issues ?? []) {
          context.addIssue({ code: 'custom', path: [name], message });
        }
      }
    }),
);

export const userSchema = optional(
  text('must be name|uid[:group|gid]').regex(/^[^:]+(?::[^:]+)?$/, {
    error: 'must be name|uid[:group|gid]',
  }),
  '',
);

export const execSchema = z.object(
  {
    cmd: z
      .array(text('must be a string'), { error: cmdError })
      .min(1, { error: cmdError })
      .refine(([program]) => program !== '', { error: 'must name a program first' }),
    cwd: cwdSchema,
    env: envSchema,
    timeout_s: optional(z.int({ error: 'must be an integer of seconds, 0 for none' })),
    user: userSchema,
    tty: optional(
      z.object(
        { cols: integer(1, MAX_COLUMNS), rows: integer(1, MAX_COLUMNS) },
        { error: 'must be an object of cols and rows' },
      ),
    ),
  },
  { error: 'must be a JSON object' },
);

export type ExecFields = z.infer<typeof execSchema>;

export function parseExecFields(body: unknown): ExecFields {
  return checkFields(body, execSchema);
}

export function toExecRequest(fields: ExecFields, hasStdin: boolean): ExecRequest {
  const { cmd, cwd, env = {}, timeout_s = 0, user, tty } = fields;
  return {
    cmd,
    env,
    timeoutMs: timeout_s > 0 && timeout_s <= MAX_TIMEOUT_S ? timeout_s * 1000 : 0,
    hasStdin,
    ...(cwd === undefined ? {} : { cwd }),
    ...(user === undefined ? {} : { user }),
    ...(tty === undefined ? {} : { tty }),
  };
}

function isVariableName(name: string): boolean {
  return name !== '' && !/[=\0]/.test(name) && isUnicode(name);
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
