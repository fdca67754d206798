// Container images: list, pull, import, show, delete. A daemon without images validates requests and then returns 501.

import type { ApiErrorCode, Labels } from '@sandboxd/api';
import {
  type ImageInfo,
  isSameReference,
  type LayerProgress,
  type ListedImages,
  type Report,
} from '../../images/index.ts';
import { assertMayChangeImages, ownerOf, sharerOf, tenantOf } from '../../keys/index.ts';
import type { Chunk, PullStream } from '../../lib/byte-queue.ts';
import { AppError } from '../../lib/errors.ts';
import { changeLabels, matchesLabels } from '../../lib/labels.ts';
import { auditAbout, clientSignal, type HttpContext } from '../context.ts';
import { toErrorAnswer } from '../errors.ts';
import { readBody } from '../input/body-source.ts';
import { toPage } from '../input/page.ts';
import type { Handlers } from '../serve-routes.ts';
import { answerPullStream } from '../server/responses.ts';
import type { HttpServices } from '../services.ts';

type PullRequest = {
  readonly onProgress?: Report;
  readonly signal: AbortSignal;
  readonly owner: string | undefined;
};

const LINES = 'application/x-ndjson';

export function imageHandlers({ images, bodyIdleMs }: HttpServices) {
  return {
    listImages: async ({ query }) => {
      const store = requireImages(images);
      const { name } = query;
      const own = store.list();
      const listed: ListedImages = (query.shared && (await store.shared?.listWith(own))) || { images: own };
      const found = listed.images.filter(({ labels, config, refs, digest }) => {
        const isNamed =
          name === undefined || refs.some((ref) => isSameReference(ref, name)) || name === digest;
        // As with other tools, those of its configuration are its labels too.
        return isNamed && matchesLabels({ ...config.labels, ...labels }, query.label);
      });
      const { entries, next } = toPage(
        found,
        ({ convertedAtMs, digest }) => ({ atMs: convertedAtMs, name: digest }),
        query,
      );
      const problem = listed.problem !== undefined && { store_error: listed.problem };
      return { images: entries.map(toImageBody), ...next, ...problem };
    },

    pullImage: async ({ body: { ref, pull }, warnings }, c) => {
      assertMayChangeImages(c.get('principal'));
      const store = requireImages(images);
      if (ref === undefined)
        throw new AppError('invalid_argument', 'ref is missing; send a reference such as nginx:alpine');
      return answerImage(c, (options) => store.pull(ref, pull, options), warnings);
    },

    importImage: async ({ query: { tag }, warnings }, c) => {
      assertMayChangeImages(c.get('principal'));
      assertNoTenant(c);
      const store = requireImages(images);
      const body = readBody(c, bodyIdleMs);
      const convert = async (options: PullRequest): Promise<ImageInfo> => {
        try {
          return await store.import(toChunks(body.read), tag, options);
        } finally {
          body.discard(); // after an early response the client may still send
        }
      };
      return answerImage(c, convert, warnings);
    },

    getImage: ({ params: { ref } }) => toImageBody(requireImages(images).get(ref)),

    changeImage: async ({ params: { ref }, body: { user_labels } }, c) => {
      assertMayChangeImages(c.get('principal'));
      assertNoTenant(c);
      const change = (labels: Labels) => changeLabels(labels, user_labels);
      auditAbout(c, { labels: user_labels });
      const image = await requireImages(images).relabel(ref, change);
      c.get('audit').effective = { image: image.digest, labels: image.labels };
      return toImageBody(image);
    },

    deleteImage: async ({ params: { ref } }, c) => {
      assertMayChangeImages(c.get('principal'));
      assertNoTenant(c);
      await requireImages(images).delete(ref);
      return undefined;
    },
  } satisfies Partial<Handlers>;
}

/**
 * All tenants share the images. An imported image could replace the one that another tenant boots, and a deleted image
 * may be needed by another tenant. A pull only adds what the registry serves. AppError forbidden.
 */
function assertNoTenant(c: HttpContext): void {
  const tenant = tenantOf(c.get('principal'));
  if (tenant === undefined) return;
  const message =
    `all tenants share the images, so a key of tenant ${tenant} neither imports, changes nor deletes any; pull it from a ` +
    'registry, or use a key without a tenant';
  throw new AppError('forbidden', message);
}

/** AppError unsupported if images are disabled. */
export function requireImages<T>(images: T | undefined): T {
  if (images !== undefined) return images;
  throw new AppError('unsupported', 'image support is not enabled on this daemon; create from a profile');
}

