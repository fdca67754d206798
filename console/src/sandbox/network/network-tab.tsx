// What a sandbox may reach, what it reached and was denied, and a rule from each denied line.
import type { EgressRecord, SandboxInfo } from '@sandboxd/client';
import { useEffect } from 'preact/hooks';
import { useStore } from '../../live/store.ts';
import { useInventory } from '../../live/use-inventory.ts';
import { attempt, notify } from '../../parts/notices.tsx';
import { Empty, Loading, Problem } from '../../parts/states.tsx';
import { useLoaded } from '../../parts/use-loaded.ts';
import { useClient } from '../../session/use-session.ts';
import { EgressLog } from './egress-log.tsx';
import { Policy } from './policy.tsx';
import { permitting } from './rules.ts';

const CHANGES = ['network-changed', 'secrets-changed'];

export function NetworkTab({ info }: { readonly info: SandboxInfo }) {
  const { network } = useClient().sandboxes.get(info.id);
  const { value, error, reload } = useLoaded(`network ${info.id}`, async (signal) =>
    info.network === undefined ? undefined : network.get({ signal }),
  );
  const newest = useStore(useInventory().events).find(
    ({ sandbox, kind }) => sandbox === info.id && CHANGES.includes(kind),
  );
  useEffect(() => {
    if (newest !== undefined) reload();
  }, [newest?.id]);
  if (info.network === undefined) {
    return (
      <Empty title="This sandbox has no network">
        <p>
          A network is chosen at the create, such as{' '}
          <code>sandbox run --network-allow '*.debian.org' base</code>.
        </p>
      </Empty>
    );
  }
  if (error !== undefined) return <Problem error={error} onRetry={reload} />;
  if (value === undefined) return <Loading what="the network" />;
  const permit = async (record: EgressRecord): Promise<void> => {
    await attempt(async () => {
      const change = permitting(record, value);
      if (change === undefined) return;
      const already = await findAllowed(record);
      if (already !== undefined) return notify(already);
      await network.update({ ...change, if_generation: value.generation });
      notify('The sandbox may reach it now');
    });
    reload();
  };
  /** A rule changes nothing where the policy lets it pass, and the refusal had another reason. */
  const findAllowed = async (record: EgressRecord): Promise<string | undefined> => {
    const { name, address, port, protocol, method, path, reason } = record;
    const host = name ?? address;
    if (protocol === 'dns' || host === undefined || port === undefined) return undefined;
    const request = method !== undefined && path !== undefined ? { method, path } : {};
    const transport = protocol === 'udp' ? 'udp' : 'tcp';
    const { verdict } = await network.check(host, port, { protocol: transport, ...request });
    return verdict === 'allowed'
      ? `The policy lets it pass now. It was denied because: ${reason}`
      : undefined;
  };
  return (
    <div class="network">
      <Policy policy={value} onChanged={reload} id={info.id} />
      <EgressLog id={info.id} policy={value} onPermit={permit} />
    </div>
  );
}
