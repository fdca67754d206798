// A line of code that can be copied.
import { Button } from './button.tsx';
import { attempt, notify } from './notices.tsx';

export function Copyable({ label, text }: { readonly label: string; readonly text: string }) {
  const copy = () =>
    attempt(async () => {
      // Browsers have a clipboard only with TLS or on loopback.
      if (!window.isSecureContext)
        throw new Error('Select the text to copy it: this browser needs TLS for more');
      await navigator.clipboard.writeText(text);
      notify('Copied');
    });
  return (
    <div class="copyable">
      <div class="copyable-head">
        <span>{label}</span>
        <Button kind="quiet" label={`Copy ${label}`} onClick={copy}>
          Copy
        </Button>
      </div>
      <pre>{text}</pre>
    </div>
  );
}
