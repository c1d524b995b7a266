"""Report: services under load, in processes of their own.

process   a service that is started, pinned to a core, killed and asked for its memory
speed     a service compared with direct searches, and the clients that ask it
checked   a service that is loaded or killed by clients that check every answer
fuzzing   malformed and hostile requests
"""
