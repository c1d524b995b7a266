"""Report: services under load, in processes of their own.

process       a service that is started, pinned to a core, killed and asked for its memory
speed         a service compared with direct searches, and the clients that ask it
checked       a service that is loaded or killed by clients that check every answer
changes       a service that is changed a hundred thousand times: what grows meanwhile
fuzzing       odd and hostile requests, to a service and to one that reads by uvicorn's own protocol
pipelines     what is sent over one connection, and how the parser reads it
mutations     single requests of these
exchange      the connections, and their answers
comparing     what differs in these, or is wrong
uvicorns_own  that other service
"""
