// A process that changes a tree: `change-tree.ts <directory> <seed> <count>`.
import { apply, changes } from '../../../support/changed-tree.ts';

const [root = '', seed = '1', count = '100'] = process.argv.slice(2);
for (const change of changes(Number(seed), Number(count))) apply(root, change);
