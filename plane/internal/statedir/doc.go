// Package statedir is what others know of a plane by its state directory: whether one serves
// it, what that tells of itself, and where its files are. They need nothing of what runs in a
// plane for that.
//
// It is imported by internal/serve, which writes what is read here, and by the commands.
package statedir
