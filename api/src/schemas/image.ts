// Container images: references, pull requests, converted images.
import { z } from 'zod';
import { choice, optional, optionalText, rule, text } from '../input/fields.ts';
import { querySwitch } from '../input/query.ts';
import { MAX_HOST_PATH_CHARS, MAX_IMAGE_REF_CHARS } from '../limits.ts';
import { count, errorCode, unixMs, warnings, word } from './answers.ts';
import { labelSelectors, labels, labelsPatch, nameFilter } from './label.ts';
import { nextCursor, pageQuery, unreachableHosts } from './page.ts';

const HOST =
  /(?:[a-zA-Z\d](?:[a-zA-Z\d-]*[a-zA-Z\d])?(?:\.[a-zA-Z\d](?:[a-zA-Z\d-]*[a-zA-Z\d])?)*|\[[\da-fA-F:]+\])(?::\d+)?/;
const COMPONENT = /[a-z\d]+(?:(?:[._]|__|-+)[a-z\d]+)*/;
const DIGEST = /[a-zA-Z][a-zA-Z\d]*(?:[-_+.][a-zA-Z][a-zA-Z\d]*)*:[\da-fA-F]{32,}/;
/** Docker's syntax of references. A digest and a digest prefix match it, too. */
const REFERENCE = `(?:${HOST.source}/)?${COMPONENT.source}(?:/${COMPONENT.source})*(?::\\w[\\w.-]{0,127})?(?:@${DIGEST.source})?`;
const REF_ERROR = 'must be an image reference such as nginx:alpine, or a digest';

const PULL = ['missing', 'always', 'never'] as const;

export const pull = choice(
  PULL,
  'missing',
  'when to pull the image: missing, always, or never (a missing image then causes 404)',
);

const reference = text(REF_ERROR, new RegExp(`^(?:${REFERENCE})?$`)).max(MAX_IMAGE_REF_CHARS, {
  error: REF_ERROR,
});

const imageFields = z.object(
  {
    oci: optionalText(reference, 'Docker reference, or digest or digest prefix of a converted image'),
    path: optionalText(
      text('must be an absolute path', /^(?:\/|$)/).max(MAX_HOST_PATH_CHARS, {
        error: `must be a path of at most ${MAX_HOST_PATH_CHARS} characters`,
      }),
      'path of a root filesystem or image archive on the host, inside a directory that the operator has allowed',
    ),
  },
  { error: 'must be an object of oci or path' },
);

export const imageRef = rule(
  imageFields,
  'exactly one of oci and path',
  ({ oci, path }) => (oci === undefined) !== (path === undefined),
  { error: 'must have exactly one of oci and path' },
);

export const pullImageRequest = z
  .object(
    {
      // Optional in the schema for compatibility: the route requires it where images are enabled.
      ref: optionalText(reference, 'Docker reference'),
      pull: choice(
        PULL,
        'always',
        'when to pull: always, missing (only if the image is not on this host), or never',
      ),
    },
    { error: 'must be a JSON object' },
  )
  .describe('an image to pull and convert');

const PATH_ERROR = `image reference {value} ${REF_ERROR}`;

export const imagePath = z.object({
  ref: z
    .string()
    .max(MAX_IMAGE_REF_CHARS, { error: PATH_ERROR, abort: true })
    .regex(new RegExp(`^${REFERENCE}$`), { error: PATH_ERROR })
    .meta({
      title: 'image reference',
      description: 'image reference, digest, or unambiguous digest prefix',
    }),
});

export const changeImageRequest = z
  .object(
    { user_labels: optional(labelsPatch, 'labels to set, or with null to remove; others stay') },
    { error: 'must be a JSON object' },
  )
  .describe('changes of an image');

export const imagesQuery = pageQuery.extend({
  label: labelSelectors,
  name: nameFilter,
  shared: querySwitch(
    'true',
    true,
    'true: also those that only the snapshot store of the fleet has, and where each is (storage)',
  ),
});

export const pullQuery = z.object({
  host: z
    .string()
    .optional()
    .meta({
      description:
        'at the gateway of a fleet: names of the hosts that pull it, comma-separated; default: all; a daemon alone ' +
        'ignores it',
    }),
});

export const importQuery = z.object({
  tag: z
    .string()
    .max(MAX_IMAGE_REF_CHARS, { error: `must have at most ${MAX_IMAGE_REF_CHARS} characters` })
    .optional()
    .transform((value) => value || undefined)
    .meta({ description: 'the image to import from an archive that holds several' }),
});

export const image = z
  .object({
    digest: word('digest of the converted image'),
    source_ref: word('reference that the image was pulled with').optional(),
    cmd: z.array(z.string()).optional().describe('default arguments (CMD)'),
    entrypoint: z.array(z.string()).optional().describe('default program (ENTRYPOINT)'),
    exposed_ports: z.array(z.string()).optional().describe('ports that the image declares, such as 80/tcp'),
    content_bytes: count('total size of its files, bytes').optional(),
    size_bytes: count('disk space that its root filesystem uses, bytes').optional(),
    labels: z.record(z.string(), z.string()).optional().describe('labels in the configuration of the image'),
    user_labels: labels.optional().describe('labels that were set on this daemon; absent if there are none'),
    labels_omitted: count(
      'number of labels that are omitted because all labels together exceed 64 KiB',
    ).optional(),
    refs: z.array(z.string()).optional().describe('all references of the image'),
    entries: count('number of files, directories and links').optional(),
    convert_mode: word('conversion method'),
    converted_at_unix_ms: unixMs('time of the conversion'),
    hosts: z
      .array(word('name of a host'))
      .describe(
        'at the gateway of a fleet: the hosts that have it, none if only the snapshot store does; a daemon alone has none',
      )
      .optional(),
    storage: z
      .enum(['local', 'stored', 'remote'])
      .optional()
      .describe(
        'with shared=true, where hosts share images. local: not in the snapshot store. stored: on a host and there. ' +
          'remote: only there; a create or a pull fetches it',
      ),
    warnings,
  })
  .describe('a converted image');

/** One line of the response to a pull or import whose client accepts JSON lines. */
export const imageProgress = z
  .union([
    z.object({
      progress: word('human-readable description of the current step'),
      layer: word('layer of the step, as a digest prefix').optional(),
      host: word('at the gateway of a fleet: the host of the step').optional(),
      bytes: count(
        'compressed bytes downloaded so far, of the layer or, without layer, of all layers',
      ).optional(),
      total_bytes: count('total number of bytes to download').optional(),
    }),
    z.object({ image: image.describe('the image; the last line') }),
    z.object({
      error: word('why the operation failed; the last line'),
      code: errorCode,
      status: z.int().describe('HTTP status that a response without lines would have'),
    }),
  ])
  .describe('one line: progress, the image, or the error');

export const imageList = z
  .object({
    images: z.array(image).describe('oldest first'),
    next_cursor: nextCursor,
    unreachable_hosts: unreachableHosts,
    store_error: word(
      'with shared=true: why the snapshot store could not be asked; images that are only there may be missing',
    ).optional(),
  })
  .describe('the converted images');
