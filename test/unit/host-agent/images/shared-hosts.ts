// Hosts that share images through a bucket.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Test } from 'tap';
import { startS3 } from '../../../support/s3/server.ts';
import { makeStoreSettings, openTestStore } from '../../../support/s3/store.ts';
import { scaled } from '../../../support/time-scale.ts';
import { makeLayout, skopeo, type World } from './world.ts';

export const SIGNAL = new AbortController().signal;
export const DAY_MS = 24 * 3_600_000;

export async function eventually<T>(find: () => Promise<T | undefined>, what: string): Promise<T> {
  for (const untilMs = performance.now() + scaled(30_000); ; await sleep(20)) {
    const found = await find();
    if (found !== undefined) return found;
    if (performance.now() > untilMs) throw new Error(`there is no ${what}`);
  }
}

export async function start(t: Test, world: World) {
  const s3 = await startS3(t);
  const settings = makeStoreSettings(t, s3.url);
  const { collector, store } = openTestStore(t, settings);
  type Limits = {
    sharedIdleMs?: number;
    sharedMaxBytes?: number;
    sharedRetryMs?: number;
    log?: Logger;
    allowedDirs?: readonly string[];
  };
  const open = async (limits: Limits = {}, dataDir = world.path('data')) => {
    const { store } = openTestStore(t, settings);
    const images = await world.openImages(dataDir, { depot: store.images, ...limits });
    t.teardown(() => images.close());
    return { images, dataDir };
  };
  /** What the bucket says of a name; a digest as hosts show it. */
  const lookUp = async (ref: string) => {
    const id = (await store.images.find(`${process.arch} ${ref}`, SIGNAL))?.id;
    return id && `sha256:${id}`;
  };
  const leads = (ref: string, digest: string | undefined) =>
    eventually(async () => ((await lookUp(ref)) === digest ? true : undefined), `${ref} for ${digest}`);
  const keys = (part: string) => [...s3.objects.keys()].filter((key) => key.includes(part));
  return { s3, settings, store, collector, open, lookUp, leads, keys };
}

export function archiveOf(world: World, content: string | Buffer, tag: string, ...more: readonly string[]) {
  const [layout, path] = [world.path('layout'), world.path('saved.tar')];
  makeLayout(layout, { layers: [[{ name: 'a', content }]], config: { Cmd: ['/a'], Env: ['A=b'] } });
  const tags = more.flatMap((each) => ['--additional-tag', each]);
  skopeo('copy', ...tags, `oci:${layout}:latest`, `docker-archive:${path}:${tag}`);
  return async function* () {
    yield readFileSync(path);
  };
}

/** A registry of this machine under a name that hosts share; gives where to push. */
export async function startNamedRegistry(t: Test, world: World, prefix: string): Promise<string> {
  const address = await world.startRegistry();
  const home = world.path('home');
  const settings = join(home, '.config/containers');
  mkdirSync(settings, { recursive: true });
  const registry = `[[registry]]\nprefix = "${prefix}"\nlocation = "${address}"\ninsecure = true\n`;
  writeFileSync(join(settings, 'registries.conf'), registry);
  const before = process.env.HOME;
  process.env.HOME = home;
  t.teardown(() => {
    process.env.HOME = before;
  });
  return address;
}
