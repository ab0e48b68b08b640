"""`python -m ci.config` writes the JSON Schemas anew after a record has changed."""

from ci.config.schema import write_schemas

write_schemas()
