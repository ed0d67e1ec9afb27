"""The section ``gateway`` of the settings: its structs, and the files that it is put together from."""
