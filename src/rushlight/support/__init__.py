"""The ground floor: errors, settings, logs, provenance and the event ring. Imports nothing of Rushlight's own."""
