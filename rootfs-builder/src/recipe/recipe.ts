// The schema of a recipe file, and the error messages for invalid ones.
import { ARCHITECTURE } from '@sandboxd/proto';
import { z } from 'zod';
import { BuilderError } from '../errors.ts';

/** Directories of the guest's kernel or agent; a recipe's files would be hidden or harmful there. */
const RESERVED_DIRECTORIES = ['/.sandbox', '/dev', '/proc', '/run', '/sys'];

const profileName = z
  .string()
  .regex(
    /^[a-z0-9][a-z0-9._-]{0,62}$/,
    'lower-case letters, digits, ".", "_" and "-", at most 63 characters',
  );

const guestPath = z
  .string()
  .max(4095)
  .refine(
    (path) => isNormalPath(path),
    'an absolute path without "." or ".." parts and without a "/" at its end',
  );

const writablePath = guestPath.refine(
  (path) => path !== '/' && !RESERVED_DIRECTORIES.some((top) => path === top || path.startsWith(`${top}/`)),
  `not "/" and not below ${RESERVED_DIRECTORIES.join(', ')}`,
);

// No commas or spaces: mmdebstrap gets the names as one comma-separated option.
const packageName = z
  .string()
  .regex(/^[a-z0-9][a-z0-9+.-]+(=[A-Za-z0-9.+:~-]+)?$/, 'a Debian package name, optionally with "=version"');

const userName = z
  .string()
  .regex(/^[a-z][a-z0-9_-]{0,31}$/, 'lower-case letters, digits, "_" and "-", at most 32 characters');

const recipeFile = z.strictObject({
  path: writablePath,
  mode: z
    .string()
    .regex(/^0?[0-7]{3,4}$/, 'an octal mode such as "0644"')
    .default('0644'),
  content: z.string(),
});

const npmPackage = z.string().regex(/^(@[a-z0-9._-]+\/)?[a-z0-9][a-z0-9._-]*$/, 'an npm package name');

const npmRuntime = z.strictObject({
  /** `{arch}` is this host's architecture in npm's spelling: a runtime has a package for each. */
  package: z
    .string()
    .transform((name) => name.replace('{arch}', ARCHITECTURE.npm))
    .pipe(npmPackage),
  from: z
    .string()
    .refine((path) => isNormalPath(`/${path}`) && path !== '', 'a relative path inside the npm package'),
  to: writablePath,
});

const environment = z.record(
  z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'a variable name'),
  z.string().refine((value) => !value.includes('\0'), 'text without zero bytes'),
);

/** A program that runs in each sandbox of the profile from its beginning. */
const service = z.strictObject({
  cmd: z.array(z.string().min(1)).min(1).max(64),
  cwd: guestPath.optional(),
  user: userName.optional(),
  env: environment.optional(),
  /** It answers there when it is ready; then the sandboxes of the profile are copies of a guest in which it runs. */
  readyPort: z.number().int().min(1).max(65_535),
});

const recipeSchema = z.strictObject({
  name: profileName,
  description: z.string().max(200).default(''),
  extends: profileName.optional(),
  suite: z
    .string()
    .regex(/^[a-z][a-z0-9-]*$/, 'a Debian suite name such as "bookworm"')
    .optional(),
  variant: z.enum(['apt', 'minbase', 'important', 'standard']).optional(),
  packages: z.array(packageName).default([]),
  /** Each gets a home directory below /home, a group of its name, and bash. */
  users: z.array(userName).default([]),
  files: z.array(recipeFile).default([]),
  env: environment.default({}),
  workdir: guestPath.optional(),
  npmRuntime: npmRuntime.optional(),
  /** npm packages that bundle their dependencies, as npm itself does. */
  npmPackages: z.array(npmPackage).default([]),
  service: service.optional(),
});

/** A recipe as written. In a `ResolvedRecipe`, everything that it extends is filled in. */
export type Recipe = z.infer<typeof recipeSchema>;
export type RecipeFile = z.infer<typeof recipeFile>;
export type NpmRuntime = z.infer<typeof npmRuntime>;
export type RecipeService = z.infer<typeof service>;

/** Text or JSON value → recipe. `origin` (a path or name) identifies it in error messages. */
export function parseRecipe(input: unknown, origin: string): Recipe {
  const result = recipeSchema.safeParse(typeof input === 'string' ? parseJson(input, origin) : input);
  if (result.success) return result.data;
  const lines = result.error.issues.map(
    (issue) => `  ${issue.path.join('.') || '(recipe)'}: ${issue.message}`,
  );
  throw new BuilderError('recipe_invalid', `recipe ${origin} is not valid:\n${lines.join('\n')}`);
}

function parseJson(text: string, origin: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new BuilderError('recipe_invalid', `recipe ${origin} is not JSON: ${(cause as Error).message}`, {
      cause,
    });
  }
}

function isNormalPath(path: string): boolean {
  if (path === '/') return true;
  if (!path.startsWith('/') || path.includes('\0')) return false;
  return path
    .slice(1)
    .split('/')
    .every((part) => part !== '' && part !== '.' && part !== '..');
}
