// Rate limits for audit lines. The trail has a bounded size, so requests that cost a client nothing must not push out
// records of changes, and one kind must not hide another. Each class of each key therefore has a limited number of
// lines per minute. A request that created or deleted something always has its own line. Any other request that reached
// a guest has at least one line per minute for each route and sandbox, and a count.
import { ROUTES, type Route } from '@sandboxd/api';
import type { AuditEntry, ListedClass, Repeated, RequestEntry } from './line.ts';

const MINUTE_MS = 60_000;
/** Lines per minute of all unauthenticated clients together. */
const UNAUTHENTICATED_LINES = 60;
/** Lines per minute of one key, or of all clients where no key is required. Requests beyond are only counted. */
const LINES: Readonly<Record<ListedClass, number>> = {
  unauthenticated: UNAUTHENTICATED_LINES,
  denied: 120,
  failed: 120,
  broken: 120,
  listed: 600,
};
/** Lines per minute of one key on one route that reaches guests; equal requests beyond share a line. */
const ROUTE_LINES = 1200;

const routes: Readonly<Partial<Record<string, Route>>> = ROUTES;

type Budget = { lines: number; unlisted: number };
type Repetition = { readonly what: Repeated; times: number };

export class Budgets {
  readonly #report: (entry: AuditEntry) => void;
  /** By class and key; by route and key. All are reset every minute. */
  readonly #listed = new Map<string, Budget & { readonly class: ListedClass; readonly key_id?: string }>();
  readonly #lines = new Map<string, number>();
  readonly #repeated = new Map<string, Repetition>();
  #timer: NodeJS.Timeout | undefined;

  /** `report` gets the counts of unlisted requests, at most a minute later. */
  constructor(report: (entry: AuditEntry) => void) {
    this.#report = report;
  }

  admits(entry: RequestEntry): boolean {
    this.#timer ??= setTimeout(() => this.close(), MINUTE_MS).unref();
    const { key_id } = entry;
    const kind = classOf(entry);
    if (kind === 'made') return true;
    if (kind === 'reached') return this.#admitsToGuest(entry);
    const id = `${kind} ${key_id}`;
    const budget = this.#listed.get(id) ?? {
      class: kind,
      ...(key_id !== undefined && { key_id }),
      lines: 0,
      unlisted: 0,
    };
    this.#listed.set(id, budget);
    const isListed = budget.lines < LINES[kind];
    if (isListed) budget.lines += 1;
    else budget.unlisted += 1;
    return isListed;
  }

  /** Reports the counts of this minute. */
  close(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const unlisted = [...this.#listed.values()].filter((budget) => budget.unlisted > 0);
    const repeated = [...this.#repeated.values()].filter(({ times }) => times > 0);
    this.#listed.clear();
    this.#lines.clear();
    this.#repeated.clear();
    for (const { lines: _, unlisted: lines, ...rest } of unlisted)
      this.#report({ event: 'unlisted', lines, ...rest });
    for (const { what, times } of repeated) this.#report({ event: 'repeated', times, ...what });
  }

  #admitsToGuest(entry: RequestEntry): boolean {
    const { event, key, key_id, tenant, route, operation, ids } = entry;
    const id = `${route} ${key_id}`;
    const lines = this.#lines.get(id) ?? 0;
    if (lines < ROUTE_LINES) {
      this.#lines.set(id, lines + 1);
      return true;
    }
    const same = `${event} ${id} ${ids?.join(' ')}`;
    const known = this.#repeated.get(same);
    if (known === undefined) {
      const what = {
        ...(key !== undefined && { key }),
        ...(key_id !== undefined && { key_id }),
        ...(tenant !== undefined && { tenant }),
        ...(route !== undefined && { route }),
        ...(operation !== undefined && { operation }),
        ...(ids !== undefined && { ids }),
      };
      this.#repeated.set(same, { what, times: 0 });
      return true;
    }
    // A request with a streaming response is counted when it has ended.
    if (event !== 'begun') known.times += 1;
    return false;
  }
}

/** `made`: a resource was created or deleted. `reached`: a guest was read or got a request. */
function classOf(entry: RequestEntry): ListedClass | 'made' | 'reached' {
  const { decision, status, made, reached, route } = entry;
  if (decision !== 'allowed') return decision;
  if (made !== undefined && made.length > 0) return 'made';
  if (reached) return 'reached';
  if (status >= 500) return 'broken';
  if (status >= 400) return 'failed';
  const { method, readsGuest } = (route === undefined ? undefined : routes[route]) ?? {};
  if (method === 'DELETE') return 'made';
  return readsGuest || (method !== undefined && method !== 'GET') ? 'reached' : 'listed';
}
