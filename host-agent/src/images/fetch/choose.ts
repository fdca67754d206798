// Chooses an image of an OCI layout: by tag among several images, and by the guests' platform in a multi-platform
// index.
import { ARCHITECTURE } from '@sandboxd/proto';
import { z } from 'zod';
import { AppError } from '../../lib/errors.ts';
import { type Choice, chooseImage, noImages } from './archive.ts';

export const platform = z.object({
  os: z.string(),
  architecture: z.string(),
  variant: z.string().nullish(),
});

type Platform = z.infer<typeof platform>;

/** A descriptor in the layout's index; unknown fields are kept. */
const described = z.looseObject({
  digest: z.string().regex(/^sha256:[\da-f]{64}$/),
  platform: platform.nullish().catch(undefined),
  annotations: z.record(z.string(), z.unknown()).nullish().catch(undefined),
});
const list = z
  .array(z.unknown())
  .transform((all) => all.flatMap((each) => described.safeParse(each).data ?? []));
const document = z.object({
  manifests: list.nullish(),
  artifactType: z.string().nullish(),
  config: z.object({ digest: z.string(), mediaType: z.string().nullish() }).nullish().catch(undefined),
});
const about = z.object({
  os: z.string().nullish(),
  architecture: z.string().nullish(),
  variant: z.string().nullish(),
});

export type Descriptor = z.infer<typeof described>;
export type Chosen = { readonly descriptor: Descriptor; readonly tags: readonly string[] };

/** Returns the text of a document blob; undefined when the blob is missing. */
export type ReadBlob = (digest: string) => Promise<string | undefined>;

export type From = {
  readonly read: ReadBlob;
  readonly holder: Choice<never>['holder'];
  readonly tag?: string | undefined;
};

type Found = {
  readonly descriptor: Descriptor;
  readonly platform: Platform;
  /** False when the manifest of this platform is missing: a layout may have the blobs of some platforms only. */
  readonly isPresent: boolean;
  readonly tags: Set<string>;
  /** Position in the top-level index of the entry that led here. */
  readonly root: number;
};

type IndexContext = {
  readonly root: number;
  readonly tags: readonly string[];
  /** Platform that the enclosing index states. */
  readonly platform?: Platform | undefined;
};

/** Registries have served image configs with the last three types by mistake; Docker accepts them, too. */
const IMAGE_CONFIGS = [
  'application/vnd.oci.image.config.v1+json',
  'application/vnd.docker.container.image.v1+json',
  'application/octet-stream',
  'application/json',
  'text/html',
];
/** Maximum nesting of indexes. */
const MAX_DEPTH = 4;
/**
 * Limit for all documents read in one choice; each document counts DOCUMENT_BYTES more. A hostile layout can have many
 * documents, or refer to one repeatedly.
 */
const MAX_BYTES = 64 << 20;
const DOCUMENT_BYTES = 4096;
/** Platform of build attestations, which builders store beside the image. */
const UNKNOWN = 'unknown';

/**
 * AppError invalid_argument when the index has no image, has several and `tag` does not select one, or has none for
 * this host's platform.
 */
export async function chooseFromIndex(text: string, { read, holder, tag }: From): Promise<Chosen> {
  const index = parse(text);
  if (index === undefined || (index.manifests === undefined && holder !== 'list'))
    throw noImages(`index.json of the ${holder}`);
  const roots = index.manifests ?? [];
  const found = await new Finder(read).find(roots);
  const [, algorithm] = /"digest": *"(sha(?:384|512)):/.exec(text) ?? [];
  if (found.length === 0 && algorithm !== undefined)
    throw new AppError(
      'invalid_argument',
      `the ${holder} names its images by ${algorithm}; only those named by sha256 are taken`,
    );
  const groups = [...Map.groupBy(found, ({ tags }) => [...tags].join('\n')).values()].map((images) => ({
    images,
    tags: [...(images[0]?.tags ?? [])],
  }));
  const [fitting, others] = partition(groups, ({ images }) =>
    images.some((each) => rankOf(each.platform) !== undefined),
  );
  const candidates = tag === undefined && fitting.length > 0 ? fitting : [...fitting, ...others];
  const { images, tags } = chooseImage({ images: candidates, holder, tag });
  const best = chooseBest(images, (each) => each.platform);
  if (best === undefined) {
    const platforms = [...new Set(images.map((each) => showPlatform(each.platform)))].join(', ');
    const message = `the image is for ${platforms}; sandboxes here run ${PLATFORM_HERE}`;
    throw new AppError('invalid_argument', message);
  }
  const equals = images.filter((each) => rankOf(each.platform) === rankOf(best.platform));
  if (tags.length === 0 && equals.some(({ root }) => root !== best.root))
    chooseImage({ images: equals.map(() => ({ tags })), holder });
  return { descriptor: best.descriptor, tags };
}

class Finder {
  readonly #read: ReadBlob;
  readonly #found = new Map<string, Found>();
  readonly #visited = new Set<string>();
  #bytes = 0;

