"""Episodes as they are looked at and handed on: assembled, archived, counted, drawn."""
