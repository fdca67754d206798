// What an image says of itself: how to run it, for what platform, and for people.
import { z } from 'zod';
import { AppError } from '../../lib/errors.ts';

/** Configs are read as Go programs read them, which wrote them: names in any case, and null is the empty value of its kind. */
const text = z
  .string()
  .nullish()
  .transform((value) => value ?? '');
const texts = z.array(text, 'expected an array of texts').nullish();
/** Docker's own kind, and nobody else's: a text is an array of one. */
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
  /** Labels that were left out, since all together are too long. */
  readonly labelsOmitted?: number;
};

/** What is kept of a config: all but labels is needed to run it, and Linux takes little more for one program. */
const MAX_CONFIG_BYTES = 128 << 10;
/** Labels are for people; those of builders have grown to some 50 KB. */
const MAX_LABEL_BYTES = 64 << 10;

/** AppError upstream for more than is kept; the message begins with `what`. */
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

/** The first ones, as many as there is room for. */
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

/** Of two of one name the later one counts; what is no variable is left out. */
function toEnvironment(lines: readonly string[]): Record<string, string> {
  const variables = lines.filter((line) => line.indexOf('=') > 0 && !line.includes('\0'));
  return Object.fromEntries(
    variables.map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
  );
}

/** Of two spellings of a name the later one counts. */
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
