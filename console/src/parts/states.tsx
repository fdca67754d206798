// What a page shows instead of its content: that it loads, that there is nothing, or why it failed.
import { ForbiddenError } from '@sandboxd/client';
import type { ComponentChildren } from 'preact';
import { requestIdOf, toSentence } from '../session/session.ts';
import { Button } from './button.tsx';

export function Loading({ what }: { readonly what: string }) {
  return (
    <p class="state-note" role="status">
      Loading {what}…
    </p>
  );
}

export function Empty({
  title,
  children,
}: {
  readonly title: string;
  readonly children?: ComponentChildren;
}) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

/** The daemon's own sentence, and the id by which an operator finds the request in its log. */
export function Problem({ error, onRetry }: { readonly error: unknown; readonly onRetry?: () => void }) {
  const requestId = requestIdOf(error);
  return (
    <div class="empty" role="alert">
      <h2>{error instanceof ForbiddenError ? 'This key may not see this' : 'That did not work'}</h2>
      <p class="untrusted">{toSentence(error)}</p>
      {requestId !== undefined && (
        <p class="hint">
          Request <code>{requestId}</code>
        </p>
      )}
      {onRetry && <Button onClick={onRetry}>Try again</Button>}
    </div>
  );
}
