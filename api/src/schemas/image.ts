// Container images: what to pull, what is there, and what a create boots from.
import { z } from 'zod';
import { choice, optionalText, rule, text } from '../input/fields.ts';
import { count, unixMs, word } from './answers.ts';

const PULL = ['missing', 'always', 'never'] as const;

export const pull = choice(
  PULL,
  'missing',
  'when the image is pulled: if it is missing here, always, or never (then a missing one is 404)',
);

const imageFields = z.object(
  {
    oci: optionalText(
      text('must be an image reference'),
      'reference as Docker writes it, or digest or digest prefix of a converted image',
    ),
    path: optionalText(
      text('must be an absolute path', /^(?:\/|$)/),
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
      ref: text('must be an image reference such as nginx:alpine')
        .min(1, {
          error: 'must be an image reference such as nginx:alpine',
        })
        .describe('reference as Docker writes it'),
      pull: choice(PULL, 'always', 'always, or missing: only if it is not here'),
    },
    { error: 'must be a JSON object' },
  )
  .describe('an image to pull and convert');

export const imagePath = z.object({
  ref: z
    .string()
    .min(1)
    .describe('image reference in any spelling that names it, digest, or unambiguous digest prefix'),
});

export const importQuery = z.object({
  tag: z
    .string()
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
    entries: count('files, directories and links in it').optional(),
    convert_mode: word('how it was converted'),
    converted_at_unix_ms: unixMs('when it was converted'),
  })
  .describe('a converted image');

export const imageList = z
  .object({ images: z.array(image).describe('oldest first') })
  .describe('the converted images');
