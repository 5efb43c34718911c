// Package backoff computes the waits between tries against an API server that
// may be away: small at first, so that a short outage costs little, and never
// ending. Any package of the agent may import it.
package backoff
