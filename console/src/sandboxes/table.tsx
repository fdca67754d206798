// The table of sandboxes. Only rows on the screen are drawn, so that thousands scroll smoothly.
import type { SandboxInfo } from '@sandboxd/client';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { useStore } from '../live/store.ts';
import { Bar, Sparkline } from '../parts/charts.tsx';
import { formatBytes, toVisible } from '../parts/format.ts';
import { Age, displayName, Expiry, Labels, State } from '../parts/sandbox-facts.tsx';
import { useNow } from '../parts/use-now.ts';
import { toHash } from '../shell/route.ts';
import { useShortcuts } from '../shell/shortcuts.ts';
import { toSource } from './filters.ts';
import type { Usage, UsageSampler } from './usage.ts';

/** Of the styles: a row with one line, and on narrow screens with three. */
const ROW_PX = 46;
const NARROW_ROW_PX = 92;
const NARROW = matchMedia('(max-width: 820px)');
/** Rows that are drawn above and below the screen. */
const SPARE = 6;
const COLUMNS = ['Name', 'State', 'Labels', 'From', 'CPU', 'Memory', 'Age', 'Ends in'];

export type TableProps = {
  readonly rows: readonly SandboxInfo[];
  readonly selected: ReadonlySet<string>;
  readonly onSelect: (ids: readonly string[], isSelected: boolean) => void;
  readonly onLabel: (label: string) => void;
  readonly sampler: UsageSampler;
};

export function SandboxTable({ rows, selected, onSelect, onLabel, sampler }: TableProps) {
  const scroller = useRef<HTMLDivElement>(null);
  const { first, last, rowPx } = useWindow(scroller, rows.length);
  const usage = useStore(sampler.usage);
  const nowMs = useNow();
  const shown = rows.slice(first, last);
  const running = shown.filter(({ state }) => state === 'running').map(({ id }) => id);
  useEffect(() => sampler.watch(running), [running.join()]);
  useEffect(() => sampler.open(), [sampler]);

  const move = (by: number): void => {
    const area = scroller.current;
    if (area === null) return;
    const focused = document.activeElement?.closest<HTMLElement>('[data-index]')?.dataset.index;
    const next = Math.min(rows.length - 1, Math.max(0, focused === undefined ? first : Number(focused) + by));
    const top = next * rowPx;
    if (top < area.scrollTop) area.scrollTop = top;
    else if (top + 2 * rowPx > area.scrollTop + area.clientHeight)
      area.scrollTop = top + 2 * rowPx - area.clientHeight;
    const focus = (): void => area.querySelector<HTMLElement>(`[data-index="${next}"] a`)?.focus();
    focus();
    requestAnimationFrame(() => requestAnimationFrame(focus));
  };
  useShortcuts([
    { keys: 'j', what: 'Next sandbox', run: () => move(1) },
    { keys: 'k', what: 'Previous sandbox', run: () => move(-1) },
    {
      keys: 'x',
      what: 'Select the sandbox',
      run: () => document.activeElement?.closest('[data-index]')?.querySelector('input')?.click(),
    },
  ]);
  const areAllSelected = rows.length > 0 && rows.every(({ id }) => selected.has(id));
  return (
    <div class="table" role="table" aria-label="Sandboxes" aria-rowcount={rows.length + 1}>
      <div class="row row-head" role="row" aria-rowindex={1}>
        <span class="cell-check" role="columnheader">
          <input
            type="checkbox"
            aria-label="Select all"
            checked={areAllSelected}
            onChange={() =>
              onSelect(
                rows.map(({ id }) => id),
                !areAllSelected,
              )
            }
          />
        </span>
        {COLUMNS.map((title) => (
          <span key={title} class={`cell-${title.toLowerCase().replace(' ', '-')}`} role="columnheader">
            {title}
          </span>
        ))}
      </div>
      <div class="rows" ref={scroller} tabIndex={0} role="rowgroup" aria-label="Rows">
        <div class="rows-all" role="presentation" style={{ height: `${rows.length * rowPx}px` }}>
          {shown.map((info, at) => (
            <Row
              key={info.id}
              info={info}
              index={first + at}
              top={(first + at) * rowPx}
              usage={info.state === 'running' ? usage.get(info.id) : undefined}
              isSelected={selected.has(info.id)}
              nowMs={nowMs}
              onSelect={onSelect}
              onLabel={onLabel}
            />
          ))}
        </div>
      </div>
    </div>
  );
}

