// The snapshots as trees: which came from which, which sandboxes continue from them, and who sleeps.
import type { SnapshotInfo } from '@sandboxd/client';
import { useEffect, useState } from 'preact/hooks';
import { useStore } from '../live/store.ts';
import { useInventory } from '../live/use-inventory.ts';
import { ActionButton } from '../parts/button.tsx';
import { Confirm } from '../parts/dialog.tsx';
import { count, formatBytes, formatTime, toVisible } from '../parts/format.ts';
import { attempt, notify } from '../parts/notices.tsx';
import { displayName, State } from '../parts/sandbox-facts.tsx';
import { Empty, Loading, Problem } from '../parts/states.tsx';
import { useLoaded } from '../parts/use-loaded.ts';
import { useClient } from '../session/use-session.ts';
import { toHash } from '../shell/route.ts';
import { DiffDialog } from './diff-dialog.tsx';
import { type Node, toForest } from './forest.ts';

type Question =
  | { readonly kind: 'delete' | 'diff'; readonly snapshot: SnapshotInfo }
  | { readonly kind: 'rollback'; readonly sandbox: string; readonly snapshot: string };

export function SnapshotsPage() {
  const client = useClient();
  const inventory = useInventory();
  const sandboxes = useStore(inventory.sandboxes);
  const { value, error, reload } = useLoaded('snapshots', (signal) => client.snapshots.list({ signal }));
  const newest = useStore(inventory.events).find(
    ({ kind }) => kind.startsWith('snapshot-') || kind === 'rolled-back',
  );
  const [question, setQuestion] = useState<Question | undefined>();
  useEffect(() => {
    if (newest !== undefined) reload();
  }, [newest?.id]);
  const trees = toForest(value ?? [], [...(sandboxes?.values() ?? [])]);
  const close = (): void => setQuestion(undefined);
  const fork = (id: string) =>
    attempt(async () => {
      const [made] = await client.snapshots.get(id).fork();
      if (made === undefined) return;
      inventory.put(await made.info());
      notify(`Forked ${made.id}`);
    });
  return (
    <section class="page" aria-labelledby="title">
      <header class="page-head">
        <h1 id="title">Snapshots</h1>
        {value !== undefined && (
          <p class="page-count" role="status">
            {count(value.length, 'snapshot')}
          </p>
        )}
      </header>
      {error !== undefined && <Problem error={error} onRetry={reload} />}
      {error === undefined && value === undefined && <Loading what="snapshots" />}
      {value?.length === 0 && (
        <Empty title="No snapshots yet">
          <p>
            A snapshot is memory and disk of a sandbox at one moment. Forks of it start in a fraction of a
            second.
          </p>
          <p class="hint">Open a sandbox and choose Snapshot.</p>
        </Empty>
      )}
      {value !== undefined && value.length > 0 && (
        <ul class="tree">
          {trees.map((node) => (
            <Branch key={node.id} node={node} onFork={fork} onAsk={setQuestion} />
          ))}
        </ul>
      )}
      {question?.kind === 'delete' && (
        <Confirm
          title="Delete this snapshot?"
          action="Delete"
          onClose={close}
          onConfirm={() =>
            attempt(async () => {
              await client.snapshots.get(question.snapshot.id).delete();
              reload();
            })
          }
        >
          <p>Sandboxes that came from it go on. It cannot be forked any more.</p>
        </Confirm>
      )}
      {question?.kind === 'rollback' && (
        <Confirm
          title="Roll the sandbox back?"
          action="Roll back"
          onClose={close}
          onConfirm={() =>
            attempt(async () => {
              inventory.put(await client.sandboxes.get(question.sandbox).rollback(question.snapshot));
              notify('The sandbox is as it was then');
            })
          }
        >
          <p>What runs in it ends, and what it wrote since then is lost. Its id, addresses and ports stay.</p>
        </Confirm>
      )}
      {question?.kind === 'diff' && (
        <DiffDialog snapshot={question.snapshot} all={value ?? []} onClose={close} />
      )}
    </section>
  );
}

type BranchProps = {
  readonly node: Node;
  readonly parent?: string;
  readonly onFork: (id: string) => unknown;
  readonly onAsk: (question: Question) => void;
};

function Branch({ node, parent, onFork, onAsk }: BranchProps) {
  return (
    <li>
      <div class={`node node-${node.kind}`}>
        {node.kind === 'deleted' && (
          <span class="faint">
            <code>{node.id}</code> was deleted
          </span>
        )}
        {node.kind === 'sandbox' && (
          <>
            <State state={node.sandbox.state} />
            <a href={toHash(['sandboxes', node.id])}>
              <bdi>{displayName(node.sandbox)}</bdi>
            </a>
            {parent !== undefined && (
              <ActionButton
                kind="quiet"
                needs="exec"
                onClick={() => onAsk({ kind: 'rollback', sandbox: node.id, snapshot: parent })}
              >
                Roll back
              </ActionButton>
            )}
          </>
        )}
        {node.kind === 'snapshot' && <SnapshotLine snapshot={node.snapshot} onFork={onFork} onAsk={onAsk} />}
      </div>
      {node.below.length > 0 && (
        <ul>
          {node.below.map((child) => (
            <Branch
              key={child.id}
              node={child}
              {...(node.kind === 'snapshot' && { parent: node.id })}
              onFork={onFork}
              onAsk={onAsk}
            />
          ))}
        </ul>
      )}
    </li>
  );
}

type LineProps = Pick<BranchProps, 'onFork' | 'onAsk'> & { readonly snapshot: SnapshotInfo };

function SnapshotLine({ snapshot, onFork, onAsk }: LineProps) {
  const { id, name, comment, created_at, memory_mib } = snapshot;
  return (
    <>
      <span class="tag tag-plain">snapshot</span>
      <span class="node-name">
        <bdi>{name === undefined ? id : toVisible(name)}</bdi>
        {name !== undefined && <code class="sub">{id}</code>}
      </span>
      <span class="faint">
        {formatTime(created_at)} · {formatBytes(memory_mib * 2 ** 20)}
        {comment !== undefined && (
          <>
            {' '}
            · <bdi>{toVisible(comment)}</bdi>
          </>
        )}
      </span>
      <span class="node-actions">
        <ActionButton needs="fork" onClick={() => onFork(id)}>
          Fork
        </ActionButton>
        <ActionButton needs="read" onClick={() => onAsk({ kind: 'diff', snapshot })}>
          Compare
        </ActionButton>
        <ActionButton kind="quiet" needs="delete" onClick={() => onAsk({ kind: 'delete', snapshot })}>
          Delete
        </ActionButton>
      </span>
    </>
  );
}
