// Recipe → ResolvedRecipe: merges extended recipes, fills in defaults, and makes the order canonical.
import { BuilderError } from '../errors.ts';
import { digestValue } from '../lib/digest.ts';
import type { NpmRuntime, Recipe, RecipeFile, RecipeService } from './recipe.ts';

export type ResolvedRecipe = {
  name: string;
  description: string;
  suite: string;
  variant: string;
  packages: string[];
  /** Absent: none. */
  users?: string[];
  files: RecipeFile[];
  env: Record<string, string>;
  workdir: string;
  npmRuntime?: NpmRuntime;
  npmPackages: string[];
  /** Absent: none. */
  service?: RecipeService;
};

export type RecipeBook = ReadonlyMap<string, Recipe>;

const DEFAULT_SUITE = 'bookworm';
const DEFAULT_VARIANT = 'minbase';

/** Throws `recipe_unknown` for a missing parent and `recipe_invalid` for a cycle. */
export function resolveRecipe(recipe: Recipe, book: RecipeBook): ResolvedRecipe {
  const chain = [recipe];
  for (let parentName = recipe.extends; parentName !== undefined; ) {
    if (chain.some((member) => member.name === parentName)) {
      const circle = [...chain.map((member) => member.name).reverse(), parentName].join(' → ');
      throw new BuilderError('recipe_invalid', `recipe ${recipe.name} extends itself: ${circle}`);
    }
    const parent = findRecipe(book, parentName);
    chain.unshift(parent);
    parentName = parent.extends;
  }
  const npmRuntime = lastDefined(chain.map((member) => member.npmRuntime));
  const service = lastDefined(chain.map((member) => member.service));
  const users = [...new Set(chain.flatMap((member) => member.users))].sort();
  return {
    name: recipe.name,
    description: recipe.description,
    suite: lastDefined(chain.map((member) => member.suite)) ?? DEFAULT_SUITE,
    variant: lastDefined(chain.map((member) => member.variant)) ?? DEFAULT_VARIANT,
    packages: [...new Set(chain.flatMap((member) => member.packages))].sort(),
    ...(users.length > 0 && { users }),
    files: mergeFiles(chain.flatMap((member) => member.files)),
    env: Object.assign({}, ...chain.map((member) => member.env)),
    workdir: lastDefined(chain.map((member) => member.workdir)) ?? '/',
    npmPackages: [...new Set(chain.flatMap((member) => member.npmPackages))].sort(),
    ...(npmRuntime === undefined ? {} : { npmRuntime }),
    ...(service === undefined ? {} : { service }),
  };
}

export function findRecipe(book: RecipeBook, name: string): Recipe {
  const recipe = book.get(name);
  if (recipe !== undefined) return recipe;
  const known = [...book.keys()].sort().join(', ');
  throw new BuilderError('recipe_unknown', `there is no recipe named "${name}"; known: ${known}`);
}

export function recipeDigest(recipe: ResolvedRecipe): string {
  return digestValue(recipe);
}

function mergeFiles(files: RecipeFile[]): RecipeFile[] {
  const byPath = new Map(files.map((file) => [file.path, file]));
  return [...byPath.values()].sort((a, b) => (a.path < b.path ? -1 : 1));
}

function lastDefined<T>(values: (T | undefined)[]): T | undefined {
  return values.findLast((value) => value !== undefined);
}
