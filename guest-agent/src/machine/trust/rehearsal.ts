// Adds an authority to a root file system of a few small files, before a guest is saved: its copies have what this
// compiles, and the image's own root certificates in memory. The image's files stay as they are.
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type Authority, prepareForAuthority } from './install.ts';

/** In memory, and no program's. */
const ROOT = '/run/sandbox/rehearsal';
const pem = (text: string) => `-----BEGIN CERTIFICATE-----\n${text}\n-----END CERTIFICATE-----\n`;
/** Not certificates, although the agent takes them for such. */
const [ROOTS, ...AUTHORITIES] = ['AAAA', 'BBBB', 'CCCC'].map(pem) as [string, ...string[]];
const FILES: Readonly<Record<string, string>> = {
  '/etc/ssl/certs/ca-certificates.crt': ROOTS,
  '/usr/local/share/none': '',
  '/run/sandbox/none': '',
};

/** `root`: of the image, for tests. */
export function rehearse(add: (authority: Authority, root: string) => void, root = ''): void {
  const scratch = join(root, ROOT);
  try {
    for (const [path, text] of Object.entries(FILES)) {
      mkdirSync(dirname(join(scratch, path)), { recursive: true });
      writeFileSync(join(scratch, path), text);
    }
    prepareForAuthority(scratch, { isOwn: true });
    // The second takes the place of the first.
    for (const certificate of AUTHORITIES) add({ certificate, subjectHash: '00000000' }, scratch);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
  prepareForAuthority(root);
}
