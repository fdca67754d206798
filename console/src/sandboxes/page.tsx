// The sandboxes: search, filters in the URL, actions on those that are selected.
import type { SandboxInfo } from '@sandboxd/client';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { useStore } from '../live/store.ts';
import { useInventory } from '../live/use-inventory.ts';
import { ActionButton, Button } from '../parts/button.tsx';
import { Confirm } from '../parts/dialog.tsx';
import { count, toVisible } from '../parts/format.ts';
import { attempt, notify } from '../parts/notices.tsx';
import { Empty, Loading, Problem } from '../parts/states.tsx';
import { useClient } from '../session/use-session.ts';
import type { Route } from '../shell/route.ts';
import { replaceQuery } from '../shell/router.ts';
import { useShortcuts } from '../shell/shortcuts.ts';
import { CreateDialog } from './create-dialog.tsx';
import { type Filters, isFiltered, matches, parseFilters, toQuery } from './filters.ts';
import { SandboxTable } from './table.tsx';
import { UsageSampler } from './usage.ts';

const STATES = ['running', 'paused', 'failed'] as const;

export function SandboxesPage({ at }: { readonly at: Route }) {
  const client = useClient();
  const inventory = useInventory();
  const all = useStore(inventory.sandboxes);
  const error = useStore(inventory.error);
  const unreachable = useStore(inventory.unreachable);
  const sampler = useMemo(() => new UsageSampler(client), [client]);
  const search = useRef<HTMLInputElement>(null);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [isCreating, setCreating] = useState(false);
  /** Those of the open question: what happens meanwhile does not change them. */
  const [deleting, setDeleting] = useState<readonly SandboxInfo[] | undefined>();
  const filters = parseFilters(at.query);
  const change = (changes: Partial<Filters>): void => replaceQuery(toQuery({ ...filters, ...changes }));
  useShortcuts([
    { keys: '/', what: 'Search', run: () => search.current?.focus() },
    { keys: 'c', what: 'Create a sandbox', run: () => setCreating(true) },
  ]);

  const rows = useMemo(
    () => [...(all?.values() ?? [])].filter((info) => matches(info, filters)).reverse(),
    [all, at.query.toString()],
  );
  // What is not shown is not selected.
  useEffect(() => {
    const shown = new Set(rows.map(({ id }) => id));
    setSelected((before) => {
      const left = [...before].filter((id) => shown.has(id));
      return left.length === before.size ? before : new Set(left);
    });
  }, [rows]);
  const chosen = rows.filter(({ id }) => selected.has(id));
  const select = (ids: readonly string[], isSelected: boolean): void =>
    setSelected((before) => {
      const next = new Set(before);
      for (const id of ids) isSelected ? next.add(id) : next.delete(id);
      return next;
    });
  const each = async (
    verb: string,
    infos: readonly SandboxInfo[],
    work: (info: SandboxInfo) => Promise<unknown>,
  ): Promise<void> => {
    const results = await Promise.all(infos.map((info) => attempt(() => work(info).then(() => true))));
    notify(`${verb} ${count(results.filter(Boolean).length, 'sandbox')}`);
    setSelected(new Set());
  };

  return (
    <section class="page page-full" aria-labelledby="title">
      <header class="page-head">
        <h1 id="title">Sandboxes</h1>
        {all !== undefined && (
          <p class="page-count" role="status">
            {isFiltered(filters)
              ? `${rows.length} of ${count(all.size, 'sandbox')}`
              : count(all.size, 'sandbox')}
          </p>
        )}
        <ActionButton kind="primary" needs="create" onClick={() => setCreating(true)}>
          Create
        </ActionButton>
      </header>
      {unreachable.length > 0 && (
        <p class="banner" role="status">
          {unreachable.map(toVisible).join(', ')} {unreachable.length === 1 ? 'does' : 'do'} not answer:
          sandboxes there are not in this list.
        </p>
      )}
      <search class="toolbar">
        <input
          ref={search}
          type="search"
          class="search"
          placeholder="Search name, id, label, image"
          aria-label="Search"
          value={filters.text}
          onInput={({ currentTarget }) => change({ text: currentTarget.value })}
          onKeyDown={({ key, currentTarget }) => key === 'Escape' && currentTarget.blur()}
        />
        <div class="segments" role="group" aria-label="State">
          {['', ...STATES].map((state) => (
            <button
              key={state}
              type="button"
              aria-pressed={filters.state === state}
              onClick={() => change({ state })}
            >
              {state === '' ? 'All' : state}
            </button>
          ))}
        </div>
        {filters.labels.map((label) => (
          <button
            key={label}
            type="button"
            class="label label-filter"
            title="Remove this filter"
            onClick={() => change({ labels: filters.labels.filter((one) => one !== label) })}
          >
            <bdi>{toVisible(label)}</bdi> <span aria-hidden="true">×</span>
          </button>
        ))}
        {chosen.length > 0 && (
          <div class="bulk">
            <span>{chosen.length} selected</span>
            <ActionButton
              needs="exec"
              onClick={() => each('Paused', chosen, ({ id }) => client.sandboxes.get(id).pause())}
            >
              Pause
            </ActionButton>
            <ActionButton kind="danger" needs="delete" onClick={() => setDeleting(chosen)}>
              Delete
            </ActionButton>
          </div>
        )}
      </search>
      {error !== undefined && (
        <Problem error={error} onRetry={() => void inventory.refresh().catch(() => {})} />
      )}
      {error === undefined && all === undefined && <Loading what="sandboxes" />}
      {error === undefined && all?.size === 0 && (
        <Empty title="No sandboxes yet">
          <p>A sandbox is a virtual machine of its own, ready in about a second.</p>
          <ActionButton kind="primary" needs="create" onClick={() => setCreating(true)}>
            Create the first one
          </ActionButton>
          <p class="hint">
            Or in a terminal: <code>sandbox run -it --rm base bash</code>
          </p>
        </Empty>
      )}
      {error === undefined && all !== undefined && all.size > 0 && rows.length === 0 && (
        <Empty title="No sandbox matches">
          <Button onClick={() => replaceQuery(new URLSearchParams())}>Remove all filters</Button>
        </Empty>
      )}
      {error === undefined && rows.length > 0 && (
        <SandboxTable
          rows={rows}
          selected={selected}
          onSelect={select}
          onLabel={(label) => change({ labels: [...new Set([...filters.labels, label])] })}
          sampler={sampler}
        />
      )}
      {isCreating && <CreateDialog onClose={() => setCreating(false)} />}
      {deleting !== undefined && (
        <Confirm
          title={`Delete ${count(deleting.length, 'sandbox')}?`}
          action="Delete"
          onClose={() => setDeleting(undefined)}
          onConfirm={() => each('Deleted', deleting, ({ id }) => client.sandboxes.get(id).delete())}
        >
          <p>Their memory and disks are lost. Their logs and snapshots stay.</p>
          <ul class="names" tabIndex={0} aria-label="What is deleted">
            {deleting.map(({ id, name }) => (
              <li key={id}>
                <code>{id}</code> {name !== undefined && <bdi>{toVisible(name)}</bdi>}
              </li>
            ))}
          </ul>
        </Confirm>
      )}
    </section>
  );
}
