// Files of Debian packages for test images, without installing them, because some would replace files of the host.
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { BAKED_DATA_DIR } from './daemon.ts';

const DIR = join(BAKED_DATA_DIR, 'test/packages');

/** A package's files as a tar archive; downloaded on first use. */
export function filesOfPackage(name: string): Buffer {
  const path = find(name) ?? download(name);
  return execFileSync('dpkg-deb', ['--fsys-tarfile', path], { maxBuffer: 1 << 28 });
}

function find(name: string): string | undefined {
  mkdirSync(DIR, { recursive: true });
  const found = readdirSync(DIR).find((file) => file.startsWith(`${name}_`));
  return found === undefined ? undefined : join(DIR, found);
}

function download(name: string): string {
  const dir = mkdtempSync(join(DIR, '.work-'));
  try {
    chmodSync(dir, 0o755);
    const apt = (...words: readonly string[]) =>
      execFileSync('apt-get', ['-q', '-o', 'APT::Sandbox::User=root', ...words], { cwd: dir, stdio: 'pipe' });
    try {
      apt('download', name);
    } catch {
      // The archive may have replaced it since the lists were fetched.
      apt('update');
      apt('download', name);
    }
    const [file = ''] = readdirSync(dir);
    renameSync(join(dir, file), join(DIR, file));
    return join(DIR, file);
  } finally {
    rmSync(dir, { recursive: true });
  }
}
