// Memory of the bytes that wait to be written.
import { BlockPool } from '@sandboxd/proto';

export const blockPool = new BlockPool(65_536, 12);
