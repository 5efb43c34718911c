// Package imports holds the import rules of the repository as a test: the folder
// tree is the architecture only as long as the arrows between its parts hold.
package imports
