// Records of sandboxes and snapshots end with them, however they are deleted.
import type { Logger } from 'pino';
import type { LifecycleEvents } from '../sandboxes/lifecycle-events.ts';
import type { SandboxRecords } from './sandbox-records.ts';
import type { TemplateRecords } from './templates/template-records.ts';

export function forgetDeleted(
  events: Pick<LifecycleEvents, 'subscribe'>,
  { records, templates, log }: { records: SandboxRecords; templates: TemplateRecords; log: Logger },
): void {
  const failed = (err: unknown): void => log.warn({ err }, 'cannot remove a record of E2B');
  events.subscribe((event) => {
    if (event.kind === 'deleted') records.delete(event.sandbox).catch(failed);
    if (event.kind === 'snapshot-deleted') templates.forgetSnapshot(event.snapshot).catch(failed);
  });
}
