"""The whole stack, deployed from its template into the emulator and used as its users and its own roles would."""
