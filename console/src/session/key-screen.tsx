// Asks for a key. It stays in memory, or in sessionStorage if the user wants that: never in a URL or cookie.
import { useEffect, useRef, useState } from 'preact/hooks';
import { Button } from '../parts/button.tsx';
import { connect } from './session.ts';

export function KeyScreen({ problem }: { readonly problem?: string | undefined }) {
  const [key, setKey] = useState('');
  const [isKept, setIsKept] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  const onSubmit = (event: Event): void => {
    event.preventDefault();
    if (key.trim() !== '') void connect(key.trim(), { isKept });
  };
  return (
    <main class="front">
      <form class="front-panel" onSubmit={onSubmit}>
        <h1>sandboxd</h1>
        <p>This daemon has keys. Enter one to see its sandboxes.</p>
        <label class="field">
          <span>Key</span>
          <input
            ref={field}
            type="password"
            autocomplete="off"
            spellcheck={false}
            value={key}
            aria-invalid={problem !== undefined}
            aria-describedby={problem === undefined ? undefined : 'key-problem'}
            onInput={({ currentTarget }) => setKey(currentTarget.value)}
          />
        </label>
        {problem !== undefined && (
          <p class="problem-text" id="key-problem" role="alert">
            {problem}
          </p>
        )}
        <label class="check">
          <input
            type="checkbox"
            checked={isKept}
            onChange={({ currentTarget }) => setIsKept(currentTarget.checked)}
          />
          <span>Keep it in this tab, over reloads</span>
        </label>
        <Button kind="primary" isSubmit>
          Open
        </Button>
        <p class="hint">
          An operator makes keys on the host with <code>sandboxd keys create</code>.
        </p>
      </form>
    </main>
  );
}