type RowProps = Pick<TableProps, 'onSelect' | 'onLabel'> & {
  readonly info: SandboxInfo;
  readonly index: number;
  readonly top: number;
  readonly usage: Usage | undefined;
  readonly isSelected: boolean;
  readonly nowMs: number;
};

function Row({ info, index, top, usage, isSelected, nowMs, onSelect, onLabel }: RowProps) {
  const { id, name, state, labels, created_at, expires_at, vcpus } = info;
  const source = toVisible(toSource(info));
  return (
    <div
      class={isSelected ? 'row row-selected' : 'row'}
      role="row"
      aria-rowindex={index + 2}
      data-index={index}
      style={{ transform: `translateY(${top}px)` }}
    >
      <span class="cell-check" role="cell">
        <input
          type="checkbox"
          aria-label={`Select ${displayName(info)}`}
          checked={isSelected}
          onChange={({ currentTarget }) => onSelect([id], currentTarget.checked)}
        />
      </span>
      <span class="cell-name" role="cell">
        <a href={toHash(['sandboxes', id])}>
          <bdi>{displayName(info)}</bdi>
        </a>
        {name !== undefined && <code class="sub">{id}</code>}
      </span>
      <span class="cell-state" role="cell">
        <State state={state} />
      </span>
      <span class="cell-labels" role="cell">
        <Labels labels={labels} onPick={onLabel} />
      </span>
      <span class="cell-from" role="cell" title={source}>
        <bdi>{source}</bdi>
      </span>
      <span class="cell-cpu" role="cell">
        {usage !== undefined && (
          <>
            <Sparkline values={usage.cpu} max={100 * vcpus} />
            <span>{usage.cpu.length === 0 ? '–' : `${Math.round(usage.cpu.at(-1) ?? 0)} %`}</span>
          </>
        )}
        {usage === undefined && <span class="faint">–</span>}
      </span>
      <span class="cell-memory" role="cell">
        <Memory info={info} usage={usage} />
      </span>
      <span class="cell-age" role="cell">
        <Age at={created_at} nowMs={nowMs} />
      </span>
      <span class="cell-ends-in" role="cell">
        <Expiry at={expires_at} nowMs={nowMs} />
      </span>
    </div>
  );
}

function Memory({ info, usage }: { readonly info: SandboxInfo; readonly usage: Usage | undefined }) {
  const limit = formatBytes(info.memory_mib * 2 ** 20);
  if (usage === undefined) return <span class="faint">{limit}</span>;
  const { ownBytes, sharedBytes, limitBytes } = usage;
  return (
    <>
      <Bar
        max={limitBytes}
        parts={[
          { kind: 'own', value: ownBytes },
          { kind: 'shared', value: sharedBytes },
        ]}
      />
      <span title={`own ${formatBytes(ownBytes)}, shared ${formatBytes(sharedBytes)}, of ${limit}`}>
        {formatBytes(ownBytes)}
        <span class="faint"> + {formatBytes(sharedBytes)}</span>
      </span>
    </>
  );
}

/** Which rows are on the screen. */
function useWindow(scroller: { readonly current: HTMLDivElement | null }, total: number) {
  const [view, setView] = useState({ top: 0, height: 800, isNarrow: NARROW.matches });
  useLayoutEffect(() => {
    const area = scroller.current;
    if (area === null) return;
    const update = (): void =>
      setView({ top: area.scrollTop, height: area.clientHeight, isNarrow: NARROW.matches });
    const observer = new ResizeObserver(update);
    observer.observe(area);
    area.addEventListener('scroll', update, { passive: true });
    update();
    return () => {
      observer.disconnect();
      area.removeEventListener('scroll', update);
    };
  }, []);
  const rowPx = view.isNarrow ? NARROW_ROW_PX : ROW_PX;
  const first = Math.max(0, Math.min(total - 1, Math.floor(view.top / rowPx)) - SPARE);
  return { first, last: Math.ceil((view.top + view.height) / rowPx) + SPARE, rowPx };
}
