// The built-in recipes, and the reader of an operator's own recipe files.
import { readFile } from 'node:fs/promises';
import base from '../../profiles/base.json' with { type: 'json' };
import code from '../../profiles/code.json' with { type: 'json' };
import e2bBase from '../../profiles/e2b-base.json' with { type: 'json' };
import node from '../../profiles/node.json' with { type: 'json' };
import python311 from '../../profiles/python-3.11.json' with { type: 'json' };
import { BuilderError, describeError } from '../errors.ts';
import { readPrograms } from './programs.ts';
import { parseRecipe, type Recipe } from './recipe.ts';
import type { RecipeBook } from './resolve.ts';

const builtinRecipes: RecipeBook = new Map(
  [base, python311, node, e2bBase, { ...code, files: readPrograms('code') }].map((json) => [
    json.name,
    parseRecipe(json, json.name),
  ]),
);

/** The built-in recipes plus those of `files`; a file's recipe replaces a built-in one of the same name. */
export async function openRecipeBook(files: string[] = []): Promise<Map<string, Recipe>> {
  const book = new Map(builtinRecipes);
  for (const path of files) {
    const recipe = await readRecipe(path);
    book.set(recipe.name, recipe);
  }
  return book;
}

/** Throws `recipe_unknown` for an unreadable file and `recipe_invalid` for an invalid recipe. */
export async function readRecipe(path: string): Promise<Recipe> {
  return parseRecipe(await readRecipeFile(path), path);
}

export function builtinProfileNames(): string[] {
  return [...builtinRecipes.keys()];
}

async function readRecipeFile(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (cause) {
    throw new BuilderError('recipe_unknown', `cannot read recipe file ${path}: ${describeError(cause)}`, {
      cause,
    });
  }
}
