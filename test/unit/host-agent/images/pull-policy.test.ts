// Whom a create pulls or converts an image for: who has the operation images, or a key that is older than it.

import { join } from 'node:path';
import type { Operation } from '@sandboxd/api';
import t from 'tap';
import { RootfsFinder } from '../../../../host-agent/src/images/index.ts';
import type { Principal } from '../../../../host-agent/src/keys/index.ts';
import { OPERATOR } from '../../../../host-agent/src/keys/index.ts';
import { resolveRootfs, validateCreate } from '../../../../host-agent/src/sandboxes/resolve-create.ts';
import type { CreateSandboxOptions } from '../../../../host-agent/src/sandboxes/types.ts';
import { NO_PRESETS } from '../../../support/no-presets.ts';
import { scaled } from '../../../support/time-scale.ts';
import { type MadeImage, makeLayout, World } from './world.ts';

t.setTimeout(scaled(300_000));
const world = new World(t);
const registry = await world.startRegistry();
const of = (name: string): MadeImage => ({ layers: [[{ name, content: name }]] });
const APP = `${registry}/app:latest`;

const principal = (operations: Operation[], more: Partial<Principal> = {}): Principal => ({
  id: 'i',
  kind: 'key',
  key: 'k',
  policy: { operations },
  ...more,
});
const FORBIDDEN = {
  code: 'forbidden',
  message: /operation images is not among create/,
};

t.test('a create brings no image for who may only create', async (t) => {
  world.push(APP, of('first'));
  const dir = world.path('allowed');
  const layout = makeLayout(join(dir, 'layout'), of('path'));
  const images = await world.openImages(world.path('data'), { allowedDirs: [dir] });
  const roots = new RootfsFinder({
    images,
    agentPath: async () => '/agent',
    profiles: {
      obtain: () => Promise.reject(new Error('no profile')),
      get: () => Promise.reject(new Error('no profile')),
      isToBeBaked: async () => false,
    },
  });
  const around = {
    roots,
    presets: NO_PRESETS,
    defaults: { profile: 'base', vcpus: 1, memoryMib: 512, diskBytes: 2 ** 30 },
    limits: { vcpus: 4, memoryMib: 4096, diskBytes: 2 ** 30, sandboxes: 9, fork: 9 },
  };
  const { signal } = new AbortController();
  const create = async (who: Principal | undefined, options: CreateSandboxOptions): Promise<string> => {
    const early = await validateCreate(options, around, signal);
    return (await resolveRootfs(early, options, around, { signal }, who ?? OPERATOR)).rootfs.digest;
  };
  const app = (pull?: CreateSandboxOptions['pull']): CreateSandboxOptions => ({
    rootfs: { kind: 'image', name: APP },
    ...(pull && { pull }),
  });
  const path: CreateSandboxOptions = { rootfs: { kind: 'image', name: layout, isPath: true } };
  const creator = principal(['create']);

  await t.rejects(create(creator, app()), FORBIDDEN);
  await t.rejects(create(creator, app('always')), FORBIDDEN);
  await t.rejects(create(creator, app('never')), { code: 'not_found' });
  await t.rejects(create(creator, path), FORBIDDEN, 'an archive may have the name of another image');
  t.same(images.list(), [], 'nothing was made');

  const first = await create(principal(['create', 'images']), app());
  t.equal(await create(creator, app()), first, 'what is here is everybody’s');
  t.equal(await create(creator, app('never')), first);
  world.push(APP, of('second'));
  await t.rejects(create(creator, app('always')), FORBIDDEN, 'nor is a name made to lead to another image');
  t.equal(await create(creator, app()), first);
  await create(undefined, path);
  await t.resolves(create(creator, path));
  await images.close();
});