  constructor(read: ReadBlob) {
    this.#read = read;
  }

  /** Omits missing manifests unless no image of the platform is present; the later fetch reports a missing one. */
  async find(roots: readonly Descriptor[]): Promise<Found[]> {
    for (const [root, each] of roots.entries()) await this.#visit(each, { root, tags: tagsOf(each) }, 0);
    const all = [...this.#found.values()];
    const present = all.filter(({ isPresent }) => isPresent);
    return present.some(({ platform }) => rankOf(platform) !== undefined) ? present : all;
  }

  async #visit(descriptor: Descriptor, from: IndexContext, depth: number): Promise<void> {
    const { root, tags } = from;
    const known = this.#found.get(descriptor.digest);
    if (known !== undefined) {
      for (const tag of tags) known.tags.add(tag);
      return;
    }
    const visit = `${root} ${descriptor.digest}`;
    if (this.#visited.has(visit)) return;
    this.#visited.add(visit);
    const add = (platform: Platform, isPresent: boolean) => {
      if (platform.os === UNKNOWN || platform.architecture === UNKNOWN) return;
      this.#found.set(descriptor.digest, { descriptor, platform, isPresent, tags: new Set(tags), root });
    };
    const stated = descriptor.platform ?? from.platform;
    if (stated && rankOf(stated) === undefined) return add(stated, true);
    const text = await this.#readDocument(descriptor.digest);
    const { manifests, config, artifactType } = parse(text ?? '{}') ?? {};
    if (manifests && depth < MAX_DEPTH) {
      for (const each of manifests) await this.#visit(each, { ...from, platform: stated }, depth + 1);
      return;
    }
    const isOther = artifactType || !isImageConfig(config?.mediaType);
    if (!isOther) add(stated ?? (await this.#readPlatform(config?.digest)), text !== undefined);
  }

  async #readPlatform(config: string | undefined): Promise<Platform> {
    const text = config === undefined ? undefined : await this.#readDocument(config);
    const { os, architecture, variant } = about.safeParse(toValue(text ?? '{}')).data ?? {};
    return { os: os ?? '', architecture: architecture ?? '', variant };
  }

  async #readDocument(digest: string): Promise<string | undefined> {
    const text = await this.#read(digest);
    this.#bytes += DOCUMENT_BYTES + (text?.length ?? 0);
    if (this.#bytes > MAX_BYTES)
      throw new AppError('invalid_argument', `the index leads to more than ${MAX_BYTES} bytes of documents`);
    return text;
  }
}

/** A config without a media type is accepted. */
export function isImageConfig(type: string | null | undefined): boolean {
  return !type || IMAGE_CONFIGS.includes(type);
}

function tagsOf({ annotations }: Descriptor): string[] {
  const names = ['io.containerd.image.name', 'org.opencontainers.image.ref.name'];
  return names.flatMap((name) => {
    const tag = annotations?.[name];
    return typeof tag === 'string' ? [tag] : [];
  });
}

function parse(text: string): z.infer<typeof document> | undefined {
  return document.safeParse(toValue(text)).data;
}

function toValue(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function partition<T>(all: readonly T[], is: (each: T) => boolean): [T[], T[]] {
  return [all.filter(is), all.filter((each) => !is(each))];
}

const NAMES: readonly string[] = [ARCHITECTURE.name, ...ARCHITECTURE.aliases, ''];
/**
 * Lowest first: a lower variant runs on more CPUs, and a snapshot may be restored on another host. Those of amd64 begin
 * with v1, and those of arm64 with v8.
 */
const VARIANTS = ['', 'v1', 'v2', 'v3', 'v4', 'v8', 'v9'];
/** The platform of sandboxes. */
export const PLATFORM_HERE = `linux/${ARCHITECTURE.name}`;

/** Undefined for another platform; otherwise lower is better. Missing fields count as this host's. */
export function rankOf({ os, architecture, variant }: Platform): number | undefined {
  const isOurs = ['linux', ''].includes(os.toLowerCase()) && NAMES.includes(architecture.toLowerCase());
  if (!isOurs) return undefined;
  const rank = VARIANTS.indexOf((variant ?? '').toLowerCase());
  return rank < 0 ? VARIANTS.length : rank;
}

/** Returns the first item with the best rank. */
export function chooseBest<T>(all: readonly T[], platformOf: (each: T) => Platform): T | undefined {
  let best: { readonly each: T; readonly rank: number } | undefined;
  for (const each of all) {
    const rank = rankOf(platformOf(each));
    if (rank !== undefined && rank < (best?.rank ?? Number.POSITIVE_INFINITY)) best = { each, rank };
  }
  return best?.each;
}

/** Such as `linux/arm64/v8`. */
export function showPlatform({ os, architecture, variant }: Platform): string {
  return [os || 'linux', architecture, variant].filter(Boolean).join('/');
}
