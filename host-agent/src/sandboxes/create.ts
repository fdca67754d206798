// Creates one sandbox: from a template if possible, else by a cold boot.
import type PQueue from 'p-queue';
import type { Logger } from 'pino';
import { type Owner, sharerOf } from '../keys/index.ts';
import { enqueue } from '../lib/enqueue.ts';
import { newId } from '../lib/ids.ts';
import type { Admission } from './admission.ts';
import type { ResourceContext } from './resources/resource.ts';
import type { Sandbox } from './sandbox.ts';
import { startSandbox } from './start.ts';
import type { Templates } from './templates.ts';
import type { ResolvedSandboxOptions } from './types.ts';
import { reserveShared } from './usage.ts';

export type CreateInput = {
  readonly options: ResolvedSandboxOptions;
  readonly owner: Owner | undefined;
  readonly templates: Templates;
  readonly admission: Admission;
  /** Limits concurrent starts; shared by all tenants. */
  readonly startQueue: PQueue;
  readonly log: Logger;
  readonly signal: AbortSignal;
};

/** Rejects as `startSandbox` does. */
export async function createSandbox(context: ResourceContext, input: CreateInput): Promise<Sandbox> {
  const { options, owner, templates, admission, startQueue, log, signal } = input;
  const id = newId('sbx');
  const common = { id, options, owner, log: log.child({ sandbox: id }), signal };
  const template = await templates.obtain(options, signal, sharerOf(owner));
  const start = async (): Promise<Sandbox> => {
    if (template !== undefined) {
      using _reservation = await reserveShared(admission, context.engines.current, template);
      try {
        const origin = { kind: 'saved', saved: template } as const;
        const sandbox = await template.use(() => startSandbox(context, { ...common, origin }));
        templates.copySucceeded(template, options, sharerOf(owner));
        return sandbox;
      } catch (error) {
        signal.throwIfAborted();
        if (!templates.copyFailed(template, error)) throw error;
        log.warn({ sandbox: id }, 'template unusable, cold-booting');
      }
    }
    const boot = () => startSandbox(context, { ...common, origin: { kind: 'boot' } });
    // A guest with a client's boot arguments proves nothing about the engine.
    return options.bootArgs === '' ? context.engines.bootOrReplaceEngine(boot, signal) : boot();
  };
  return enqueue(startQueue, start, signal);
}
