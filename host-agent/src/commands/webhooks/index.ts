// `sandboxd webhooks …`: delivery of events to URLs.
import {
  EVENT_KINDS,
  FLEET_EVENT_KINDS,
  type LabelSelector,
  MAX_LABELS,
  parseLabelSelector,
  show,
} from '@sandboxd/api';
import { UsageError } from '@sandboxd/api/command-line';
import { parseWebUrl } from '../../lib/authority.ts';
import { WebhookRegistry } from '../../webhooks/index.ts';
import type { Command, Group } from '../command.ts';
import { checkName } from '../keys/index.ts';
import { printOnce } from '../print-once.ts';
import { SHARED_FLAGS, withStore } from '../shared-config.ts';

/** Those that a host records. */
const KINDS = EVENT_KINDS.filter((kind) => !FLEET_EVENT_KINDS.includes(kind));
const JSON_FLAG = { json: { type: 'boolean', help: 'print JSON' } } as const;

const add: Command = {
  name: 'add',
  operands: '<name> <url>',
  summary: 'deliver events to a URL from now on, and print the signing secret, only this once',
  flags: {
    ...SHARED_FLAGS,
    kinds: {
      type: 'string',
      placeholder: 'kind,kind',
      help: `only events of these kinds: ${KINDS.join(', ')}`,
    },
    tenant: {
      type: 'string',
      placeholder: 'name',
      help: 'only events of this tenant; default: of all tenants',
    },
    label: {
      type: 'string',
      multiple: true,
      placeholder: 'key[=value]',
      help: 'only events whose sandbox or snapshot had this label; repeatable, and all must match',
    },
  },
  run: async (input) => {
    const [name = '', url = ''] = input.operands;
    const [kinds, tenant] = [input.text('kinds')?.split(','), input.text('tenant')];
    const labels = toSelectors(input.texts('label'));
    const unknown = kinds?.find((kind) => !(KINDS as readonly string[]).includes(kind));
    if (unknown !== undefined)
      throw new UsageError(`there is no kind ${JSON.stringify(unknown)}; known are ${KINDS.join(', ')}`);
    const newWebhook = {
      name: checkName(name, 'webhook'),
      url: checkUrl(url),
      ...(kinds !== undefined && { kinds }),
      ...(tenant !== undefined && { tenant: checkName(tenant, 'tenant') }),
      ...(labels.length > 0 && { labels }),
    };
    await withStore(input, async (store) => {
      const registry = new WebhookRegistry(store);
      const secret = await registry.add(newWebhook);
      await printOnce(`${secret}\n`, () => registry.remove(name));
    });
    process.stderr.write(`webhook ${name} receives events from now on; its secret is not shown again\n`);
  },
};

const list: Command = {
  name: 'list',
  operands: '',
  summary: 'list the webhooks with their queued and dead events',
  flags: { ...SHARED_FLAGS, ...JSON_FLAG },
  run: async (input) => {
    const all = await withStore(input, (store) => new WebhookRegistry(store).list());
    const shown = all.map(({ name, url, kinds, tenant, labels = [], createdAtMs, queued, dead, missed }) => ({
      name,
      url,
      kinds: kinds ?? 'all',
      tenant,
      labels: labels.length > 0 ? labels.map(formatSelector) : undefined,
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
  summary: 'remove webhooks and their queued events',
  flags: SHARED_FLAGS,
  run: async (input) => {
    await withStore(input, async (store) => {
      for (const name of input.operands) await new WebhookRegistry(store).remove(name);
    });
  },
};

const dead: Command = {
  name: 'dead',
  operands: '[name]',
  summary: 'list the dead events, oldest first',
  flags: { ...SHARED_FLAGS, ...JSON_FLAG },
  run: async (input) => {
    const letters = await withStore(input, (store) => new WebhookRegistry(store).dead(input.operands[0]));
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
  summary: 'deliver dead events again (default: all of the webhook)',
  flags: SHARED_FLAGS,
  run: async (input) => {
    const [name = '', ...events] = input.operands;
    const count = await withStore(input, (store) => new WebhookRegistry(store).resend(name, events));
    print(`${name}: ${count} events are queued again`);
  },
};

export const webhooks: Group = {
  name: 'webhooks',
  summary:
    'Delivery of events to URLs by signed requests. A running daemon applies changes within two seconds.',
  commands: [add, list, remove, dead, resend],
};

/** Throws UsageError. Loopback and private addresses are allowed, because the operator is root on this host. */
function checkUrl(text: string): string {
  const url = parseWebUrl(text);
  if (url === undefined || url.username !== '' || url.password !== '' || url.hash !== '')
    throw new UsageError(
      `the URL must be http:// or https://, of printable ASCII characters without blanks and backslashes, and without a user, a password or a fragment, got ${show(text)}`,
    );
  return url.href;
}

/** Throws UsageError. */
function toSelectors(texts: readonly string[]): LabelSelector[] {
  if (texts.length > MAX_LABELS) throw new UsageError(`--label may be given ${MAX_LABELS} times at most`);
  return texts.map((text) => {
    const selector = parseLabelSelector(text);
    if (selector !== undefined) return selector;
    throw new UsageError(`--label must be key or key=value, in the syntax of labels, got ${show(text)}`);
  });
}

function formatSelector({ key, value }: LabelSelector): string {
  return value === undefined ? key : `${key}=${value}`;
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
