// Images with real programs: a registry of this machine, images made here, and the store that pulls them.
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { type Logger, pino } from 'pino';
import type { Test } from 'tap';
import { type ImageDepot, type Images, openImages } from '../../../../host-agent/src/images/index.ts';
import { type Faults, NO_FAULTS } from '../../../../host-agent/src/lib/faults.ts';
import type { Table } from '../../../../host-agent/src/store/store.ts';
import { Store } from '../../../../host-agent/src/store/store.ts';
import { HELPERS } from '../../../support/helper-programs.ts';
import { until } from '../../../support/until.ts';
import { archive, type Member } from '../../guest-agent/support/tar-blocks.ts';

export type MadeImage = {
  readonly layers: readonly (readonly Member[])[];
  readonly config?: Readonly<Record<string, unknown>> | null;
  /** What else the config says, beside `config`. */
  readonly about?: Readonly<Record<string, unknown>>;
  readonly platform?: { readonly os: string; readonly architecture: string };
  /** Of the layers; gzip unless it says otherwise. */
  readonly packing?: keyof typeof PACKINGS;
};

const PACKINGS = {
  gzip: { suffix: '+gzip', pack: (tar: Buffer) => gzipSync(tar, { level: 1 }) },
  zstd: { suffix: '+zstd', pack: (tar: Buffer) => zstdCompressSync(tar) },
  plain: { suffix: '', pack: (tar: Buffer) => tar },
};

/** An OCI layout with one image of the name `ref`; gives the directory. */
export function makeLayout(dir: string, { layers, ...image }: MadeImage, ref?: string): string {
  return makeLayoutOf(dir, { ...image, layers: layers.map((members) => archive(members)) }, ref);
}

/** The same of archives, which are taken one after the other. */
export function makeLayoutOf(
  dir: string,
  {
    layers: tars,
    config = {},
    platform,
    about = {},
    packing = 'gzip',
  }: Omit<MadeImage, 'layers'> & { readonly layers: Iterable<Buffer> },
  ref = 'latest',
): string {
  const blobs = join(dir, 'blobs/sha256');
  mkdirSync(blobs, { recursive: true });
  const put = (bytes: Buffer, mediaType: string) => {
    const hex = createHash('sha256').update(bytes).digest('hex');
    writeFileSync(join(blobs, hex), bytes);
    return {
      mediaType: `application/vnd.oci.image.${mediaType}`,
      digest: `sha256:${hex}`,
      size: bytes.length,
    };
  };
  const diffIds: string[] = [];
  const layers: ReturnType<typeof put>[] = [];
  for (const tar of tars) {
    diffIds.push(`sha256:${createHash('sha256').update(tar).digest('hex')}`);
    const { suffix, pack } = PACKINGS[packing];
    layers.push(put(pack(tar), `layer.v1.tar${suffix}`));
  }
  const all = {
    ...(platform ?? { os: 'linux', architecture: 'amd64' }),
    config,
    rootfs: { type: 'layers', diff_ids: diffIds },
    ...about,
  };
  const manifest = {
    schemaVersion: 2,
    mediaType: 'application/vnd.oci.image.manifest.v1+json',
    config: put(Buffer.from(JSON.stringify(all)), 'config.v1+json'),
    layers,
  };
  const described = put(Buffer.from(JSON.stringify(manifest)), 'manifest.v1+json');
  const annotations = { 'org.opencontainers.image.ref.name': ref };
  const index = { schemaVersion: 2, manifests: [{ ...described, annotations }] };
  writeFileSync(join(dir, 'index.json'), JSON.stringify(index));
  writeFileSync(join(dir, 'oci-layout'), '{"imageLayoutVersion":"1.0.0"}');
  return dir;
}

export class World {
  readonly dir = mkdtempSync(join(tmpdir(), 'images-'));
  readonly #children: ChildProcess[] = [];
  #count = 0;

