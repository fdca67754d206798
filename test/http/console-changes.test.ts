// What a user does in the console while the sandboxes, the files and the other clients change.
import { Client } from '@sandboxd/client';
import t from 'tap';
import { AppError } from '../../host-agent/src/lib/errors.ts';
import type { SandboxCommands } from '../../host-agent/src/sandboxes/commands.ts';
import { testConsole } from '../support/console.ts';
import { startMemoryDaemon } from '../support/memory-host/daemon.ts';
import { until } from '../support/until.ts';
import { type ConsolePage, openConsole, serveConsole } from './console-daemon.ts';
import { serve } from './support.ts';

t.setTimeout(180_000);

t.test('those are deleted that the question showed, and what is not shown is not selected', async (t) => {
  const { url } = await serveConsole(t);
  const client = new Client({ host: url });
  const make = (name: string, team: string) => client.sandboxes.create({ name, labels: { team } });
  const old = await make('a-old', 'a');
  await make('b-old', 'b');
  const app = await openConsole(t, url);
  await app.shows('2 sandboxes');
  await app.click('Select all');
  await app.shows('2 selected');
  await app.open('#/sandboxes?label=team%3Da');
  await app.shows('1 selected');
  await app.open('#/sandboxes');
  await app.shows('2 sandboxes');
  await app.shows('1 selected');
  await app.click('Delete');
  await app.shows('Delete 1 sandbox?');
  await app.until(`document.querySelector('dialog .names').innerText.includes('${old.id}')`, 'the id');
  // The rows change behind the question.
  await make('a-new', 'a');
  await app.shows('3 sandboxes');
  await app.page.evaluate(`document.querySelector('[aria-label="Select all"]').click(); 0`);
  await app.shows('3 selected');
  await app.shows('Delete 1 sandbox?');
  await app.page.evaluate(`[...document.querySelectorAll('dialog[open] button')].at(-1).click(); 0`);
  await app.shows('Deleted 1 sandbox');
  await app.shows('2 sandboxes');
  t.same((await client.sandboxes.list()).map(({ name }) => name).sort(), ['a-new', 'b-old']);

  await app.page.press('c');
  await app.fill('Ends after, minutes', 'soon');
  await app.shows('Such as 90, 30s, 10m or 2h');
  await app.hides('curl -X POST');
  await app.page.evaluate(`document.querySelector('form.create').requestSubmit(); 0`);
  await app.fill('Ends after, minutes', '30m');
  await app.shows('"timeout_s":1800');
  await app.click('Create');
  await app.shows('Properties');
  t.equal((await client.sandboxes.list()).length, 3);
  t.same(app.page.problems, []);
});

t.test('a terminal of another client is read, and its input is taken only on demand', async (t) => {
  const { journal } = await startMemoryDaemon(t);
  const { url, sandboxes } = await serve(t, { console: await testConsole(), events: journal });
  const { id } = sandboxes.add();
  const guest = new TerminalGuest();
  sandboxes.commandCalls = guest.calls;
  guest.hasWriter = true;
  // Programs asked the terminal of that time what it is.
  guest.stored = 'stored\u001b[c\u001b[5n\r\n';
  const app = await openConsole(t, url, `#/sandboxes/${id}?tab=terminal`);
  const { page } = app;
  await app.shows('Another client types in this terminal.');
  await app.until(`document.querySelector('.xterm-rows').innerText.includes('stored')`, 'the output');
  await page.press('x');
  t.same(
    guest.asked.map(({ input }) => input),
    ['write', 'none'],
  );
  t.equal(guest.resizes, 0);
  await app.click('Take over');
  await app.hides('Another client types in this terminal.');
  const isAttached = () => guest.asked.at(-1)?.input === 'take' && guest.resizes > 0;
  await until(isAttached, 'the takeover');
  await page.press('y');
  await until(() => guest.typed === 'y', 'the key');

  await setHidden(app, true);
  await until(() => guest.isLeft, 'the end of the attachment');
  guest.hasWriter = false;
  const before = guest.resizes;
  await setHidden(app, false);
  // The size follows when keys are sent, too.
  await until(() => guest.asked.length === 4 && guest.resizes > before, 'the next attachment');
  t.match(guest.asked.at(-1), { input: 'write', fromSeq: 1 }, 'it continues where it was');
  await page.press('z');
  await until(() => guest.typed === 'yz', 'the key, without answers to old queries');
  guest.print('new\u001b[5n');
  await until(() => guest.typed === 'yz\u001b[0n', 'the answer to a new query');

  guest.lose('another client has taken over the input');
  await app.shows('Another client types in this terminal.');
  t.equal(guest.asked.at(-1)?.input, 'none');
  t.same(page.problems, []);
});

const setHidden = ({ page }: ConsolePage, isHidden: boolean) =>
  page.evaluate(`Object.defineProperty(document, 'hidden', { value: ${isHidden}, configurable: true });
    document.dispatchEvent(new Event('visibilitychange')); 0`);

type Attach = SandboxCommands['attach'];

/** One terminal, whose input a client may have. */
class TerminalGuest {
  readonly asked: Parameters<Attach>[1][] = [];
  stored = '';
  hasWriter = false;
  typed = '';
  resizes = 0;
  isLeft = false;
  #events: Parameters<Attach>[2] | undefined;
  #next = 1;

  readonly calls: Partial<SandboxCommands> = {
    list: async () => [this.#info],
    get: async () => this.#info,
    attach: (_id, request, events) => {
      this.asked.push(request);
      this.isLeft = false;
      queueMicrotask(() => {
        if (request.input === 'write' && this.hasWriter)
          return events.failed(new AppError('conflict', 'another client writes to the command') as never);
        this.#events = events;
        if (request.fromSeq === 0) this.#send(0, this.stored);
      });
      return {
        consumed: () => undefined,
        closeStdin: () => undefined,
        signal: () => undefined,
        resize: () => void this.resizes++,
        cancel: () => {
          this.isLeft = true;
        },
        write: (chunk) => {
          this.typed += Buffer.from(chunk).toString();
          return true;
        },
      };
    },
  };

  get #info() {
    return {
      ...{
        id: 'cmd_0123456789abc',
        cmd: ['bash'],
        isCmdCut: false,
        isDetached: true,
        hasStdin: true,
        pid: 7,
      },
      ...{ startedUnixMs: 1000, tty: { cols: 80, rows: 24 } },
      output: { firstSeq: 0, nextSeq: this.#next, droppedBytes: 0 },
    } as never;
  }

  print(text: string): void {
    this.#send(this.#next++, text);
  }

  lose(message: string): void {
    this.#events?.failed(new AppError('conflict', message) as never);
  }

  #send(seq: number, text: string): void {
    const record = { kind: 'output', seq, stream: 'stdout', unixMs: 1, data: Buffer.from(text) };
    this.#events?.records([record] as never, 0);
  }
}
