"""PTX text to nodes: lexer, names, declarations, operands, bodies, the module."""
