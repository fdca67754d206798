// Composes the modules of the daemon. Starts them in order and stops them in reverse order.
import type { AppContext } from './app/context.ts';
import { type OpenedE2b, openE2b } from './app/open-e2b.ts';
import { openEngines } from './app/open-engines.ts';
import { type OpenedFleet, openFleet } from './app/open-fleet.ts';
import { openHttp } from './app/open-http.ts';
import { type OpenedIngress, openIngress } from './app/open-ingress.ts';
import { openRootfs } from './app/open-rootfs.ts';
import {
  openEgressLog,
  openLogs,
  openNetwork,
  openPresets,
  openSandboxes,
  openUsers,
} from './app/open-sandboxes.ts';
import { openSecrets } from './app/open-secrets.ts';
import { openEvents, openStore, splitDescriptors } from './app/open-store.ts';
import { refuseExchangeable } from './app/weak-settings.ts';
import type { ListenAddress } from './config/index.ts';
import { Authenticator, Certificate, type HttpServer } from './http/index.ts';
import { AppError } from './lib/errors.ts';
import { keepAlive } from './lib/lazy.ts';
import type { SandboxManager } from './sandboxes/manager.ts';
import { Dispatcher, WebhookRegistry } from './webhooks/index.ts';

export interface App {
  /** Resolves with the address that the daemon listens on. A failed start releases everything it acquired. */
  start(): Promise<ListenAddress>;
  /**
   * Graceful shutdown: waits for running requests up to the configured time, or until `hurry` aborts, and then stops
   * everything.
   */
  stop(hurry?: AbortSignal): Promise<void>;
  /** Reloads the TLS certificate; false without TLS. */
  reload(): boolean;
}

type AppOptions = Pick<AppContext, 'config' | 'settings' | 'log' | 'helpers' | 'faults'>;

export function createApp(options: AppOptions): App {
  const { config, log } = options;
  const resources = new AsyncDisposableStack();
  const starting = new AbortController();
  const draining = new AbortController();
  const { signal } = starting;
  const context: AppContext = { ...options, resources, signal };
  let hurry: AbortSignal | undefined;
  let started: Promise<ListenAddress> | undefined;
  let certificate: Certificate | undefined;

  const open = async (): Promise<ListenAddress> => {
    await refuseExchangeable(config, log);
    const { limits, maxConnections } = splitDescriptors(config, log);
    const registry = await openStore(context);
    certificate = config.tls && new Certificate(config.tls, log);
    const virtualization = await openEngines(context);
    const rootfs = await openRootfs(context, registry.store, virtualization.isolation);
    const logs = openLogs(context);
    const egressLog = openEgressLog(context);
    const observers = await openEvents(context, registry.store);
    const users = await openUsers(context);
    const network = await openNetwork(context, registry.store, users);
    const presets = openPresets(context);
    const secrets = openSecrets(context, registry);
    const kept = { logs, egressLog };
    const opened = {
      ...registry,
      ...virtualization,
      ...rootfs,
      ...observers,
      ...kept,
      ...secrets,
      limits,
      presets,
    };
    const sandboxes = await openSandboxes(context, { ...opened, ...users, network });
    const webhooks = new Dispatcher({
      registry: new WebhookRegistry(registry.store),
      journal: observers.journal,
      log,
    });
    resources.defer(() => webhooks.stop());
    const stopping = draining.signal;
    const authenticator = new Authenticator(registry.keys, log);
    const fleet = await openFleet(context, { ...opened, sandboxes });
    const { placement, clientOf, isQuestion } = fleet;
    const ingress = openIngress(context, { ...opened, sandboxes, authenticator, clientOf, isQuestion });
    const served = { sandboxes, authenticator, placement, portLinks: ingress?.links };
    const rest = { ...opened, ...served, certificate, maxConnections, clientOf, stopping };
    const { server, app } = await openHttp(context, rest);
    const e2b = await openE2b(context, { ...rest, app, isQuestion });
    return serve(server, sandboxes, { ingress, e2b }, fleet);
  };

  /** Resources are disposed in reverse order: drain requests, end or release the sandboxes, close the connections. */
  const serve = async (
    server: HttpServer,
    sandboxes: SandboxManager,
    { ingress, e2b }: { readonly ingress: OpenedIngress | undefined; readonly e2b: OpenedE2b | undefined },
    fleet: OpenedFleet,
  ): Promise<ListenAddress> => {
    resources.defer(() => server.close());
    let isServing = false;
    // A failed start, for example on a port in use, must not end the running sandboxes.
    resources.defer(() => sandboxes.stop(isServing ? config.onExit : 'keep'));
    signal.throwIfAborted();
    resources.defer(() => ingress?.stop());
    const ports = await ingress?.listen();
    resources.defer(() => e2b?.stop());
    const clients = await e2b?.listen();
    const address = await server.listen(config.listen);
    isServing = true;
    resources.defer(() => fleet.stop());
    await fleet.join(address, { ingress: ports, e2b: clients });
    resources.defer(() => {
      draining.abort();
      return server.drain(config.drainTimeoutMs, hurry);
    });
    return address;
  };

  const start = async (): Promise<ListenAddress> => {
    using _alive = keepAlive();
    try {
      return await open();
    } catch (error) {
      await resources
        .disposeAsync()
        .catch((err: unknown) => log.error({ err }, 'cannot release the resources of the failed start'));
      throw error;
    }
  };

  return {
    start: () => {
      started = start();
      return started;
    },
    reload: () => {
      certificate?.reload();
      return certificate !== undefined;
    },
    stop: async (signal) => {
      hurry = signal;
      starting.abort(new AppError('cancelled', 'the daemon was stopped while it started'));
      using _alive = keepAlive();
      // A start in progress still uses its resources: it fails at its next step and releases them.
      await started?.catch(() => undefined);
      await resources.disposeAsync();
    },
  };
}
