// Images, lists of them, and what is no image beside them, made by hand.
import { createHash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { gzipSync } from 'node:zlib';
import { archive } from '../../guest-agent/support/tar-blocks.ts';

export const MANIFEST = 'application/vnd.oci.image.manifest.v1+json';
const INDEX = 'application/vnd.oci.image.index.v1+json';
/** Of all that is made here, by digest. */
export const blobs = new Map<string, Buffer>();
export const put = (bytes: string | Buffer, mediaType: string) => {
  const digest = `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
  blobs.set(digest, Buffer.from(bytes));
  return { mediaType, digest, size: Buffer.from(bytes).length };
};
export type Descriptor = ReturnType<typeof put> & {
  readonly platform?: object;
  readonly annotations?: object;
};

/** An image with one file of that name; `about` is the rest of its config. */
export function image(file: string, about: Readonly<Record<string, unknown>> = {}): Descriptor {
  const tar = archive([{ name: file, content: file }]);
  const diff = put(tar, '').digest;
  const config = {
    os: 'linux',
    architecture: 'amd64',
    rootfs: { type: 'layers', diff_ids: [diff] },
    ...about,
  };
  return manifest({
    config: put(JSON.stringify(config), 'application/vnd.oci.image.config.v1+json'),
    layers: [put(gzipSync(tar), 'application/vnd.oci.image.layer.v1.tar+gzip')],
  });
}
export const manifest = (more: object): Descriptor =>
  put(JSON.stringify({ schemaVersion: 2, mediaType: MANIFEST, ...more }), MANIFEST);
export const index = (manifests: readonly Descriptor[]): Descriptor =>
  put(JSON.stringify({ schemaVersion: 2, mediaType: INDEX, manifests }), INDEX);
export const on = (architecture: string, variant?: string, os = 'linux') => ({
  platform: { os, architecture, ...(variant && { variant }) },
});
export const named = (name: string) => ({ annotations: { 'org.opencontainers.image.ref.name': name } });

/** A layout with all blobs, that lists these; gives the directory. */
export function writeLayout(dir: string, list: readonly Descriptor[]): string {
  mkdirSync(`${dir}/blobs/sha256`, { recursive: true });
  for (const [digest, bytes] of blobs) writeFileSync(`${dir}/blobs/sha256/${digest.slice(7)}`, bytes);
  writeFileSync(`${dir}/oci-layout`, '{"imageLayoutVersion":"1.0.0"}');
  writeFileSync(`${dir}/index.json`, JSON.stringify({ schemaVersion: 2, mediaType: INDEX, manifests: list }));
  return dir;
}
