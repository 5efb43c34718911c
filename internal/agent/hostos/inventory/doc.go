// Package inventory finds out what the host is: its system, capacity, addresses
// and identity. Rooms from link on may import it.
package inventory
