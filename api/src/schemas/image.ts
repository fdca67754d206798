// Container images: what to pull, what is there, and what a create boots from.
import { z } from 'zod';
import { choice, optionalText, rule, text } from '../input/fields.ts';
import { MAX_HOST_PATH_CHARS, MAX_IMAGE_REF_CHARS } from '../limits.ts';
import { count, errorCode, unixMs, warnings, word } from './answers.ts';
import { nextCursor } from './page.ts';

const HOST =
  /(?:[a-zA-Z\d](?:[a-zA-Z\d-]*[a-zA-Z\d])?(?:\.[a-zA-Z\d](?:[a-zA-Z\d-]*[a-zA-Z\d])?)*|\[[\da-fA-F:]+\])(?::\d+)?/;
const COMPONENT = /[a-z\d]+(?:(?:[._]|__|-+)[a-z\d]+)*/;
const DIGEST = /[a-zA-Z][a-zA-Z\d]*(?:[-_+.][a-zA-Z][a-zA-Z\d]*)*:[\da-fA-F]{32,}/;
/** As Docker writes references; a digest, or the beginning of one, is of this form, too. */
const REFERENCE = `(?:${HOST.source}/)?${COMPONENT.source}(?:/${COMPONENT.source})*(?::\\w[\\w.-]{0,127})?(?:@${DIGEST.source})?`;
const REF_ERROR = 'must be an image reference such as nginx:alpine, or a digest';

const PULL = ['missing', 'always', 'never'] as const;

export const pull = choice(
  PULL,
  'missing',
  'when the image is pulled: if it is missing here, always, or never (then a missing one is 404)',
);

const reference = text(REF_ERROR, new RegExp(`^(?:${REFERENCE})?$`)).max(MAX_IMAGE_REF_CHARS, {
  error: REF_ERROR,
});

const imageFields = z.object(
  {
    oci: optionalText(
      reference,
      'reference as Docker writes it, or digest or digest prefix of a converted image',
    ),
    path: optionalText(
      text('must be an absolute path', /^(?:\/|$)/).max(MAX_HOST_PATH_CHARS, {
        error: `must be a path of at most ${MAX_HOST_PATH_CHARS} characters`,
      }),
      'root filesystem or image archive on the host of the daemon, beneath a directory that its operator allowed',
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
      // May be left out, as the documented interface names no field; where images are on, it is needed.
      ref: optionalText(reference, 'reference as Docker writes it'),
      pull: choice(PULL, 'always', 'always, or missing: only if it is not here'),
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
      description: 'image reference in any spelling that names it, digest, or unambiguous digest prefix',
    }),
});

export const importQuery = z.object({
  tag: z
    .string()
    .max(MAX_IMAGE_REF_CHARS, { error: `must have at most ${MAX_IMAGE_REF_CHARS} characters` })
    .optional()
    .transform((value) => value || undefined)
    .meta({ description: 'which image of an archive that holds several' }),
});

export const image = z
  .object({
    digest: word('what names the converted image'),
    source_ref: word('reference that it was pulled by').optional(),
    cmd: z.array(z.string()).optional().describe('default arguments'),
    entrypoint: z.array(z.string()).optional().describe('default program'),
    exposed_ports: z.array(z.string()).optional().describe('ports that it says it serves, such as 80/tcp'),
    content_bytes: count('bytes of its files').optional(),
    size_bytes: count('bytes of its root filesystem on disk').optional(),
    labels: z.record(z.string(), z.string()).optional().describe('labels of its maker'),
    labels_omitted: count('labels that are not shown, since all together have over 64 KiB').optional(),
    refs: z.array(z.string()).optional().describe('all references that lead to it'),
    entries: count('files, directories and links in it').optional(),
    convert_mode: word('how it was converted'),
    converted_at_unix_ms: unixMs('when it was converted'),
    warnings,
  })
  .describe('a converted image');

/** A line of the answer to a pull or import whose client asked for lines. */
export const imageProgress = z
  .union([
    z.object({
      progress: word('what is being done now, for people'),
      layer: word('the layer that this is about, by the beginning of its digest').optional(),
      bytes: count(
        'how much of the layer is here, or without a layer of all of them, compressed as it comes',
      ).optional(),
      total_bytes: count('how much there is of it').optional(),
    }),
    z.object({ image: image.describe('the image; the last line') }),
    z.object({
      error: word('why there is none; the last line'),
      code: errorCode,
      status: z.int().describe('the status that the answer would have had without lines'),
    }),
  ])
  .describe('a line: a step, or how it ended');

export const imageList = z
  .object({ images: z.array(image).describe('oldest first'), next_cursor: nextCursor })
  .describe('the converted images');
