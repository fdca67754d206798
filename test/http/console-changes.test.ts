// What a user does in the console while the sandboxes, the files and the other clients change.
import { Client } from '@sandboxd/client';
import t from 'tap';
import { openConsole, serveConsole } from './console-daemon.ts';

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
