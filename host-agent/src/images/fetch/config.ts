// Parses an image's config: command, environment, platform and labels.
import { z } from 'zod';
import { AppError } from '../../lib/errors.ts';

/**
 * Configs are parsed as Go's JSON decoder does, because Go programs write them: field names in any case, and null as
 * the zero value.
 */
const text = z
  .string()
  .nullish()
  .transform((value) => value ?? '');
const texts = z.array(text, 'expected an array of texts').nullish();
/** Docker's own type, used for Entrypoint and Cmd only: a string is an array with one element. */
const command = z.preprocess((value) => (typeof value === 'string' ? [value] : value), texts);
const keys = z.record(z.string(), z.unknown()).nullish();

const settings = object({
  User: text,
  Env: texts,
  Entrypoint: command,
  Cmd: command,
  WorkingDir: text,
  ExposedPorts: keys,
  Labels: z.record(z.string(), text).nullish(),
  StopSignal: text,
});

export const configDocument = object({
  os: text,
  architecture: text,
  rootfs: object({ diff_ids: z.array(z.string()).nullish() }).nullish(),
  config: settings.nullish(),
});

export type ImageConfig = {
  readonly entrypoint: readonly string[];
  readonly cmd: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly user: string;
  readonly workdir: string;
  readonly stopSignal: string;
  /** Such as `80/tcp`, sorted. */
  readonly exposedPorts: readonly string[];
  readonly labels: Readonly<Record<string, string>>;
  /** Number of labels omitted because of MAX_LABEL_BYTES. */
  readonly labelsOmitted?: number;
};

/**
 * Limit of the stored config without labels. All of it is needed to run the image, and Linux accepts little more for
 * one program.
 */
const MAX_CONFIG_BYTES = 128 << 10;
/** Labels only inform people; builders have produced some 50 KB of them. */
const MAX_LABEL_BYTES = 64 << 10;

/** AppError upstream for a config above the limit; the message begins with `what`. */
export function toImageConfig({ config }: z.infer<typeof configDocument>, what: string): ImageConfig {
  const from = config ?? settings.parse({});
  const needed = {
    entrypoint: from.Entrypoint ?? [],
    cmd: from.Cmd ?? [],
    env: toEnvironment(from.Env ?? []),
    user: from.User,
    workdir: from.WorkingDir,
    stopSignal: from.StopSignal,
    exposedPorts: Object.keys(from.ExposedPorts ?? {}).sort(),
  };
  const bytes = Buffer.byteLength(JSON.stringify(needed));
  if (bytes > MAX_CONFIG_BYTES)
    throw new AppError(
      'upstream',
      `${what} has a config of ${bytes} bytes without its labels; at most ${MAX_CONFIG_BYTES} are kept`,
    );
  return { ...needed, ...keepLabels(from.Labels ?? {}) };
}

/** Keeps the first labels, up to MAX_LABEL_BYTES. */
function keepLabels(labels: Record<string, string>): Pick<ImageConfig, 'labels' | 'labelsOmitted'> {
  const all = Object.entries(labels);
  let bytes = 0;
  const kept = all.filter(([name, value]) => {
    const more = Buffer.byteLength(JSON.stringify([name, value]));
    if (bytes + more > MAX_LABEL_BYTES) return false;
    bytes += more;
    return true;
  });
  const omitted = all.length - kept.length;
  return { labels: Object.fromEntries(kept), ...(omitted > 0 && { labelsOmitted: omitted }) };
}

/** Of two variables with one name the later one wins; lines that are not variables are dropped. */
function toEnvironment(lines: readonly string[]): Record<string, string> {
  const variables = lines.filter((line) => line.indexOf('=') > 0 && !line.includes('\0'));
  return Object.fromEntries(
    variables.map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
  );
}

/** Of two spellings of one field name the later one wins. */
function object<Shape extends z.ZodRawShape>(shape: Shape) {
  const names = new Map(Object.keys(shape).map((name) => [name.toLowerCase(), name]));
  const rename = (value: unknown): unknown => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
    return Object.fromEntries(
      Object.entries(value).map(([name, each]) => [names.get(name.toLowerCase()) ?? name, each]),
    );
  };
  return z.preprocess(rename, z.object(shape));
}
