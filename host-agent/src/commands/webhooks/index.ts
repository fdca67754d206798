// `sandboxd webhooks …`: who is told what happens.
import { EVENT_KINDS, show } from '@sandboxd/api';
import { parseWebUrl } from '../../lib/web-url.ts';
import { WebhookRegistry } from '../../webhooks/index.ts';
import { type Command, type Group, UsageError } from '../command.ts';
import { handOver } from '../hand-over.ts';
import { checkName } from '../keys/flags.ts';
import { withStore } from '../registry.ts';
import { SHARED_FLAGS } from '../shared-config.ts';

const JSON_FLAG = { json: { type: 'boolean', help: 'as JSON' } } as const;

const add: Command = {
  name: 'add',
  operands: '<name> <url>',
  summary: 'tell a URL what happens from now on, and print the secret that signs it, this once',
  flags: {
    ...SHARED_FLAGS,
    kinds: { type: 'string', placeholder: 'kind,kind', help: `only these: ${EVENT_KINDS.join(', ')}` },
    tenant: { type: 'string', placeholder: 'name', help: 'only what is this tenant’s; else everybody’s' },
  },
  run: async (input) => {
    const [name = '', url = '', ...more] = input.names;
    if (url === '' || more.length > 0) throw new UsageError('a name and a URL are needed');
    const [kinds, tenant] = [input.text('kinds')?.split(','), input.text('tenant')];
    const unknown = kinds?.find((kind) => !(EVENT_KINDS as readonly string[]).includes(kind));
    if (unknown !== undefined)
      throw new UsageError(
        `there is no kind ${JSON.stringify(unknown)}; known are ${EVENT_KINDS.join(', ')}`,
      );
    const wanted = {
      name: checkName(name, 'webhook'),
      url: checkUrl(url),
      ...(kinds !== undefined && { kinds }),
      ...(tenant !== undefined && { tenant: checkName(tenant, 'tenant') }),
    };
    await withStore(input, async (store) => {
      const registry = new WebhookRegistry(store);
      const secret = await registry.add(wanted);
      await handOver(`${secret}\n`, () => registry.remove(name));
    });
    process.stderr.write(
      `webhook ${name} is told what happens from now on; this is the only time that its secret is shown\n`,
    );
  },
};

const list: Command = {
  name: 'list',
  operands: '',
  summary: 'show the webhooks, what they have not taken and what was given up',
  flags: { ...SHARED_FLAGS, ...JSON_FLAG },
  run: async (input) => {
    const all = await withStore(input, (store) => new WebhookRegistry(store).list());
    const shown = all.map(({ name, url, kinds, tenant, createdAtMs, queued, dead, missed }) => ({
      name,
      url,
      kinds: kinds ?? 'all',
      tenant,
      created_at: new Date(createdAtMs).toISOString(),
      queued,
      dead,
      missed,
    }));
    if (input.isSet('json')) return print(JSON.stringify(shown, null, 2));
    if (shown.length === 0)
      process.stderr.write('there are no webhooks; `sandboxd webhooks add <name> <url>` makes one\n');
    for (const { name, url, queued, dead } of shown)
      print(`${name.padEnd(20)} ${queued} queued, ${dead} dead   ${url}`);
  },
};

const remove: Command = {
  name: 'rm',
  operands: '<name>…',
  summary: 'tell them nothing any more, and forget what they have not taken',
  flags: SHARED_FLAGS,
  run: async (input) => {
    if (input.names.length === 0) throw new UsageError('the name of a webhook is needed');
    await withStore(input, async (store) => {
      for (const name of input.names) await new WebhookRegistry(store).remove(name);
    });
  },
};

const dead: Command = {
  name: 'dead',
  operands: '[name]',
  summary: 'show the events that were given up, oldest first',
  flags: { ...SHARED_FLAGS, ...JSON_FLAG },
  run: async (input) => {
    const letters = await withStore(input, (store) => new WebhookRegistry(store).dead(input.names[0]));
    const shown = letters.map(({ webhook, eventId, kind, subject, attempts, problem }) => ({
      webhook,
      event: eventId,
      kind,
      subject,
      attempts,
      problem,
    }));
    if (input.isSet('json')) return print(JSON.stringify(shown, null, 2));
    for (const each of shown)
      print(
        `${each.webhook} ${each.event} ${each.kind} ${each.subject}: ${each.problem}, ${each.attempts} times`,
      );
  },
};

const resend: Command = {
  name: 'resend',
  operands: '<name> [event…]',
  summary: 'try events again that were given up, all unless some are named',
  flags: SHARED_FLAGS,
  run: async (input) => {
    const [name, ...events] = input.names;
    if (name === undefined) throw new UsageError('the name of a webhook is needed');
    const count = await withStore(input, (store) => new WebhookRegistry(store).resend(name, events));
    print(`${name}: ${count} events are tried again`);
  },
};

export const webhooks: Group = {
  name: 'webhooks',
  summary:
    'Who is told what happens, by signed requests. The daemon may run meanwhile: it looks every two seconds.',
  commands: [add, list, remove, dead, resend],
};

/** Throws UsageError. Any host may be named, this one and private networks too: who runs this is root here. */
function checkUrl(text: string): string {
  const url = parseWebUrl(text);
  if (url === undefined || url.username !== '' || url.password !== '' || url.hash !== '')
    throw new UsageError(
      `the URL must be http:// or https://, of printable ASCII characters without blanks and backslashes, and without a user, a password or a fragment, got ${show(text)}`,
    );
  return url.href;
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
