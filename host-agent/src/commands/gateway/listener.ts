// Listeners of the gateway: their addresses and certificates, from flags.
import { type Input, UsageError } from '@sandboxd/api/command-line';
import type { Logger } from 'pino';
import { formatListen, isLoopback, type ListenAddress, parseListen } from '../../config/index.ts';
import { Certificate } from '../../http/index.ts';

export const DEFAULT_CONNECTIONS = 4096;
export const path = (help: string) => ({ type: 'string', placeholder: 'path', help }) as const;
export const address = (help: string) =>
  ({ type: 'string', placeholder: 'host:port|unix:/path', help }) as const;

export type Listener = {
  readonly listen: ListenAddress;
  /** Undefined without TLS. */
  readonly certificate: Certificate | undefined;
};

/** UsageError for an address that other machines reach without TLS. */
export function readListener(
  input: Input,
  log: Logger,
  { flag, text, prefix }: { readonly flag: string; readonly text: string; readonly prefix: '' | 'ingress-' },
): Listener {
  const listen = parseListen(text);
  if (listen === undefined)
    throw new UsageError(`--${flag} ${JSON.stringify(text)} is neither host:port nor unix:/path`);
  const [cert, key] = [`${prefix}tls-cert`, `${prefix}tls-key`];
  const [certPath, keyPath] = [input.text(cert), input.text(key)];
  if ((certPath === undefined) !== (keyPath === undefined))
    throw new UsageError(`--${cert} and --${key} go together`);
  const certificate = certPath && keyPath ? new Certificate({ certPath, keyPath }, log) : undefined;
  if ('path' in listen || certificate !== undefined || isLoopback(listen.host))
    return { listen, certificate };
  throw new UsageError(
    `${formatListen(listen)} can be reached from other machines; give --${cert} and --${key}, or listen on 127.0.0.1`,
  );
}
