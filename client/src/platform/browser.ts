// The browser platform: fetch and WebSocket, no filesystem.
import { BrowserTransport } from '../connection/browser-transport.ts';
import type { Platform } from '../connection/transport.ts';
import { SandboxdError } from '../errors.ts';

function noFiles(): never {
  throw new SandboxdError('a browser has no directories; give the files themselves');
}

export const platform: Platform = {
  name: 'browser',
  createTransport: (options) => new BrowserTransport(options),
  // The daemon, or a proxy before it, usually serves the page; other pages must pass `host`.
  defaultHost: () =>
    (globalThis as unknown as { readonly location: { readonly origin: string } }).location.origin,
  defaultApiKey: () => undefined,
  defaultCa: () => undefined,
  packDirectory: noFiles,
  unpackDirectory: noFiles,
};
