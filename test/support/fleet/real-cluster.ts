// What tests do to a real cluster: our manifests, and tokens of bootstrap.
import { randomBytes } from 'node:crypto';
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Test } from 'tap';
import { parseAllDocuments } from 'yaml';
import type { KubeClient } from '../../../host-agent/src/fleet/index.ts';
import { isRefusal } from '../../../host-agent/src/fleet/kube/client.ts';

const MANIFESTS = join(import.meta.dirname, '../../../deploy/kubernetes');

export type Manifest = { apiVersion: string; kind: string; metadata: { name: string; namespace?: string } };

export function readManifests(pattern: string): Manifest[] {
  return globSync(pattern, { cwd: MANIFESTS }).flatMap((name) =>
    parseAllDocuments(readFileSync(join(MANIFESTS, name), 'utf8')).map((each) => each.toJS() as Manifest),
  );
}

/** Rejects unless it is accepted, or there already. */
export async function post(
  client: KubeClient,
  body: Manifest & Record<string, unknown>,
  query: Record<string, string> = {},
): Promise<void> {
  const { apiVersion, kind, metadata } = body;
  const scope = metadata.namespace === undefined ? '' : `/namespaces/${metadata.namespace}`;
  const group = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
  await client
    .request({ method: 'POST', path: `${group}${scope}/${toPlural(kind)}`, body, query })
    .catch((error: unknown) => {
      if (!isRefusal(error, 409)) throw error;
    });
}

function toPlural(kind: string): string {
  const name = kind.toLowerCase();
  if (name.endsWith('y')) return `${name.slice(0, -1)}ies`;
  return `${name}${name.endsWith('s') ? 'es' : 's'}`;
}

export async function postManifests(client: KubeClient, pattern: string): Promise<void> {
  for (const body of readManifests(pattern)) await post(client, body);
}

/** With which a host asks for an identity. */
export async function makeBootstrapToken(t: Test, client: KubeClient): Promise<string> {
  const [id, secret] = [randomBytes(3).toString('hex'), randomBytes(8).toString('hex')];
  const metadata = { name: `bootstrap-token-${id}`, namespace: 'kube-system' };
  const stringData = {
    ...{ 'token-id': id, 'token-secret': secret, 'usage-bootstrap-authentication': 'true' },
    'auth-extra-groups': 'system:bootstrappers:sandboxd',
  };
  const type = 'bootstrap.kubernetes.io/token';
  await post(client, { apiVersion: 'v1', kind: 'Secret', type, metadata, stringData });
  const path = `/api/v1/namespaces/kube-system/secrets/${metadata.name}`;
  t.teardown(() => client.request({ method: 'DELETE', path }).catch(() => undefined));
  return `${id}.${secret}`;
}

/** Each fits, as far as the API server knows without making it. */
export async function checkManifests(t: Test, client: KubeClient): Promise<void> {
  const all = readManifests('*.yaml');
  // Without its namespace nothing in it can be checked.
  for (const body of all.filter(({ kind }) => kind === 'Namespace')) await post(client, body);
  for (const body of all)
    await t.resolves(
      post(client, body, { dryRun: 'All', fieldValidation: 'Strict' }),
      `${body.kind} ${body.metadata.name}`,
    );
}

/** The path of that of KUBE, or of the role's own (KUBE_HOST, KUBE_GATEWAY). */
export function realKubeconfig(role: 'host' | 'gateway' | undefined): string {
  const { KUBE = '', KUBE_HOST, KUBE_GATEWAY } = process.env;
  if (role === undefined) return KUBE;
  return { host: KUBE_HOST, gateway: KUBE_GATEWAY }[role] ?? KUBE;
}
