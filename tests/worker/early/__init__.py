"""An app of a host that is not patient: it uses the database, and starts threads, while Django gets ready."""
