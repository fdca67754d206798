// Creates a sandbox, and shows the lines of a terminal that do the same.
import { useState } from 'preact/hooks';
import { useInventory } from '../live/use-inventory.ts';
import { Button } from '../parts/button.tsx';
import { Copyable } from '../parts/copy.tsx';
import { Dialog } from '../parts/dialog.tsx';
import { useLoaded } from '../parts/use-loaded.ts';
import { daemonUrl, endIfRefused, requestIdOf, toSentence } from '../session/session.ts';
import { useSession } from '../session/use-session.ts';
import { navigate } from '../shell/router.ts';
import { EMPTY_FORM, type Form, parseForm, toCommand, toCurl } from './create-lines.ts';

export function CreateDialog({ onClose }: { readonly onClose: () => void }) {
  const { client, hasKey } = useSession();
  const inventory = useInventory();
  const profiles = useLoaded('profiles', (signal) => client.profiles({ signal })).value;
  const [form, setForm] = useState<Form>(EMPTY_FORM);
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();
  const { request, problems } = parseForm(form);
  const isSound = Object.keys(problems).length === 0;
  const fallback = profiles?.default ?? 'base';

  const field = (name: keyof Form, label: string, placeholder: string, hint?: string) => (
    <label class="field">
      <span>{label}</span>
      <input
        value={form[name]}
        placeholder={placeholder}
        spellcheck={false}
        autocomplete="off"
        aria-invalid={problems[name] !== undefined}
        onInput={({ currentTarget }) => setForm({ ...form, [name]: currentTarget.value })}
      />
      {problems[name] !== undefined && (
        <small class="problem-text" role="alert">
          {problems[name]}
        </small>
      )}
      {hint !== undefined && <small>{hint}</small>}
    </label>
  );
  const onSubmit = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (!isSound) return;
    setBusy(true);
    setError(undefined);
    try {
      const { id } = await client.sandboxes.create({ ...request, idempotencyKey: newKey() });
      inventory.put(await client.sandboxes.get(id).info());
      onClose();
      navigate(['sandboxes', id]);
    } catch (problem) {
      if (!endIfRefused(problem)) setError(problem);
      setBusy(false);
    }
  };

  return (
    <Dialog title="Create a sandbox" isWide onClose={onClose}>
      <form class="create" onSubmit={(event) => void onSubmit(event)}>
        <div class="create-fields">
          <div class="segments" role="group" aria-label="Start from">
            {(['profile', 'image'] as const).map((source) => (
              <button
                key={source}
                type="button"
                aria-pressed={form.source === source}
                onClick={() => setForm({ ...form, source })}
              >
                {source === 'profile' ? 'Profile' : 'Container image'}
              </button>
            ))}
          </div>
          {form.source === 'image' && field('image', 'Image', 'nginx:alpine')}
          {form.source === 'profile' && (
            <label class="field">
              <span>Profile</span>
              <select
                value={form.profile}
                onChange={({ currentTarget }) => setForm({ ...form, profile: currentTarget.value })}
              >
                <option value="">{fallback} (default)</option>
                {profiles?.profiles
                  .filter((name) => name !== profiles.default)
                  .map((name) => (
                    <option key={name} value={name}>
                      {name}
                    </option>
                  ))}
              </select>
            </label>
          )}
          {field('name', 'Name', 'none')}
          {field('labels', 'Labels', 'team=compilers ready')}
          <div class="field-row">
            {field('vcpus', 'CPUs', 'default')}
            {field('memory', 'Memory, MiB', 'default')}
            {field('timeout', 'Ends after, minutes', 'never')}
          </div>
          {field('hosts', 'Hosts that it may reach', 'none', 'Such as *.debian.org github.com')}
        </div>
        <div class="create-lines">
          {isSound && <Copyable label="sandbox" text={toCommand(request, fallback)} />}
          {isSound && <Copyable label="curl" text={toCurl(daemonUrl, request, hasKey)} />}
        </div>
        {error !== undefined && (
          <p class="problem-text" role="alert">
            {toSentence(error)} {requestIdOf(error) && <code>{requestIdOf(error)}</code>}
          </p>
        )}
        <footer class="dialog-foot">
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" isSubmit isDisabled={isBusy}>
            {isBusy ? 'Creating…' : 'Create'}
          </Button>
        </footer>
      </form>
    </Dialog>
  );
}

/** Browsers have `crypto.randomUUID` only with TLS or on loopback. */
function newKey(): string {
  return `console-${[...crypto.getRandomValues(new Uint32Array(4))].map((each) => each.toString(36)).join('')}`;
}
