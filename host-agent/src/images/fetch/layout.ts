// What skopeo wrote: an OCI layout whose blobs are in a directory that all layouts share.
import { join } from 'node:path';
import { z } from 'zod';
import { AppError } from '../../lib/errors.ts';
import { openRegular } from '../../lib/untrusted-path.ts';
import { blobPath, dropDamaged } from './blobs.ts';

const digest = z.string().regex(/^sha256:[\da-f]{64}$/);
const descriptor = z.object({ digest, urls: z.array(z.string()).nullish() });
const index = z.object({ manifests: z.array(descriptor).length(1) });
const manifest = z.object({ config: descriptor, layers: z.array(descriptor) });
const texts = z.array(z.string()).nullish();
const keys = z.record(z.string(), z.unknown()).nullish();

const config = z.object({
  os: z.string().nullish(),
  architecture: z.string().nullish(),
  rootfs: z.object({ diff_ids: z.array(z.string()).nullish() }).nullish(),
  config: z
    .object({
      User: z.string().nullish(),
      Env: texts,
      Entrypoint: texts,
      Cmd: texts,
      WorkingDir: z.string().nullish(),
      ExposedPorts: keys,
      Labels: z.record(z.string(), z.string()).nullish(),
      StopSignal: z.string().nullish(),
    })
    .nullish(),
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

export type LaidOut = {
  /** SHA-256, hexadecimal. */
  readonly configDigest: string;
  readonly config: ImageConfig;
  readonly layers: readonly { readonly digest: string; readonly diffId?: string | undefined }[];
  /** All that the image needs, manifest and config included. */
  readonly blobs: readonly string[];
};

/** Both read whole into memory. */
const MAX_DOCUMENT_BYTES = 8 << 20;
/** What is kept of a config: all but labels is needed to run it, and Linux takes little more for one program. */
const MAX_CONFIG_BYTES = 128 << 10;
/** Labels are for people; those of builders have grown to some 50 KB. */
const MAX_LABEL_BYTES = 64 << 10;

/** AppError upstream for what is no image for this platform; the message begins with `what`. DamagedBlobs for what a disk has changed. */
export async function readLayout(dir: string, blobsDir: string, what: string): Promise<LaidOut> {
  const [found] = (await readDocument(join(dir, 'index.json'), index, `${what}: its index`)).manifests;
  const manifestHex = toHex(found?.digest ?? '');
  await dropDamaged(blobsDir, [manifestHex]);
  const listed = await readDocument(blobPath(blobsDir, manifestHex), manifest, `${what}: its manifest`);
  const configDigest = toHex(listed.config.digest);
  await dropDamaged(blobsDir, [configDigest]);
  const about = await readDocument(blobPath(blobsDir, configDigest), config, `${what}: its config`);
  const { os, architecture } = about;
  if ((os && os !== 'linux') || (architecture && architecture !== 'amd64'))
    throw new AppError('upstream', `${what} is for ${os}/${architecture}; sandboxes here run linux/amd64`);
  const diffIds = about.rootfs?.diff_ids ?? [];
  if (diffIds.length !== listed.layers.length)
    throw new AppError(
      'upstream',
      `${what} has ${listed.layers.length} layers, and its config tells of ${diffIds.length}`,
    );
  const foreign = listed.layers.findIndex(({ urls }) => (urls ?? []).length > 0);
  if (foreign >= 0)
    throw new AppError(
      'upstream',
      `${what}: layer ${foreign + 1} is not in it but at an address of its own, and none is fetched from there`,
    );
  const layers = listed.layers.map((layer, at) => ({ digest: toHex(layer.digest), diffId: diffIds[at] }));
  return {
    configDigest,
    config: toImageConfig(about.config ?? {}, what),
    layers,
    blobs: [...new Set([manifestHex, configDigest, ...layers.map((layer) => layer.digest)])],
  };
}

async function readDocument<T>(path: string, schema: z.ZodType<T>, what: string): Promise<T> {
  await using file = await openRegular(path);
  const { size } = await file.stat();
  if (size > MAX_DOCUMENT_BYTES)
    throw new AppError('upstream', `${what} has ${size} bytes, which is too much`);
  try {
    return schema.parse(JSON.parse(await file.readFile('utf8')));
  } catch (cause) {
    throw new AppError('upstream', `${what} is not as the OCI format wants it`, { cause });
  }
}

function toImageConfig(from: NonNullable<z.infer<typeof config>['config']>, what: string): ImageConfig {
  const needed = {
    entrypoint: from.Entrypoint ?? [],
    cmd: from.Cmd ?? [],
    env: toEnvironment(from.Env ?? []),
    user: from.User ?? '',
    workdir: from.WorkingDir ?? '',
    stopSignal: from.StopSignal ?? '',
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
  const env: Record<string, string> = {};
  for (const line of lines) {
    const equals = line.indexOf('=');
    if (equals > 0 && !line.includes('\0')) env[line.slice(0, equals)] = line.slice(equals + 1);
  }
  return env;
}

function toHex(text: string): string {
  return text.replace(/^sha256:/, '');
}
