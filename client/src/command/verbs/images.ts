// `sandbox images`, `pull` and `rmi`.
import type { Client } from '../../client.ts';
import type { ImageInfo } from '../../contract.ts';
import { PullView } from '../pull-view.ts';
import { formatBytes } from '../terminal.ts';
import type { Session, Verb } from '../verb.ts';

export const images: Verb = {
  name: 'images',
  operands: '',
  summary: 'List images and profiles',
  flags: {
    quiet: { type: 'boolean', short: 'q', help: 'print names only' },
    label: {
      type: 'string',
      short: 'l',
      multiple: true,
      placeholder: 'key=value',
      help: 'only images with this label, or with the key alone; no profiles',
    },
    shared: {
      type: 'boolean',
      help: 'also images that only the snapshot store of the fleet has, and where each is',
    },
  },
  example: 'sandbox images',
  async run(input, { client, terminal, signal, isJson }) {
    const labels = input.texts('label');
    const isShared = input.isSet('shared');
    const all = await client.profiles({ signal });
    const { profiles, details = {} } = labels.length > 0 ? { profiles: [] } : all;
    const found = await client.images
      .list({ labels, isShared, signal })
      .catch((error: { status?: number }) => {
        if (error.status === 501) return [];
        throw error;
      });
    if (isJson) terminal.printJson({ profiles, images: found });
    else if (input.isSet('quiet'))
      for (const name of [...profiles, ...found.flatMap(({ refs, digest }) => refs ?? [digest])])
        terminal.print(name);
    else
      terminal.table(
        ['NAME', 'KIND', 'DIGEST', 'SIZE', ...(isShared ? ['STORAGE'] : [])],
        [
          ...profiles.map((name) => [
            name,
            'profile',
            short(details[name]?.digest),
            formatBytes(details[name]?.size_bytes ?? 0),
            ...(isShared ? ['local'] : []),
          ]),
          ...found.map(({ source_ref, digest, size_bytes = 0, storage = 'local' }) => [
            source_ref ?? short(digest),
            'image',
            short(digest),
            formatBytes(size_bytes),
            ...(isShared ? [storage] : []),
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
  example: 'sandbox pull nginx:alpine',
  async run({ operands: [ref = ''] }, { client, terminal, signal, isJson }) {
    const image = await pullVisibly(client, ref, 'always', { terminal, signal });
    if (isJson) terminal.printJson(image);
    else terminal.print(image.digest);
    return 0;
  },
};

/** Shows the progress while pulling, and clears it from a terminal afterwards. */
export async function pullVisibly(
  client: Client,
  ref: string,
  when: 'always' | 'missing',
  { terminal, signal }: Pick<Session, 'terminal' | 'signal'>,
): Promise<ImageInfo> {
  using view = new PullView(terminal.stderr);
  return await client.images.pull(ref, { pull: when, onProgress: view.update, signal });
}

export const rmi: Verb = {
  name: 'rmi',
  operands: '<image…>',
  completes: ['image'],
  summary: 'Remove images',
  flags: {},
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
