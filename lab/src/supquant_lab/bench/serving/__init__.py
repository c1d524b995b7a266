"""Report: services under load, in processes of their own.

process   a service that is started, pinned to a core, killed and asked for its memory
asking    clients in one process, each in a thread, and how long their searches take
speed     a service compared with direct searches
load      searches, changes and saves by another process, with every answer checked
kills     a service that is killed under changes: what was answered is there
fuzzing   requests that make no sense
"""
