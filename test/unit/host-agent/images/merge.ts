// Layers that tests write by hand, merged and shown.

import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { TarReader } from '@sandboxd/proto';
import {
  type Converted,
  type ConvertInput,
  convertLayers,
} from '../../../../host-agent/src/images/convert/convert.ts';
import { DEFAULT_CONVERT_LIMITS } from '../../../../host-agent/src/images/convert/limits.ts';
import { Merger } from '../../../../host-agent/src/images/convert/merger.ts';
import { DataWriter } from '../../../../host-agent/src/images/erofs/data.ts';
import type { DirectoryInode } from '../../../../host-agent/src/images/erofs/inode.ts';
import { archive, type Member } from '../../guest-agent/support/tar-blocks.ts';

export type Layer = readonly Member[] | Buffer;

/** The paths that the layers make, sorted, links with their targets; contents go to a file that is removed. */
export function merge(layers: readonly Layer[], limits = DEFAULT_CONVERT_LIMITS): string[] {
  return withDirectory((dir) => {
    const fd = openSync(join(dir, 'data'), 'w+');
    try {
      const merger = new Merger(new DataWriter(fd), limits);
      for (const layer of layers) {
        merger.nextLayer();
        const reader = new TarReader(merger, { hasAttributes: true });
        reader.push(Buffer.isBuffer(layer) ? layer : archive(layer));
        reader.end();
      }
      return list(merger.tree.root);
    } finally {
      closeSync(fd);
    }
  });
}

/** As a whole image in `imagePath`; layers are files as they would come from a registry. */
export async function convert(
  imagePath: string,
  layers: readonly (Layer | { readonly packed: Buffer; readonly diffId?: string })[],
  limits: ConvertInput['limits'] = DEFAULT_CONVERT_LIMITS,
): Promise<Converted> {
  const dir = mkdtempSync(join(tmpdir(), 'layers-'));
  const fds: number[] = [];
  const open = (path: string, flags: string): number => {
    const fd = openSync(path, flags);
    fds.push(fd);
    return fd;
  };
  try {
    const files = layers.map((layer, index) => {
      const path = join(dir, String(index));
      const isPacked = 'packed' in layer;
      writeFileSync(
        path,
        isPacked ? layer.packed : Buffer.isBuffer(layer) ? layer : archive(layer as Member[]),
      );
      return { fd: open(path, 'r'), ...(isPacked && layer.diffId !== undefined && { diffId: layer.diffId }) };
    });
    return await convertLayers({ layers: files, imageFd: open(imagePath, 'w+'), limits });
  } finally {
    for (const fd of fds) closeSync(fd);
    rmSync(dir, { recursive: true });
  }
}

function withDirectory<T>(use: (dir: string) => T): T {
  const dir = mkdtempSync(join(tmpdir(), 'merge-'));
  try {
    return use(dir);
  } finally {
    rmSync(dir, { recursive: true });
  }
}

function list(directory: DirectoryInode, path = ''): string[] {
  return [...directory.entries]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([name, { inode }]) => {
      const full = `${path}/${name}`;
      if (inode.type === 'directory') return [`${full}/`, ...list(inode, full)];
      if (inode.type === 'symlink') return [`${full} -> ${inode.target}`];
      return [inode.type === 'file' ? `${full} ${inode.sizeBytes}` : `${full} ${inode.type}`];
    });
}
