// What `sandboxd upgrade --check` says about data directories of other versions, and that it changes nothing in them.
import { mkdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { open } from 'lmdb';
import t, { type Test } from 'tap';
import { realHost } from '../../../../../host-agent/src/commands/doctor/host.ts';
import { data } from '../../../../../host-agent/src/commands/upgrade/index.ts';
import type { Config } from '../../../../../host-agent/src/config/index.ts';
import { SCHEMA_VERSION, Store } from '../../../../../host-agent/src/store/store.ts';
import { KERNEL_FORMAT, ROOTFS_FORMAT } from '../../../../../rootfs-builder/src/index.ts';

const DIGEST = 'ab'.repeat(32);

class Place {
  readonly dir: string;

  constructor(t: Test) {
    this.dir = t.testdir({});
  }

  write(path: string, value: unknown): void {
    const whole = join(this.dir, path);
    mkdirSync(join(whole, '..'), { recursive: true });
    writeFileSync(whole, typeof value === 'string' ? value : JSON.stringify(value));
  }

  async registry(version?: number): Promise<string> {
    const path = join(this.dir, 'state.lmdb');
    await (await Store.open(path)).close();
    if (version === undefined) return path;
    const root = open({ path, noSubdir: true, maxDbs: 32 });
    await root.openDB<number, string>({ name: 'meta' }).put('schema_version', version);
    await root.close();
    return path;
  }

  async check() {
    const found = await data.check(realHost({ dataDir: this.dir } as Config));
    return new Map(found.map((finding) => [finding.name, finding]));
  }
}

t.test('a directory of this build needs nothing', async (t) => {
  const place = new Place(t);
  const path = await place.registry();
  place.write('kernels/current', DIGEST);
  place.write(`kernels/${DIGEST.slice(0, 16)}/manifest.json`, {
    formatVersion: KERNEL_FORMAT,
    version: '6.1',
  });
  place.write('profiles/base/current', DIGEST);
  place.write(`profiles/base/${DIGEST.slice(0, 16)}/manifest.json`, { formatVersion: ROOTFS_FORMAT });
  place.write('engines/a.json', { savedAtMs: 1, name: 'memory', probe: { version: '1' } });
  const compatibility = { engine: 'memory', version: '1' };
  place.write('snapshots/snap_a/manifest.json', { formatVersion: 1, compatibility });
  place.write('sandboxes/sbx_a/paused/manifest.json', { formatVersion: 1, compatibility });
  place.write('sandboxes/sbx_b/layer.ext4', '');
  place.write('templates/a/manifest.json', {});
  const before = readFileSync(path);
  const found = await place.check();
  t.ok(before.equals(readFileSync(path)));
  for (const [name, { level }] of found) t.equal(level, 'ok', name);
  t.match(found.get('snapshots')?.seen, /^1, all can be read, 1 of an older format/);
  t.match(found.get('paused sandboxes')?.seen, /^1, /);
  t.match(found.get('registry')?.seen, `schema version ${SCHEMA_VERSION}`);
});

t.test('an empty or absent directory is a first installation', async (t) => {
  const place = new Place(t);
  t.ok([...(await place.check()).values()].every(({ level }) => level === 'ok'));
  rmSync(place.dir, { recursive: true });
  t.match([...(await place.check()).values()], [{ level: 'ok', seen: /first installation/ }]);
});

t.test('what an older version has written is made again, or refused', async (t) => {
  const place = new Place(t);
  const path = await place.registry(SCHEMA_VERSION - 1);
  const before = readFileSync(path);
  place.write('profiles/base/current', DIGEST);
  place.write(`profiles/base/${DIGEST.slice(0, 16)}/manifest.json`, { formatVersion: ROOTFS_FORMAT - 1 });
  place.write('kernels/current', DIGEST);
  place.write(`kernels/${DIGEST.slice(0, 16)}/manifest.json`, { formatVersion: KERNEL_FORMAT - 1 });
  const found = await place.check();
  t.match(found.get('registry'), { level: 'fault', advice: /never released/ });
  t.match(found.get('profiles'), { level: 'warning', seen: /base/, advice: /bake/ });
  t.match(found.get('guest kernel'), { level: 'warning', advice: /bake --refresh/ });
  t.ok(before.equals(readFileSync(path)), 'the check changes nothing');
});

t.test('what the daemon takes for damage is damage here, too', async (t) => {
  for (const version of [undefined, 0, 1.5, 'six']) {
    const place = new Place(t);
    const path = await place.registry();
    const root = open({ path, noSubdir: true, maxDbs: 32 });
    await root.openDB<object, string>({ name: 'rows', encoding: 'json' }).put('a', {});
    const meta = root.openDB<unknown, string>({ name: 'meta' });
    await (version === undefined ? meta.remove('schema_version') : meta.put('schema_version', version));
    await root.close();
    const found = (await place.check()).get('registry');
    t.match(
      found,
      { level: 'fault', seen: /schema version/, advice: 'restore it from a back-up' },
      String(version),
    );
    await t.rejects(Store.open(path), { message: /cannot be used: .*schema version/ });
  }
});

t.test('what a newer version has written is refused', async (t) => {
  const place = new Place(t);
  await place.registry(SCHEMA_VERSION + 1);
  place.write('snapshots/snap_a/manifest.json', { formatVersion: 99 });
  place.write('snapshots/snap_b/manifest.json', '{');
  place.write('kernels/current', DIGEST);
  place.write(`kernels/${DIGEST.slice(0, 16)}/manifest.json`, { formatVersion: KERNEL_FORMAT + 1 });
  const found = await place.check();
  for (const name of ['registry', 'guest kernel', 'snapshots'])
    t.match(found.get(name), { level: 'fault', advice: /newer version/ }, name);
  t.match(found.get('snapshots')?.seen, /snap_a, snap_b/);
});

t.test('saved guests of another engine are named', async (t) => {
  const place = new Place(t);
  place.write('engines/old.json', { savedAtMs: 1, name: 'memory', probe: { version: '1' } });
  place.write('engines/new.json', { savedAtMs: 2, name: 'memory', probe: { version: '2' } });
  for (let at = 0; at < 7; at++)
    place.write(`snapshots/snap_${at}/manifest.json`, {
      formatVersion: 2,
      compatibility: { engine: 'memory', version: '1' },
    });
  t.match((await place.check()).get('snapshots'), {
    level: 'warning',
    seen: /^7 of 7 need another engine than memory 2: snap_0, .*snap_4 and 2 more$/,
  });
});

t.test('a truncated registry is a fault, and stays as it is', async (t) => {
  const place = new Place(t);
  const path = await place.registry();
  truncateSync(path, 4096 * 2);
  const before = readFileSync(path);
  t.match((await place.check()).get('registry'), { level: 'fault', seen: /truncated/ });
  t.ok(before.equals(readFileSync(path)));
  writeFileSync(path, 'x'.repeat(9000));
  t.match((await place.check()).get('registry'), { level: 'fault' });
});
