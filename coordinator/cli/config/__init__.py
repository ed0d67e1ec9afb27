"""Commands about what operators write: settings, token files, definitions of procedures."""
