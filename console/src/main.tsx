// The console: opens a session with the daemon that served this page, and shows it.
import '@xterm/xterm/css/xterm.css';
import './styles/base.css';
import './styles/parts.css';
import './styles/shell.css';
import './styles/sandboxes.css';
import './styles/sandbox.css';
import { render } from 'preact';
import { useStore } from './live/store.ts';
import { Button } from './parts/button.tsx';
import { KeyScreen } from './session/key-screen.tsx';
import { session, start } from './session/session.ts';
import { Shell } from './shell/shell.tsx';

function Console() {
  const current = useStore(session);
  switch (current.state) {
    case 'open':
      return <Shell session={current} />;
    case 'keyless':
      return <KeyScreen problem={current.problem} />;
    case 'unreachable':
      return (
        <main class="front">
          <div class="front-panel">
            <h1>No answer from the daemon</h1>
            <p class="untrusted">{current.problem}</p>
            <Button kind="primary" onClick={start}>
              Try again
            </Button>
          </div>
        </main>
      );
    case 'starting':
      return (
        <main class="front">
          <h1 class="hidden">sandboxd</h1>
          <p role="status">Connecting…</p>
        </main>
      );
  }
}

const root = document.getElementById('console');
if (root !== null) render(<Console />, root);
void start();