  constructor(t: Pick<Test, 'teardown'>) {
    t.teardown(() => this.#end());
  }

  path(name: string): string {
    return join(this.dir, `${this.#count++}-${name}`);
  }

  /** A registry; gives its authority, `<address>:<port>`. `address`: another than loopback's; `passwords`: a file of them. */
  async startRegistry(
    options: {
      readonly tls?: { cert: string; key: string };
      readonly passwords?: string;
      readonly address?: string;
    } = {},
  ) {
    const port = await freePort();
    const { tls, passwords, address = '127.0.0.1' } = options;
    const settings = {
      version: 0.1,
      log: { level: 'error' },
      storage: { filesystem: { rootdirectory: this.path('registry') } },
      http: {
        addr: `${address}:${port}`,
        ...(tls && { tls: { certificate: tls.cert, key: tls.key } }),
      },
      ...(passwords && { auth: { htpasswd: { realm: 'test', path: passwords } } }),
    };
    const path = this.path('registry.json');
    writeFileSync(path, JSON.stringify(settings));
    const child = spawn('docker-registry', ['serve', path], { stdio: 'ignore' });
    // Teardowns come when nothing keeps the process alive.
    child.unref();
    this.#children.push(child);
    await until(() => {
      const { status } = spawnSync('bash', ['-c', `: < /dev/tcp/${address}/${port}`], { stdio: 'ignore' });
      return status === 0;
    }, 'the registry answers');
    return `${address}:${port}`;
  }

  /** Makes an image and puts it there under that whole name. */
  push(name: string, image: MadeImage, args: readonly string[] = []): void {
    const layout = makeLayout(this.path('layout'), image);
    skopeo('copy', '--dest-tls-verify=false', ...args, `oci:${layout}:latest`, `docker://${name}`);
  }

  /** A store; one of the same directory finds what an earlier one kept. */
  async openImages(
    dataDir: string,
    {
      faults = NO_FAULTS,
      maxBytes = 0,
      allowedDirs = [],
      runtime = HELPERS.runtime,
      depot,
      sharedMaxBytes = 0,
      sharedRetryMs,
      log = pino({ level: 'silent' }),
      ...limits
    }: {
      faults?: Faults;
      maxBytes?: number;
      allowedDirs?: readonly string[];
      maxBlobBytes?: number;
      pullIdleMs?: number;
      pullPauseMs?: number;
      sharedIdleMs?: number;
      /** Of the converter. */
      runtime?: string;
      depot?: ImageDepot;
      sharedMaxBytes?: number;
      sharedRetryMs?: number;
      log?: Logger;
    } = {},
  ) {
    mkdirSync(dataDir, { recursive: true });
    const store = await Store.open(join(dataDir, 'state.lmdb'));
    const images = await openImages({
      dataDir,
      records: store.table('images') as Table<never>,
      converter: { runtime, script: HELPERS.converter },
      maxBytes,
      allowedDirs,
      sharing: depot && {
        depot,
        withdrawals: store.table('image_withdrawals') as Table<never>,
        maxBytes: sharedMaxBytes,
        ...(sharedRetryMs !== undefined && { retryMs: sharedRetryMs }),
      },
      ...limits,
      faults,
      log,
    });
    return Object.assign(images, {
      close: async () => {
        await images.stop();
        await store.close();
      },
    });
  }

  #end(): void {
    for (const child of this.#children) child.kill('SIGKILL');
    rmSync(this.dir, { recursive: true, force: true });
  }
}

export function skopeo(...args: readonly string[]): void {
  execFileSync('skopeo', args, { stdio: 'pipe' });
}

/** What lies in a data directory's store: names of blobs, root filesystems, and work that is not at its end. */
export function stored(dataDir: string): { blobs: number; rootfs: number; work: number } {
  const names = (path: string) => readdirSync(join(dataDir, 'images', path));
  return {
    blobs: names('oci/blobs/sha256').length,
    rootfs: names('rootfs').length,
    work: names('oci').filter((name) => name.startsWith('work-')).length,
  };
}

export type OpenedImages = Images & { close(): Promise<void> };

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer();
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0));
    });
  });
}
