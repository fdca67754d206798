// Links to ports of a sandbox: URLs that let every client that has them use one port.
import { z } from 'zod';
import { integer, optional, withDefault } from '../input/fields.ts';
import { DEFAULT_LINK_S, MAX_LINK_S } from '../limits.ts';
import { dateTime, warnings, word } from './answers.ts';
import { portPath } from './port.ts';

export const LINK_METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const;

const ID_ERROR = 'link {name} {value} is malformed; expected link_ and 13 characters of 0-9 and a-v';

export const linkPath = portPath.extend({
  link: z
    .string({ error: ID_ERROR })
    .regex(/^link_[0-9a-v]{13}$/, { error: ID_ERROR })
    .meta({ title: 'link id', description: 'id of the link: link_ and 13 characters of 0-9 and a-v' }),
});

const METHODS_ERROR = `must be a list of ${LINK_METHODS.join(', ')}`;

export const linkRequest = z
  .object(
    {
      expires_s: withDefault(integer(1, MAX_LINK_S), DEFAULT_LINK_S, 'seconds after which the link ends'),
      methods: optional(
        z
          .array(z.enum(LINK_METHODS, { error: METHODS_ERROR }), { error: METHODS_ERROR })
          .min(1, { error: METHODS_ERROR })
          .max(LINK_METHODS.length, { error: METHODS_ERROR }),
        'HTTP methods that the link allows, GET also HEAD and WebSockets; default: all',
      ),
    },
    { error: 'must be a JSON object' },
  )
  .describe('a link to make');

const fields = {
  id: word('its id'),
  created_at: dateTime('when it was made'),
  expires_at: dateTime('when it ends'),
  methods: z.array(word('an HTTP method')).optional().describe('what it allows; absent: all'),
};

export const madeLink = z
  .object({ ...fields, url: word('the URL with the secret of the link, which is shown only here'), warnings })
  .describe('a new link');

export const linkList = z
  .object({ links: z.array(z.object(fields).describe('a link')).describe('oldest first') })
  .describe('valid links of a port');
