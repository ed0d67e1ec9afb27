"""The section ``gateway`` of the settings: its structs, and the merging of the files that it includes."""
