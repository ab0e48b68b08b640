"""Files that are whole or not there, and the records that are written to them."""
