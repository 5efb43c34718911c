// Package watch reads what a user may see of a management cluster from memory, which
// watches with the rights of that user keep up to date.
//
// A kind is watched from the first time on that somebody asks for it. One that the user
// may not list, or that is not installed, is an error in the API server's own words, and
// is asked for again after a while. Objects that a Reader returns, or tells a Follower of,
// are shared: nobody may change them.
//
// It imports nothing of this repository, and is imported by internal/console alone.
package watch
