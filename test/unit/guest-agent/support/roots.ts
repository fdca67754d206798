// Root file systems of images, and authorities that a guest is to trust.
import { execFileSync } from 'node:child_process';
import { lstatSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Test } from 'tap';
import { makeAuthority, subjectHash } from '../../../../host-agent/src/network/authority/index.ts';

/** Where Debian has its bundle. */
export const DEBIAN = 'etc/ssl/certs/ca-certificates.crt';

export const toTrust = async (id: string) => {
  const { certificate } = await makeAuthority(id);
  return { certificate, subjectHash: subjectHash(certificate) };
};

/** A root file system with these files. */
export const makeRoot = (t: Test, files: Readonly<Record<string, string>>): string => {
  const root = mkdtempSync(join(tmpdir(), 'trust-test-'));
  mkdirSync(join(root, 'run/sandbox'), { recursive: true });
  t.teardown(() => rmSync(root, { recursive: true }));
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  return root;
};

/** A root of a writable layer of its own above one that is not written. */
export const mountLayer = (t: Test, base: string, sizeKib = 16_384) => {
  const disk = mkdtempSync(join(tmpdir(), 'trust-layer-'));
  const [upper, work, root] = ['upper', 'work', 'root'].map((name) => join(disk, name)) as [
    string,
    string,
    string,
  ];
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${sizeKib}k`, 'none', disk]);
  for (const path of [upper, work, root]) mkdirSync(path);
  const options = `lowerdir=${base},upperdir=${upper},workdir=${work}`;
  execFileSync('mount', ['-t', 'overlay', '-o', options, 'none', root]);
  t.teardown(() => {
    for (const path of [root, disk]) execFileSync('umount', [path]);
    rmSync(disk, { recursive: true });
  });
  return { disk, root, upper };
};

/** Every file with what shows a change. */
export const stateOf = (root: string) =>
  (readdirSync(root, { recursive: true }) as string[]).sort().map((path) => {
    const { ino, mtimeMs, size, mode } = lstatSync(join(root, path));
    return [path, ino, mtimeMs, size, mode];
  });
