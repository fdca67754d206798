// Questions about a control plane, which is a stand-in or real.
import { setTimeout as sleep } from 'node:timers/promises';
import type { KubeClient } from '../../../host-agent/src/fleet/index.ts';
import { scaled } from '../time-scale.ts';

export type Listed = {
  items: {
    metadata: { name: string };
    status?: { phase?: string; conditions?: { type: string; status: string }[] };
  }[];
};

/** Asks until it holds. */
export async function eventually(isTrue: () => Promise<boolean>, what: string): Promise<void> {
  for (const untilMs = performance.now() + scaled(30_000); !(await isTrue()); await sleep(50))
    if (performance.now() > untilMs) throw new Error(`timed out waiting for ${what}`);
}

export async function list(client: KubeClient, path: string): Promise<Listed['items']> {
  return ((await client.request({ method: 'GET', path })) as Listed).items;
}
