// Tools for sandboxes as wholes.
import { z } from 'zod';
import type { SandboxInfo } from '../../contract.ts';
import { json, listed, text, toCut, tool, withoutUndefined } from '../tool.ts';

const MAX_REASON_CHARS = 500;

export const sandboxWord = z.string().min(1).max(100).describe('id or name of the sandbox');

/** What a model needs of a sandbox. */
export function describe(info: SandboxInfo) {
  const { id, name, state, reason, profile, image, labels, memory_mib, vcpus, created_at, expires_at } = info;
  return {
    id,
    ...(name !== undefined && { name }),
    state,
    ...(reason && { reason: toCut(reason.message, MAX_REASON_CHARS) }),
    ...(profile !== undefined && { profile }),
    ...(image && { image: image.reference }),
    ...(Object.keys(labels).length > 0 && { labels }),
    memory_mib,
    vcpus,
    created_at,
    ...(expires_at !== undefined && { expires_at }),
  };
}

export const createSandbox = tool({
  name: 'create_sandbox',
  description:
    'Create a sandbox: a virtual machine with Linux, in which commands run as root and can harm nothing else. It has ' +
    'no network, unless hosts are named. Returns its id.',
  effect: 'writes',
  input: z.strictObject({
    profile: z
      .string()
      .max(200)
      .optional()
      .describe('what it contains, see list_sandboxes; default: the first'),
    image: z.string().max(500).optional().describe('container image instead of a profile, such as debian:12'),
    name: z.string().max(63).optional().describe('name: small letters, digits and hyphens'),
    env: z.record(z.string(), z.string()).optional().describe('environment variables of all commands'),
    memory_mib: z.number().int().min(1).optional(),
    vcpus: z.number().int().min(1).optional(),
    hosts: z
      .array(z.string().max(253))
      .max(100)
      .optional()
      .describe('hosts that it may reach, such as pypi.org'),
    lifetime_s: z.number().int().min(1).optional().describe('seconds after which it is deleted'),
  }),
  async run({ lifetime_s: lifetimeS, ...input }, { scope, signal }) {
    return json(describe(await scope.create(withoutUndefined({ ...input, lifetimeS }), { signal })));
  },
});

export const listSandboxes = tool({
  name: 'list_sandboxes',
  description: 'List the sandboxes, and the profiles from which new ones can be created.',
  effect: 'reads',
  input: z.strictObject({}),
  async run(_, { scope, signal }) {
    const [sandboxes, all] = await Promise.all([
      scope.sandboxes({ signal }),
      scope.client.profiles({ signal }),
    ]);
    const { profiles, images } = scope.bounds;
    const isOpen = profiles.length + images.length === 0;
    return json({
      ...listed('sandboxes', sandboxes.map(describe)),
      profiles: isOpen ? all.profiles : profiles,
      ...(!isOpen && { images }),
      hosts: scope.bounds.hosts,
    });
  },
});

export const pauseSandbox = tool({
  name: 'pause_sandbox',
  description:
    'Pause a sandbox: it keeps its files, memory and programs, and costs nothing meanwhile. The next call resumes it.',
  effect: 'writes',
  input: z.strictObject({ sandbox: sandboxWord }),
  async run({ sandbox }, { scope, signal }) {
    return json(describe(await (await scope.sandbox(sandbox, { signal })).pause({ signal })));
  },
});

export const deleteSandbox = tool({
  name: 'delete_sandbox',
  description: 'Delete a sandbox with its files and programs. Its snapshots stay.',
  effect: 'deletes',
  input: z.strictObject({ sandbox: sandboxWord }),
  async run({ sandbox }, { scope, signal }) {
    const found = await scope.sandbox(sandbox, { signal });
    await found.delete({ signal });
    return text(`deleted ${found.id}`);
  },
});

export const forkSandbox = tool({
  name: 'fork_sandbox',
  description:
    'Copy a running sandbox, or a snapshot, with its files, memory and programs, to try something without risk.',
  effect: 'writes',
  input: z.strictObject({
    sandbox: sandboxWord.optional(),
    snapshot: z
      .string()
      .min(1)
      .max(100)
      .optional()
      .describe('id or name of a snapshot, instead of a sandbox'),
    count: z.number().int().min(1).max(16).default(1),
    name: z.string().max(63).optional().describe('name of the only copy'),
  }),
  async run({ sandbox, snapshot, ...options }, { scope, signal }) {
    if ((sandbox === undefined) === (snapshot === undefined))
      return { ...text('name a sandbox or a snapshot'), isError: true };
    const source =
      sandbox !== undefined
        ? await scope.sandbox(sandbox, { signal })
        : await scope.snapshot(snapshot ?? '', { signal });
    const forks = await scope.fork(source, withoutUndefined(options), { signal });
    return json({ sandboxes: forks.map(describe) });
  },
});
