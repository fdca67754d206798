// Step of the start: stored secrets, and those of sandboxes. Commands of the operator change them beside the daemon.
import type { Logger } from 'pino';
import type { AuditTrail } from '../audit/index.ts';
import { markSealKey, SandboxSecrets, SecretSources, SecretStore } from '../secrets/index.ts';
import type { AppContext } from './context.ts';
import type { OpenedStore } from './open-store.ts';

const COMMAND_POLL_MS = 1000;

export type OpenedSecrets = { readonly secretStore: SecretStore; readonly sandboxSecrets: SandboxSecrets };

export function openSecrets(
  { config, log, resources }: AppContext,
  { store, sealer, audit }: Pick<OpenedStore, 'store' | 'sealer' | 'audit'>,
): OpenedSecrets {
  const sources = new SecretSources(config.secrets.sources);
  const secretStore = new SecretStore({ store, sealer, sources, log });
  const unused = sealer.findUnusedKey();
  if (unused !== undefined)
    log.warn({ path: unused }, 'another key seals secrets now; what this one sealed cannot be used');
  markSealKey(store, sealer).catch((err: unknown) =>
    log.error({ err }, 'which key seals secrets cannot be recorded: commands cannot tell another one'),
  );
  resources.defer(() => secretStore.close());
  resources.use(followCommands(secretStore, audit, log));
  return {
    secretStore,
    sandboxSecrets: new SandboxSecrets(sealer, secretStore, log, config.secrets.allowsPlainHttp),
  };
}

/** Gateways have what commands changed, and the audit trail says who did. */
function followCommands(secrets: SecretStore, audit: AuditTrail | undefined, log: Logger): AsyncDisposable {
  const take = (): Promise<void> =>
    secrets
      .takeChanges(({ change, scope, name, by, atMs }) =>
        audit?.write({
          event: 'secrets',
          ...{ change, by, secret: name },
          ...(scope !== '' && { tenant: scope }),
          changed_at: new Date(atMs).toISOString(),
        }),
      )
      .catch((err: unknown) => log.warn({ err }, 'cannot apply what commands changed of secrets'));
  let taking: Promise<void> | undefined;
  const timer = setInterval(() => {
    taking ??= take().finally(() => {
      taking = undefined;
    });
  }, COMMAND_POLL_MS).unref();
  return {
    [Symbol.asyncDispose]: async () => {
      clearInterval(timer);
      await taking;
    },
  };
}
