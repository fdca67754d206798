// The inventory of the open session.
import { createContext } from 'preact';
import { useContext } from 'preact/hooks';
import type { Inventory } from './inventory.ts';

const context = createContext<Inventory | undefined>(undefined);
export const InventoryProvider = context.Provider;

export function useInventory(): Inventory {
  const inventory = useContext(context);
  if (inventory === undefined) throw new Error('there is no inventory');
  return inventory;
}
