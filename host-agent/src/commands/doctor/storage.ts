// Checks the data directory's disk: filesystem type, reflinks, free space.
import { constants } from 'node:fs';
import { copyFile, mkdtemp, rm, stat, statfs, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Config } from '../../config/index.ts';
import { errnoOf, toError } from '../../lib/errors.ts';
import { fileSystemName } from '../../lib/file-systems.ts';
import { holdDirectory } from '../../lib/held-path.ts';
import { judgeDirectory } from '../../lib/private-directory.ts';
import { SEAL_KEY_NAME, Sealer } from '../../lib/seal.ts';
import { type Finding, fault, type Group, ok, warning } from './host.ts';

const GIB = 2 ** 30;
const MIN_FREE_BYTES = 2 * GIB;
const RECOMMENDED_FREE_BYTES = 20 * GIB;
const RECOMMENDED_FREE_SHARE = 0.1;
const UNFIT: Readonly<Record<string, string>> = {
  tmpfs: 'what is on it is memory, and gone with the next boot',
  overlay: 'it is a container’s own layer, which goes with it',
  NFS: 'saved guests are mapped from it, and would hang with its server',
};
const FREE_SPACE_ADVICE =
  'delete unused snapshots and images, `sandboxd profiles prune`, lower template_disk_bytes and image_disk_bytes, or give it a larger disk';

export const storage: Group = {
  name: 'storage',
  check: async ({ config }) => {
    const dir = await nearest(config.dataDir);
    return [
      await checkOwner('data directory', config.dataDir, 'data_dir'),
      await checkOwner('run directory', config.runDir, 'run_dir'),
      await checkKind(dir),
      await checkReflinks(dir),
      await checkFreeSpace(dir),
      checkSealKey(config),
    ];
  },
};

/** It makes none. A credential of systemd is known to the daemon alone. */
function checkSealKey({ dataDir, secrets: { keyFile } }: Config): Finding {
  const name = 'key of secrets';
  if (keyFile === undefined)
    return ok(
      name,
      `a credential of systemd named ${SEAL_KEY_NAME}, or ${join(dataDir, SEAL_KEY_NAME)}: that one protects copies of the registry alone`,
    );
  try {
    const sealer = new Sealer({ dataDir, keyFile });
    const { source } = sealer;
    sealer.close();
    return ok(name, `${keyFile} (${source})`);
  } catch (error) {
    return fault(name, toError(error).message, 'restore the file: without it, stored secrets are lost');
  }
}

/** The directory itself, or its nearest existing parent. */
async function nearest(dir: string): Promise<string> {
  const found = await stat(dir).catch(() => undefined);
  return found?.isDirectory() || dir === '/' ? dir : nearest(dirname(dir));
}

async function checkOwner(name: string, dir: string, setting: string): Promise<Finding> {
  const advice = `have ${setting} name one that is the daemon's own, or if this is: chown root:root ${dir}; chmod 700 ${dir}; and make its parents writable by root only`;
  try {
    const verdict = await judgeDirectory(dir, 0);
    if (verdict.kind === 'private') return ok(name, `${dir} is root's alone`);
    return verdict.kind === 'refused'
      ? fault(name, `${dir} ${verdict.what}: the daemon does not take it`, advice)
      : warning(name, `others can enter ${dir}: the daemon closes it`, `chmod 700 ${dir}`);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return checkPlace(name, dir, advice);
    const reason = errnoOf(error) ?? toError(error).message;
    return fault(name, `${dir} can be neither examined nor created: ${reason}`, advice);
  }
}

/** Checks a directory that does not exist yet. */
async function checkPlace(name: string, dir: string, advice: string): Promise<Finding> {
  await using place = await holdDirectory(await nearest(dir));
  return place.exposure === undefined
    ? ok(name, `${dir} is not there yet`)
    : fault(
        name,
        `${dir} is not there yet, and would lie in ${place.exposure}: the daemon does not take it`,
        advice,
      );
}

async function checkKind(dir: string): Promise<Finding> {
  const { type } = await statfs(dir);
  const name = fileSystemName(type);
  const problem = UNFIT[name];
  return problem === undefined
    ? ok('file system', `${name} at ${dir}`)
    : warning(
        'file system',
        `${name} at ${dir}: ${problem}`,
        'put the data directory on a disk with XFS, Btrfs or ext4 (data_dir)',
      );
}

/** Makes a reflink copy in the directory. */
async function checkReflinks(dir: string): Promise<Finding> {
  await using held = await holdDirectory(dir).catch(() => undefined);
  if (held === undefined || held.exposure !== undefined)
    return warning('reflinks', `not tried: others can change what is in ${dir}`, 'choose another data_dir');
  let scratch: string;
  try {
    scratch = await mkdtemp(join(dir, '.doctor-'));
  } catch (error) {
    const isFull = ['ENOSPC', 'EDQUOT'].includes(errnoOf(error) ?? '');
    return fault(
      'reflinks',
      `nothing can be written to ${dir}: ${errnoOf(error)}`,
      isFull ? FREE_SPACE_ADVICE : 'run this as root, and mount the disk writable',
    );
  }
  try {
    await writeFile(join(scratch, 'from'), Buffer.alloc(65_536, 1));
    await copyFile(join(scratch, 'from'), join(scratch, 'to'), constants.COPYFILE_FICLONE_FORCE);
    return ok('reflinks', 'copies share what they have in common');
  } catch {
    return warning(
      'reflinks',
      'none: each create and fork copies what its source has written',
      'XFS (made with reflink=1, the default) or Btrfs has them; with ext4 all works, only larger and slower',
    );
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

async function checkFreeSpace(dir: string): Promise<Finding> {
  const { bavail, blocks, bsize, ffree, files } = await statfs(dir);
  const freeBytes = bavail * bsize;
  const share = blocks > 0 ? bavail / blocks : 0;
  const seen = `${(freeBytes / GIB).toFixed(1)} GiB free, ${(share * 100).toFixed(0)} %${files > 0 ? `, and ${ffree} inodes` : ''}`;
  if (freeBytes < MIN_FREE_BYTES || (files > 0 && ffree < 1000))
    return fault('room', seen, FREE_SPACE_ADVICE);
  return freeBytes < RECOMMENDED_FREE_BYTES || share < RECOMMENDED_FREE_SHARE
    ? warning('room', seen, FREE_SPACE_ADVICE)
    : ok('room', seen);
}
