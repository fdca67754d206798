// A browser: fetch and WebSocket, no file system.
import { BrowserTransport } from '../connection/browser-transport.ts';
import type { Platform } from '../connection/transport.ts';
import { SandboxdError } from '../errors.ts';

function noFiles(): never {
  throw new SandboxdError('a browser has no directories; give the files themselves');
}

export const platform: Platform = {
  name: 'browser',
  createTransport: (options) => new BrowserTransport(options),
  // A page is served by the daemon, or by a proxy before it: others it refuses by their origin.
  defaultHost: () =>
    (globalThis as unknown as { readonly location: { readonly origin: string } }).location.origin,
  defaultApiKey: () => undefined,
  packDirectory: noFiles,
  unpackDirectory: noFiles,
};
