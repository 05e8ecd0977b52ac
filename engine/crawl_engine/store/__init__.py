"""All SQL of the engine: schema, tables, queries and transactions."""
