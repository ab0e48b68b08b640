"""`python -m kernelrig.config` writes the JSON Schemas anew after a record has changed."""

from kernelrig.config.schema import write_schemas

write_schemas()
