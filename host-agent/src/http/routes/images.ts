// Container images: pulled, imported, listed, shown, deleted. A daemon without them checks requests as if it had, and then says 501.

import type { ImageInfo, Report } from '../../images/index.ts';
import { assertMayChangeImages, sharerOf, toOwner } from '../../keys/index.ts';
import { AppError } from '../../lib/errors.ts';
import { clientSignal } from '../client-signal.ts';
import type { HttpContext } from '../context.ts';
import { ImageLines } from '../image-lines.ts';
import { readBody } from '../input/body-source.ts';
import { toPage } from '../input/page.ts';
import { answerPullStream } from '../pull-stream.ts';
import type { Handlers } from '../serve-routes.ts';
import type { HttpServices } from '../services.ts';

type PullRequest = {
  readonly onProgress?: Report;
  readonly signal: AbortSignal;
  readonly owner: string | undefined;
};

const LINES = 'application/x-ndjson';

export function imageHandlers({ images, bodyIdleMs }: HttpServices) {
  return {
    listImages: ({ query }) => {
      const { entries, next } = toPage(
        requireImages(images).list(),
        ({ convertedAtMs, digest }) => ({ atMs: convertedAtMs, name: digest }),
        query,
      );
      return { images: entries.map(toImageBody), ...next };
    },

    pullImage: async ({ body: { ref, pull }, warnings }, c) => {
      assertMayChangeImages(c.get('principal'));
      const store = requireImages(images);
      if (ref === undefined)
        throw new AppError('invalid_argument', 'ref is missing; send a reference such as nginx:alpine');
      return answerMade(c, (options) => store.pull(ref, pull, options), warnings);
    },

    importImage: async ({ query: { tag }, warnings }, c) => {
      assertMayChangeImages(c.get('principal'));
      assertNoTenant(c);
      const store = requireImages(images);
      const body = readBody(c, bodyIdleMs);
      const make = async (options: PullRequest): Promise<ImageInfo> => {
        try {
          return await store.import(toPieces(body.read), tag, options);
        } finally {
          body.discard(); // what was answered early is still being sent
        }
      };
      return answerMade(c, make, warnings);
    },

    getImage: ({ params: { ref } }) => toImageBody(requireImages(images).get(ref)),

    deleteImage: async ({ params: { ref } }, c) => {
      assertMayChangeImages(c.get('principal'));
      assertNoTenant(c);
      await requireImages(images).delete(ref);
      return undefined;
    },
  } satisfies Partial<Handlers>;
}

/**
 * All tenants share the images. What one imports would be what another's next create of that name boots, and what one deletes
 * another may need; a pull only brings what the registry says. AppError forbidden.
 */
function assertNoTenant(c: HttpContext): void {
  const tenant = c.get('principal').tenant;
  if (tenant === undefined) return;
  const message = `all tenants share the images, so a key of tenant ${tenant} neither imports nor deletes any; pull it from a registry, or use a key without a tenant`;
  throw new AppError('forbidden', message);
}

/** AppError unsupported on a daemon that has none. */
export function requireImages<T>(images: T | undefined): T {
  if (images !== undefined) return images;
  throw new AppError('unsupported', 'image support is not enabled on this daemon; create from a profile');
}

/** The image, or lines until it is there for a client that wants them. */
async function answerMade(
  c: HttpContext,
  make: (options: PullRequest) => Promise<ImageInfo>,
  warnings: readonly string[] = [],
) {
  const signal = clientSignal(c);
  const owner = sharerOf(toOwner(c.get('principal')));
  if (!(c.req.header('accept') ?? '').includes(LINES)) return toImageBody(await make({ signal, owner }));
  const left = new AbortController();
  const lines = new ImageLines(() => left.abort(new AppError('cancelled', 'the client left')));
  make({
    owner,
    signal: AbortSignal.any([signal, left.signal]),
    onProgress: (line, layer) => lines.progress(line, layer),
  }).then(
    (image) => lines.succeed({ ...toImageBody(image), ...(warnings.length > 0 && { warnings }) }),
    (error: unknown) => {
      c.var.log.info({ err: error }, 'no image was made');
      lines.fail(error, c.var.requestId);
    },
  );
  return answerPullStream(c, lines, { 'Content-Type': LINES });
}

async function* toPieces(read: () => Promise<Uint8Array | undefined>): AsyncGenerator<Uint8Array> {
  for (let piece = await read(); piece !== undefined; piece = await read()) yield piece;
}

function toImageBody({ digest, sourceRef, refs, config, ...image }: ImageInfo) {
  const { cmd, entrypoint, exposedPorts, labels, labelsOmitted } = config;
  return {
    digest,
    ...(sourceRef !== undefined && { source_ref: sourceRef }),
    ...(refs.length > 0 && { refs }),
    ...(cmd.length > 0 && { cmd }),
    ...(entrypoint.length > 0 && { entrypoint }),
    ...(exposedPorts.length > 0 && { exposed_ports: exposedPorts }),
    ...(Object.keys(labels).length > 0 && { labels }),
    ...(labelsOmitted !== undefined && { labels_omitted: labelsOmitted }),
    content_bytes: image.contentBytes,
    size_bytes: image.sizeBytes,
    entries: image.entries,
    convert_mode: image.convertMode,
    converted_at_unix_ms: image.convertedAtMs,
  };
}
