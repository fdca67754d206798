// Stored secrets that change: the gateways of the sandboxes that use them get the new value, or none.
import type { Logger } from 'pino';
import { type SandboxSecrets, SOURCE_TTL_MS } from '../secrets/index.ts';
import { metadataOf } from './metadata.ts';
import type { SandboxNetworks } from './resources/resource.ts';
import type { Sandbox } from './sandbox.ts';

type FollowOptions = {
  readonly secrets: Pick<SandboxSecrets, 'onChange' | 'areRead' | 'refresh'>;
  readonly network: Pick<SandboxNetworks, 'changeSecrets'>;
  readonly sandboxes: () => Iterable<Pick<Sandbox, 'id' | 'record'>>;
  /** Until it aborts. */
  readonly signal: AbortSignal;
  readonly log: Logger;
};

export function followSecrets({ secrets, network, sandboxes, signal, log }: FollowOptions): void {
  const renew = async ({ id, record }: Pick<Sandbox, 'id' | 'record'>): Promise<void> => {
    if (record.network === undefined) return;
    await network
      .changeSecrets(record.network)
      .catch((err) => log.error({ err, sandbox: id }, 'a sandbox does not have the new value of a secret'));
  };
  const subscription = secrets.onChange(async (scope, name) => {
    const users = [...sandboxes()].filter((sandbox) =>
      bindingsOf(sandbox).some(({ use }) => use?.scope === scope && use.name === name),
    );
    await Promise.all(users.map(renew));
  });
  // Values of files, commands and credentials change by themselves.
  const timer = setInterval(() => {
    for (const sandbox of sandboxes())
      if (secrets.areRead(bindingsOf(sandbox)))
        void secrets.refresh(bindingsOf(sandbox)).then(() => renew(sandbox));
  }, SOURCE_TTL_MS).unref();
  signal.addEventListener('abort', () => {
    clearInterval(timer);
    subscription[Symbol.dispose]();
  });
}

function bindingsOf({ record }: Pick<Sandbox, 'record'>) {
  return metadataOf(record).secrets ?? [];
}
