"""Report: services under load, in processes of their own.

process       a service that is started, pinned to a core, killed and asked for its memory
speed         a service compared with direct searches, and the clients that ask it
checked       a service that is loaded or killed by clients that check every answer
fuzzing       odd and hostile requests, to a service and to one that reads by uvicorn's own protocol
mutations     these requests
uvicorns_own  that other service
"""