/** Responds with the image, or with lines of progress if the client accepts them. */
async function answerImage(
  c: HttpContext,
  convert: (options: PullRequest) => Promise<ImageInfo>,
  warnings: readonly string[] = [],
) {
  const signal = clientSignal(c);
  const owner = sharerOf(ownerOf(c.get('principal')));
  const keyed = c.get('keyed');
  if (!(c.req.header('accept') ?? '').includes(LINES)) {
    const converted = convert({ signal, owner });
    await keyed?.track(converted, toImageBody);
    return toImageBody(await converted);
  }
  const disconnected = new AbortController();
  const onDisconnect = () => disconnected.abort(new AppError('cancelled', 'the client left'));
  const lines = new ImageLines(keyed === undefined ? onDisconnect : () => undefined);
  const converted = convert({
    owner,
    signal: AbortSignal.any([signal, disconnected.signal]),
    onProgress: (line, layer) => lines.progress(line, layer),
  });
  const recorded = keyed?.track(converted, toImageBody).then(() => converted) ?? converted;
  recorded.then(
    (image) => lines.succeed({ ...toImageBody(image), ...(warnings.length > 0 && { warnings }) }),
    (error: unknown) => {
      c.var.log.info({ err: error }, 'image pull or import failed');
      lines.fail(error, c.var.requestId);
    },
  );
  return answerPullStream(c, lines, { 'Content-Type': LINES });
}

async function* toChunks(read: () => Promise<Uint8Array | undefined>): AsyncGenerator<Uint8Array> {
  for (let chunk = await read(); chunk !== undefined; chunk = await read()) yield chunk;
}

function toImageBody(listed: ListedImages['images'][number]) {
  const { digest, sourceRef, refs, config, labels: userLabels, storage, ...image } = listed;
  const { cmd, entrypoint, exposedPorts, labels, labelsOmitted } = config;
  return {
    digest,
    ...(sourceRef !== undefined && { source_ref: sourceRef }),
    ...(refs.length > 0 && { refs }),
    ...(cmd.length > 0 && { cmd }),
    ...(entrypoint.length > 0 && { entrypoint }),
    ...(exposedPorts.length > 0 && { exposed_ports: exposedPorts }),
    ...(Object.keys(labels).length > 0 && { labels }),
    ...(Object.keys(userLabels).length > 0 && { user_labels: userLabels }),
    ...(labelsOmitted !== undefined && { labels_omitted: labelsOmitted }),
    content_bytes: image.contentBytes,
    size_bytes: image.sizeBytes,
    entries: image.entries,
    convert_mode: image.convertMode,
    converted_at_unix_ms: image.convertedAtMs,
    ...(storage !== undefined && { storage }),
  };
}

// The progress and result of a pull or import as JSON lines.
type Line =
  | {
      readonly progress: string;
      readonly layer?: string;
      readonly bytes?: number;
      readonly total_bytes?: number;
    }
  | { readonly image: unknown }
  | { readonly error: string; readonly code: ApiErrorCode; readonly status: number };

/** If a slow reader has more pending lines than this, the oldest ones are dropped. */
const MAX_PENDING_LINES = 1000;

export class ImageLines implements PullStream {
  readonly #pending: Line[] = [];
  readonly #onCancel: () => void;
  #isOver = false;
  #wake: (() => void) | undefined;

  /** `onCancel` is called when the client disconnects. */
  constructor(onCancel: () => void) {
    this.#onCancel = onCancel;
  }

  progress(text: string, { layer, bytes, totalBytes }: Partial<LayerProgress> = {}): void {
    if (this.#pending.length >= MAX_PENDING_LINES) this.#pending.shift();
    this.#add({
      progress: text,
      ...(layer !== undefined && { layer }),
      ...(bytes !== undefined && { bytes }),
      ...(totalBytes !== undefined && { total_bytes: totalBytes }),
    });
  }

  succeed(image: unknown): void {
    this.#isOver = true;
    this.#add({ image });
  }

  fail(error: unknown, requestId: string): void {
    const { status, body } = toErrorAnswer(error, requestId);
    this.#isOver = true;
    this.#add({ ...body, status });
  }

  async next(): Promise<Chunk | undefined> {
    if (this.#pending.length === 0 && !this.#isOver) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
    const lines = this.#pending.splice(0);
    if (lines.length === 0) return undefined;
    const text = lines.map((line) => `${JSON.stringify(line)}\n`).join('');
    return { bytes: Buffer.from(text), release: () => undefined };
  }

  cancel(): void {
    this.#isOver = true;
    this.#onCancel();
    this.#wake?.();
  }

  #add(line: Line): void {
    this.#pending.push(line);
    this.#wake?.();
    this.#wake = undefined;
  }
}
