// Lists of sandboxes, their filters, and deletes of all that match.
import { z } from 'zod';
import { rule } from '../input/fields.ts';
import { errorCode, warnings, word } from './answers.ts';
import { sandboxId } from './id.ts';
import { labelSelectors } from './label.ts';
import { nextCursor, pageQuery, unreachableHosts } from './page.ts';
import { SANDBOX_STATES, sandbox } from './sandbox.ts';

export const sandboxList = z
  .object({
    sandboxes: z.array(sandbox).describe('oldest first'),
    next_cursor: nextCursor,
    unreachable_hosts: unreachableHosts,
    store_error: word(
      'why the snapshot store could not be asked: paused sandboxes that are only there may be missing',
    ).optional(),
    warnings,
  })
  .describe('sandboxes');

const filters = {
  label: labelSelectors,
  state: z
    .enum([...SANDBOX_STATES, ''], {
      error: `query {name} must be one of ${SANDBOX_STATES.join(', ')}, got {value}`,
    })
    .optional()
    .transform((value) => value || undefined)
    .meta({ description: 'only sandboxes in this state; starting matches none' }),
  name: filterText('only the sandbox of this name'),
  profile: filterText('only sandboxes of this profile'),
  image: filterText('only sandboxes of this image: a reference, or a digest'),
};

function filterText(description: string) {
  return z
    .string()
    .optional()
    .transform((value) => value || undefined)
    .meta({ description });
}

export const listSandboxesQuery = pageQuery.extend(filters);

export const deleteSandboxesQuery = rule(
  z.object(filters),
  'at least one filter is given',
  (query) => Object.values(query).some((value) => value !== undefined),
  {
    error:
      'must have at least one of label, state, name, profile, image: without a filter, every sandbox would be deleted',
  },
);

export const deletedSandboxes = z
  .object({
    deleted: z.array(sandboxId).describe('the sandboxes that were deleted'),
    failed: z
      .array(
        z.object({
          id: sandboxId,
          code: errorCode,
          error: word('why it could not be deleted'),
        }),
      )
      .describe('the sandboxes that could not be deleted, and still exist'),
    unreachable_hosts: unreachableHosts,
    warnings,
  })
  .describe('result of deleting several sandboxes');
