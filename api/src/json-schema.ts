// Converts schemas to JSON Schema 2020-12, the dialect of OpenAPI 3.1.
import { z } from 'zod';

export type JsonSchema = z.core.JSONSchema.BaseSchema;

/** Describes the input of a schema. Throws if JSON Schema cannot express it. */
export function toJsonSchema(schema: z.ZodType): JsonSchema {
  return z.toJSONSchema(schema, {
    io: 'input',
    unrepresentable: 'throw',
    // Zod omits the default of a transformed schema.
    override: ({ zodSchema, jsonSchema }) => {
      const { default: fallback } = z.globalRegistry.get(zodSchema) ?? {};
      if (fallback !== undefined) jsonSchema.default = fallback as JsonSchema['default'];
    },
  });
}
