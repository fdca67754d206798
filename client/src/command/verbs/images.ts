// `sandbox images`, `pull` and `rmi`.
import { formatBytes } from '../terminal.ts';
import type { Verb } from '../verb.ts';

export const images: Verb = {
  name: 'images',
  operands: '',
  summary: 'List the images and profiles to boot from',
  flags: {},
  count: [0, 0],
  example: 'sandbox images',
  async run(_, { client, terminal, signal, isJson }) {
    const { profiles, details = {} } = await client.profiles({ signal });
    const found = await client.images.list({ signal }).catch((error: { status?: number }) => {
      if (error.status === 501) return [];
      throw error;
    });
    if (isJson) terminal.printJson({ profiles, images: found });
    else
      terminal.table(
        ['NAME', 'KIND', 'DIGEST', 'SIZE'],
        [
          ...profiles.map((name) => [
            name,
            'profile',
            short(details[name]?.digest),
            formatBytes(details[name]?.size_bytes ?? 0),
          ]),
          ...found.map(({ source_ref, digest, size_bytes = 0 }) => [
            source_ref ?? short(digest),
            'image',
            short(digest),
            formatBytes(size_bytes),
          ]),
        ],
      );
    return 0;
  },
};

export const pull: Verb = {
  name: 'pull',
  operands: '<image>',
  summary: 'Pull an image from its registry and convert it',
  flags: {},
  count: [1, 1],
  example: 'sandbox pull nginx:alpine',
  async run({ operands: [ref = ''] }, { client, terminal, signal, isJson }) {
    using progress = terminal.progress(`pulling ${ref}`);
    const image = await client.images.pull(ref, { signal });
    progress[Symbol.dispose]();
    if (isJson) terminal.printJson(image);
    else terminal.print(image.digest);
    return 0;
  },
};

export const rmi: Verb = {
  name: 'rmi',
  operands: '<image…>',
  completes: ['image'],
  summary: 'Remove images',
  flags: {},
  count: [1, Number.POSITIVE_INFINITY],
  example: 'sandbox rmi nginx:alpine',
  async run({ operands }, { client, terminal, signal, isJson }) {
    for (const ref of operands) {
      await client.images.delete(ref, { signal });
      if (!isJson) terminal.print(ref);
    }
    if (isJson) terminal.printJson({ removed: operands.length });
    return 0;
  },
};

function short(digest = ''): string {
  return digest.replace(/^sha256:/, '').slice(0, 12);
}
