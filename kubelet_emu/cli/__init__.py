"""The command line: one module a verb, loaded only when the verb is used."""
