// Links to ports: URLs that let every client that has them use one port of a sandbox, for a time.
import { linkList, linkPath, linkRequest, madeLink } from '../schemas/link.ts';
import { portPath } from '../schemas/port.ts';
import { SANDBOX_ID } from './examples.ts';
import { json, jsonBody, type Route } from './route.ts';

const ERRORS = {
  404: 'the sandbox does not exist',
  501: 'the daemon has no ingress, which --ingress-listen enables',
} as const;
const LINK = {
  id: 'link_5l2k8q0vb3c1e',
  created_at: '2026-03-14T15:09:26.535Z',
  expires_at: '2026-03-14T16:09:26.535Z',
} as const;
const PARAMS = { id: SANDBOX_ID, port: '3000' } as const;
const URL = `https://3000-${SANDBOX_ID.replace('_', '-')}.sandboxes.example.com/?sandbox_link=sbl_…`;

export const linkRoutes = {
  listLinks: {
    method: 'GET',
    path: '/sandboxes/:id/ports/:port/links',
    tag: 'ports',
    summary: 'List the links to a port',
    access: 'view',
    params: portPath,
    answers: [
      { status: 200, description: 'the valid links, without their secrets', content: json(linkList) },
    ],
    errors: ERRORS,
    example: { params: PARAMS, answer: { links: [LINK] } },
  },
  makeLink: {
    method: 'POST',
    path: '/sandboxes/:id/ports/:port/links',
    tag: 'ports',
    summary: 'Make a link to a port',
    description:
      'Every client that has the URL can use the port until the link ends, is deleted, or its key is revoked. A browser gets a ' +
      'cookie at its first visit. A port that is closed is opened for URLs, privately.',
    access: 'connect',
    params: portPath,
    body: jsonBody(linkRequest),
    answers: [{ status: 201, description: 'the link', content: json(madeLink) }],
    errors: { ...ERRORS, 503: 'the sandbox has 256 links already' },
    example: { params: PARAMS, body: { expires_s: 3600 }, answer: { ...LINK, url: URL } },
  },
  deleteLink: {
    method: 'DELETE',
    path: '/sandboxes/:id/ports/:port/links/:link',
    tag: 'ports',
    summary: 'Delete a link',
    description: 'Open connections by it end within seconds.',
    access: 'connect',
    params: linkPath,
    answers: [{ status: 204, description: 'the link is deleted' }],
    errors: { ...ERRORS, 404: 'the sandbox or the link does not exist' },
    example: { params: { ...PARAMS, link: LINK.id } },
  },
} as const satisfies Record<string, Route>;
