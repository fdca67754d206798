// Schemas as JSON Schema 2020-12, the dialect of OpenAPI 3.1.
import { z } from 'zod';

export type JsonSchema = z.core.JSONSchema.BaseSchema;

/** What may be sent, or what is answered. Throws for a schema that JSON Schema cannot describe. */
export function toJsonSchema(schema: z.ZodType): JsonSchema {
  return z.toJSONSchema(schema, {
    io: 'input',
    unrepresentable: 'throw',
    // Zod leaves out the default of what it transforms.
    override: ({ zodSchema, jsonSchema }) => {
      const { default: fallback } = z.globalRegistry.get(zodSchema) ?? {};
      if (fallback !== undefined) jsonSchema.default = fallback as JsonSchema['default'];
    },
  });
}
