// The manifests of deploy/kubernetes, as far as they can be checked without an API server: what they name exists.
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { parseAllDocuments } from 'yaml';
import { gateway } from '../../../../host-agent/src/commands/gateway/index.ts';

const DIR = join(import.meta.dirname, '../../../../deploy/kubernetes');

type Named = { readonly name: string };
type Subject = Named & { readonly kind: string; readonly namespace?: string };
type Container = {
  readonly args: readonly string[];
  readonly volumeMounts: readonly (Named & { mountPath: string })[];
};
type PodSpec = {
  readonly serviceAccountName: string;
  readonly containers: readonly Container[];
  readonly volumes: readonly (Named & { secret?: { defaultMode: number }; configMap?: Named })[];
};
type Manifest = {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: Named & { readonly namespace?: string };
  readonly roleRef?: Named & { readonly kind: string };
  readonly subjects?: readonly Subject[];
  readonly spec?: { readonly template?: { readonly spec: PodSpec } };
};

const all = globSync('*.yaml', { cwd: DIR }).flatMap((file) =>
  parseAllDocuments(readFileSync(join(DIR, file), 'utf8')).map((document) => {
    t.same(document.errors, [], file);
    return document.toJS() as Manifest;
  }),
);
const has = (kind: string, name: string) =>
  all.some((each) => each.kind === kind && each.metadata.name === name);

t.test('roles, accounts and namespaces that manifests name are there', (t) => {
  for (const { kind, metadata, roleRef, subjects = [] } of all) {
    t.ok(
      metadata.namespace === undefined || has('Namespace', metadata.namespace),
      `${kind} ${metadata.name}`,
    );
    if (roleRef !== undefined)
      t.ok(roleRef.name.startsWith('system:') || has(roleRef.kind, roleRef.name), roleRef.name);
    for (const subject of subjects)
      t.ok(subject.kind === 'Group' || has(subject.kind, subject.name), `${subject.kind} ${subject.name}`);
  }
  t.end();
});

t.test('gateways get flags that there are, with files that are mounted', (t) => {
  const spec = all.find(({ kind }) => kind === 'Deployment')?.spec?.template?.spec;
  const [container] = spec?.containers ?? [];
  t.ok(has('ServiceAccount', spec?.serviceAccountName ?? ''));
  t.same(
    new Set(container?.volumeMounts.map(({ name }) => name)),
    new Set(spec?.volumes.map(({ name }) => name)),
  );
  for (const { secret, configMap } of spec?.volumes ?? [])
    t.ok(configMap === undefined ? secret?.defaultMode === 0o400 : has('ConfigMap', configMap.name));
  const [command, ...flags] = container?.args ?? [];
  t.equal(command, gateway.name);
  for (const flag of flags) {
    const [, name = '', value = ''] = /^--([^=]+)=(.*)$/.exec(flag) ?? [];
    t.ok(name in gateway.flags, flag);
    const isMounted = container?.volumeMounts.some(({ mountPath }) => value.startsWith(`${mountPath}/`));
    t.ok(!value.startsWith('/') || isMounted, flag);
  }
  t.end();
});
